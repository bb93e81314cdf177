"""The options for packet sources: files, folders, standard input, interfaces."""

from __future__ import annotations

import argparse
import glob
import os
import re
import sys
from collections.abc import Callable

from sluice.cli.common.errors import CommandError, UsageError
from sluice.engine.dpdk import DpdkError, dpdk_flags
from sluice.engine.inputs import DPDK, INTERFACE, STANDARD_INPUT, TAP, XDP, Inputs, is_interface

_SCHEME = re.compile(r"[a-z_]+:")
_CAPTURE = re.compile(r"\.(pcap|pcapng|cap|dmp)\d*(\.(gz|zst|lz4|xz))?$", re.IGNORECASE)
"""The names of captures in a folder, including those that `tcpdump -C` numbers."""
_SNAP_MOST = 1 << 18
_RING_MOST = 16384
"""MiB."""


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Add the options -r and -i, and those that refine them."""
    parser.add_argument(
        "-r",
        action="append",
        default=[],
        metavar="FILE",
        dest="files",
        help="capture file (pcap or pcapng), perhaps compressed (gzip, zstd, lz4, xz), a folder of them, a quoted"
        " pattern such as 'dir/**/*.pcap*', or - for standard input; may be given several times: packets are taken in"
        " the order of time",
    )
    parser.add_argument(
        "-i",
        action="append",
        default=[],
        metavar="INTERFACE",
        dest="interfaces",
        help="interface to receive from until Ctrl-C or SIGTERM, `any` for all, xdp:INTERFACE by AF_XDP, "
        "tap:NAME for a TAP device, dpdk:DEVICE for one of DPDK, as in "
        "dpdk:net_af_packet0,iface=eth0; may be given several times",
    )
    parser.add_argument(
        "--dpdk",
        default="",
        metavar="OPTIONS",
        help="with -i dpdk:DEVICE: the options with which DPDK starts, as in '-l 0 -m 1024' (default: without "
        "hugepages)",
    )
    parser.add_argument("--follow", action="store_true", help="files still grow: wait for more until Ctrl-C or SIGTERM")
    parser.add_argument(
        "--no-promiscuous", action="store_true", help="with -i: only packets that are for this host, or sent by it"
    )
    parser.add_argument(
        "--on-removal",
        choices=("wait", "end"),
        default="wait",
        help="with -i: what to do when an interface is removed: wait until it is made again (default), or end the run"
        " with that fault",
    )
    parser.add_argument(
        "--ring",
        type=_bounded("MiB", _RING_MOST),
        default=0,
        metavar="MIB",
        help="with -i: memory of each interface's receive ring (default 64 MiB)",
    )
    parser.add_argument(
        "--snaplen",
        type=_bounded("bytes", _SNAP_MOST),
        default=0,
        metavar="BYTES",
        help="with -i: captured bytes of each packet (default: all)",
    )
    parser.add_argument(
        "--filter",
        default="",
        metavar="TEXT",
        help="process only packets that a filter in pcap syntax accepts, as in 'tcp port 80' (of an interface, in the "
        "kernel); needs libpcap",
    )


def _bounded(unit: str, most: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        if not text.isdecimal() or not 1 <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"'{text}' is not a number of {unit} from 1 to {most}")
        return int(text)

    return convert


def inputs_of(options: argparse.Namespace) -> Inputs:
    """The inputs of the command line.

    Raises UsageError if there are none or they exclude each other, and CommandError for a folder without captures.
    """
    if not options.files and not options.interfaces:
        raise UsageError("where do packets come from? Give -r FILE, or -i INTERFACE")
    if options.files.count(STANDARD_INPUT) > 1:
        raise UsageError("-r -: standard input can be read once")
    if options.dpdk and not any(name.startswith(DPDK) for name in options.interfaces):
        raise UsageError("--dpdk: is for devices of DPDK, given by -i dpdk:DEVICE")
    if options.follow and not options.files:
        raise UsageError("--follow: is for files that grow, given by -r FILE")
    _check_once(options.interfaces)
    files = [path for given in options.files for path in _files(given)]
    uris = [path if path == STANDARD_INPUT else f"file:{path}" for path in files]
    uris += [_interface(name) for name in options.interfaces]
    return Inputs(
        tuple(uris),
        options.follow,
        not options.no_promiscuous,
        options.ring << 20,
        options.snaplen,
        options.filter,
        dpdk=options.dpdk,
        awaits_removed=options.on_removal == "wait",
    )


def device_of(name: str) -> str:
    """The network interface of a name that -i takes; the name itself for other devices."""
    return name.removeprefix(INTERFACE).removeprefix(XDP)


def _check_once(interfaces: list[str]) -> None:
    """Raise UsageError if packets of an interface would be received twice."""
    devices = [device_of(name) for name in interfaces]
    for number, device in enumerate(devices):
        if device in devices[:number]:
            raise UsageError(f"-i {interfaces[number]}: is given twice, so each packet would count twice: give it once")
    others = [name for name, device in zip(interfaces, devices, strict=True) if device != "any"]
    if "any" in devices and others:
        raise UsageError(f"-i any: receives from all interfaces, so from {others[0]} as well: leave one of both out")


def check_inputs(inputs: Inputs) -> None:
    """Raise CommandError if a file cannot be read. Call before anything is compiled or written."""
    for uri in inputs.uris:
        if uri.startswith(DPDK):
            _check_dpdk(uri)
        if not is_interface(uri):
            _check_readable(uri.removeprefix("file:"))


def named(inputs: Inputs) -> str:
    """The inputs as a text for messages: the first, and the number of the others."""
    first = inputs.uris[0]
    for scheme in ("file:", INTERFACE, XDP, TAP, DPDK):
        first = first.removeprefix(scheme)
    return first if len(inputs.uris) == 1 else f"{first} and {len(inputs.uris) - 1} more"


def input_files(inputs: Inputs) -> list[str]:
    """The paths of the inputs that are files."""
    return [uri.removeprefix("file:") for uri in inputs.uris if uri.startswith("file:")]


def _interface(name: str) -> str:
    if is_interface(name):
        return name
    if _SCHEME.match(name):
        raise UsageError(
            f"-i {name}: interfaces are received from by their names, as in -i eth0, or by AF_XDP, as in -i xdp:eth0, "
            "or are made, as in -i tap:tap0, or are devices of DPDK, as in -i dpdk:net_af_packet0,iface=eth0"
        )
    return INTERFACE + name


def _files(given: str) -> list[str]:
    """The file with that name, the captures in the folder, or the files that match the pattern."""
    if given != STANDARD_INPUT and not os.path.lexists(given) and glob.has_magic(given):
        matching = sorted(path for path in glob.iglob(given, recursive=True) if os.path.isfile(path))
        if not matching:
            raise CommandError(f"{given}: no file matches this pattern")
        return matching
    if given == STANDARD_INPUT or not os.path.isdir(given):
        return [given]
    try:
        names = sorted(os.listdir(given))
    except OSError as error:
        raise CommandError(f"{given}: {error.strerror}") from error
    captures = [name for name in names if _CAPTURE.search(name) and os.path.isfile(os.path.join(given, name))]
    if not captures:
        raise CommandError(
            f"{given}: the folder has no capture file (named *.pcap, *.pcapng, *.cap or *.dmp, perhaps with .gz)"
        )
    if len(captures) < len(names):
        left_out = f"{len(names) - len(captures)} of {len(names)} names are not those of captures and are left out"
        print(f"sluice: note: {given}: {left_out}", file=sys.stderr)
    return [os.path.join(given, name) for name in captures]


def _check_dpdk(uri: str) -> None:
    """Raise CommandError if DPDK is not installed."""
    try:
        dpdk_flags()
    except DpdkError as error:
        raise CommandError(f"{uri}: {error}") from error


def _check_readable(path: str) -> None:
    """Raise CommandError if a file cannot be read."""
    if path == STANDARD_INPUT:
        if sys.stdin is None or sys.stdin.isatty():
            raise CommandError(
                "-: standard input is a terminal: give a capture, as in `tcpdump -w - | sluice ... -r -`"
            )
        return
    if not os.path.exists(path):
        raise CommandError(f"{path}: No such file or directory")
    if not os.access(path, os.R_OK):
        raise CommandError(f"{path}: Permission denied")
