"""The rights that a box has while it receives packets: --user, --capabilities."""

from __future__ import annotations

import argparse
import os
import pwd
from collections.abc import Sequence
from pathlib import Path

from sluice.cli.common.errors import CommandError, UsageError
from sluice.engine.capabilities import CAPABILITIES, drop_capabilities
from sluice.engine.functions import Wanted
from sluice.engine.inputs import DPDK, XDP, Inputs

_XDP_NEEDS = (
    "CAP_NET_ADMIN",
    "CAP_NET_RAW",
    "CAP_BPF",
    "CAP_PERFMON",
    "CAP_SYS_ADMIN",
    "CAP_DAC_OVERRIDE",
    "CAP_IPC_LOCK",
)
"""To detach the XDP program from the interface at the end, and its files out of bpffs, and to open an interface that
was made again, with locked memory. AF_PACKET needs nothing after it was opened by one socket.
"""
_DPDK_NEEDS = ("CAP_NET_ADMIN",)
"""To let an interface leave the promiscuous mode at the end."""
_REOPEN_NEEDS = ("CAP_NET_RAW",)
"""To receive, by another socket, from an interface that was made again: virtual devices of DPDK, and workers among
whose sockets its packets are divided.
"""


def add_privileges(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--user",
        metavar="NAME",
        help="with -i: become this user once the interfaces and the files of functions are open",
    )
    parser.add_argument(
        "--capabilities",
        metavar="CAP_NAME,...",
        type=_names,
        default=(),
        help="with -i: rights that functions need while packets are received; all others are given up",
    )


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip().upper() for name in text.split(",") if name.strip())
    for name in names:
        if name not in CAPABILITIES:
            raise argparse.ArgumentTypeError(f"'{name}' is no capability, as CAP_NET_ADMIN (man 7 capabilities)")
    return names


def check_privileges(options: argparse.Namespace, inputs: Inputs, later: Sequence[str | None] = ()) -> None:
    """Raise UsageError or CommandError if the user cannot be changed.

    later: files that are created after that, so that the user must be able to create them.
    """
    if options.user is None:
        return
    if not inputs.live:
        raise UsageError("--user: is for interfaces, which need rights to be opened; start others as that user")
    _user(options.user)
    if os.geteuid() != 0:
        raise CommandError(f"--user {options.user}: only root can become another user")
    for path in filter(None, later):
        folder = os.path.dirname(os.path.abspath(path))
        if not _may_create(_user(options.user), folder):
            raise CommandError(
                f"{path}: it is created after the rights are given up, and {options.user} may not create files in "
                f"{folder}: name another folder, or give it to that user (chown)"
            )


def _may_create(user: pwd.struct_passwd, folder: str) -> bool:
    """Whether a user may create files in a folder: as for a process of that user."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    status = 1
    try:
        _become(user)
        status = 0 if os.access(folder, os.W_OK | os.X_OK, effective_ids=True) else 1
    finally:
        os._exit(status)


def _become(user: pwd.struct_passwd) -> None:
    os.initgroups(user.pw_name, user.pw_gid)
    os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
    os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)


def series_of(options: argparse.Namespace) -> list[str]:
    """The file of -w, if it is a series, whose files are created one after the other."""
    return [options.output] if options.output and (options.capture_size or options.capture_time) else []


def rotated(options: argparse.Namespace, wanted: Wanted) -> list[str]:
    """The logs of functions, if they are rotated."""
    if not (options.rotate_size or options.rotate_time):
        return []
    return [str(values["out"]) for values in wanted.parameters() if values.get("out")]


def copies(wanted: Wanted) -> list[str]:
    """Files that functions copy into a folder while they run."""
    return [os.path.join(str(values["extract"]), "copy") for values in wanted.parameters() if values.get("extract")]


def given_to_user(options: argparse.Namespace, folder: Path) -> None:
    """Let the user of --user write to a folder of this run."""
    if options.user is not None:
        user = _user(options.user)
        os.chown(folder, user.pw_uid, user.pw_gid)


def _user(name: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        raise CommandError(f"--user {name}: there is no such user") from None


def give_up_privileges(options: argparse.Namespace, inputs: Inputs, divided: bool = False) -> None:
    """Drop unneeded privileges, once the inputs are open. Threads that started before are not affected.

    divided: the kernel divides packets of interfaces among several sockets.
    """
    if not inputs.live:
        return
    keep = set(options.capabilities)
    if any(uri.startswith((XDP, f"{DPDK}net_af_xdp")) for uri in inputs.uris):
        keep |= set(_XDP_NEEDS)
    if any(uri.startswith(DPDK) for uri in inputs.uris):
        keep |= set(_DPDK_NEEDS)
    if inputs.awaits_removed and (divided or any(uri.startswith(DPDK) and "iface=" in uri for uri in inputs.uris)):
        keep |= set(_REOPEN_NEEDS)

    def become() -> None:
        _become(_user(options.user))

    try:
        left = drop_capabilities(keep, become if options.user is not None else None)
    except OSError as error:
        raise CommandError(f"the rights of this process cannot be given up: {error.strerror}") from error
    if missing := set(options.capabilities) - set(left):
        raise CommandError(f"--capabilities: this process has no {', '.join(sorted(missing))}")
