"""sluice reload SOCKET [FUNCTION[=FILE][:PARAMETERS]]: give a running box a new version of a function in C.

The box was started by `sluice run ... --control SOCKET` and goes on meanwhile: it loses no flow and no packet. The
new version is compiled here. Then it is tried: a copy of the box's process gets copies of the packets that arrive, and
transmits and writes nothing. If the new version crashes, hangs or fails there, the box keeps the old one.

  sluice run tcp_ip -i eth1 --forward eth2 -f guard.c --control /run/box.sock
  sluice reload /run/box.sock guard                     guard.c was edited
  sluice reload /run/box.sock guard=guard-2.c           from another file
  sluice reload /run/box.sock guard:limit=20            the same file, with other parameters

Without FUNCTION, the socket is that of services: `sluice serve --control SOCKET`. They read their program or --config
again, and lose no connection.

  sluice reload /run/web.sock                           the program was edited
  sluice reload /run/web.sock --backends 10.0.0.1:80,10.0.0.2:80

State of flows and of workers is kept where its declared type is the same, else it starts anew; the command says which.
"""

from __future__ import annotations

import argparse
from typing import Any

from sluice.cli.common.errors import CommandError, UsageError
from sluice.cli.common.monitoring import RELOAD_MOST, request
from sluice.cli.common.options import add_command, seconds
from sluice.cli.common.reloading import compile_version


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(commands, "reload", __doc__, action)
    parser.add_argument("socket", metavar="SOCKET", help="that of `sluice run --control SOCKET`")
    parser.add_argument(
        "function", metavar="FUNCTION[=FILE][:PARAMETERS]", nargs="?", help="a function in C that the box has"
    )
    parser.add_argument(
        "--backends",
        action="append",
        metavar="[CHANNEL=]ADDRESS,...",
        help="for services: the backends from now on, as those of `sluice serve`",
    )
    parser.add_argument(
        "--trial", type=seconds, default=1.0, metavar="SECONDS", help="how long it is tried (default 1; at most 60)"
    )
    parser.add_argument("--no-trial", action="store_true", help="the box gets it at once: a crash then ends the box")


def action(options: argparse.Namespace) -> int:
    """Run the command."""
    from sluice.cli.main import parser  # which imports the commands

    if options.function is None:
        return _services(options)
    if options.backends is not None:
        raise UsageError("--backends is for services: give no FUNCTION with it")

    named, colon, parameters = options.function.partition(":")
    name, _, path = named.partition("=")
    about = request(options.socket, {"do": "describe"})
    if "error" in about:
        raise CommandError(f"{options.socket}: {about['error']}")
    version = compile_version(
        about, name, path or None, parameters if colon else None, lambda words: parser().parse_args(words)
    )
    trial = 0.0 if options.no_trial else options.trial
    done = request(options.socket, {**version.request, "trial": trial}, patience=trial + 30)
    if "error" in done:
        raise CommandError(f"{options.function}: {done['error']}; the box keeps the version that it has")
    print("\n".join([f"{name}: the box has the new version ({done['done']})", *version.said]))
    return 0


def _services(options: argparse.Namespace) -> int:
    """Have services reload their program, perhaps with other backends."""
    what = {"do": "reload"} if options.backends is None else {"do": "reload", "backends": options.backends}
    done = request(options.socket, what, patience=RELOAD_MOST)
    if "error" in done:
        raise CommandError(f"{options.socket}: {done['error']}; the services go on as they were")
    print(f"the services have the new version: {done['done']}")
    return 0
