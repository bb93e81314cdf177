"""The rights that a box has while it receives packets: --user, --capabilities."""

from __future__ import annotations

import argparse
import os
import pwd

from sluice.cli.common.errors import CommandError, UsageError
from sluice.engine.capabilities import CAPABILITIES, drop_capabilities
from sluice.engine.inputs import XDP, Inputs

_XDP_NEEDS = ("CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_BPF", "CAP_PERFMON", "CAP_SYS_ADMIN", "CAP_DAC_OVERRIDE")
"""To take the XDP program off the interface at the end, and its files out of bpffs. AF_PACKET needs nothing after it
was opened.
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


def check_privileges(options: argparse.Namespace, inputs: Inputs) -> None:
    """Raise UsageError or CommandError if the user cannot be changed."""
    if options.user is None:
        return
    if not inputs.live:
        raise UsageError("--user: is for interfaces, which need rights to be opened; start others as that user")
    _user(options.user)
    if os.geteuid() != 0:
        raise CommandError(f"--user {options.user}: only root can become another user")


def _user(name: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        raise CommandError(f"--user {name}: there is no such user") from None


def give_up_privileges(options: argparse.Namespace, inputs: Inputs) -> None:
    """Drop what is not needed any more, once the inputs are open. Threads that started before are not affected."""
    if not inputs.live:
        return
    keep = set(options.capabilities)
    if any(uri.startswith(XDP) for uri in inputs.uris):
        keep |= set(_XDP_NEEDS)

    def become() -> None:
        user = _user(options.user)
        os.initgroups(user.pw_name, user.pw_gid)
        os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
        os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)

    try:
        left = drop_capabilities(keep, become if options.user is not None else None)
    except OSError as error:
        raise CommandError(f"the rights of this process cannot be given up: {error.strerror}") from error
    if missing := set(options.capabilities) - set(left):
        raise CommandError(f"--capabilities: this process has no {', '.join(sorted(missing))}")
