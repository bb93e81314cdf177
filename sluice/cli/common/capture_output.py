"""The options of the capture file that a command writes: -w, and its bounds."""

from __future__ import annotations

import argparse

from sluice.cli.common.errors import UsageError
from sluice.cli.common.options import byte_count, count_from_1, seconds
from sluice.engine.inputs import Rotation


def add_written(parser: argparse.ArgumentParser, what: str) -> None:
    """Add -w and the options of rotation. what: the packets that the file gets."""
    parser.add_argument(
        "-w",
        metavar="FILE",
        dest="output",
        help=f"capture file (pcap) for {what}; compressed if it ends with .gz, .zst, .lz4 or .xz",
    )
    parser.add_argument(
        "--capture-size",
        type=byte_count("bytes of a file"),
        default=0,
        metavar="BYTES",
        help="with -w out.pcap: files out-00001.pcap, ..., of at most so many bytes before compression",
    )
    parser.add_argument(
        "--capture-time",
        type=seconds,
        default=0.0,
        metavar="SECONDS",
        help="with -w: the same by the time of packets; both may be given",
    )
    parser.add_argument(
        "--capture-files",
        type=count_from_1("files"),
        default=0,
        metavar="N",
        help="with --capture-size or --capture-time: keep the last N files only",
    )


def rotation_of(options: argparse.Namespace) -> Rotation:
    """The rotation of the command line. Raises UsageError for options that have no effect."""
    rotates = options.capture_size or options.capture_time
    if rotates and options.output is None:
        raise UsageError("--capture-size, --capture-time: are for the file that -w writes; add -w FILE")
    if options.capture_files and not rotates:
        raise UsageError("--capture-files: says how many files are kept; add --capture-size or --capture-time")
    return Rotation(options.capture_size, options.capture_time, options.capture_files)
