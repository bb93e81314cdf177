"""Options of the commands that make a network namespace after a chain."""

from __future__ import annotations

import argparse
from ipaddress import ip_address

from sluice.cli.common.errors import UsageError
from sluice.ends.space import Outside


def add_space(parser: argparse.ArgumentParser) -> None:
    """Add NAME, --inside and --outside."""
    parser.add_argument("name", metavar="NAME", help="of the namespace; the chain forwards to NAME0")
    parser.add_argument(
        "--inside",
        action="append",
        required=True,
        metavar="ADDRESS",
        help="of the namespace on the side of the chain, as 10.1.0.1/24; may be given several times",
    )
    parser.add_argument(
        "--outside",
        metavar="INTERFACE=ADDRESS",
        help="an interface that is moved to the namespace until the end, and its address there",
    )


def outside_of(text: str | None) -> Outside | None:
    """The value of --outside. Raises UsageError."""
    if text is None:
        return None
    interface, equals, address = text.partition("=")
    if not equals or not interface or not address:
        raise UsageError(f"--outside {text}: write INTERFACE=ADDRESS, as in eth2=10.2.0.1/24")
    return Outside(interface, address)


def port_of(option: str, text: str) -> int:
    """A port. Raises UsageError."""
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise UsageError(f"{option} {text}: a port is from 1 to 65535")
    return int(text)


def is_address(text: str) -> bool:
    """Whether a text is an IPv4 or IPv6 address."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
