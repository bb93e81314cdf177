"""sluice endpoint NAME --run COMMAND: an unmodified server after a chain, in a network namespace.

It makes a network namespace NAME, and the interface NAME0, to which a chain forwards, and runs COMMAND in the
namespace: a web server, or `sluice serve`. --inside is the namespace's address on the side of the chain. Connections
to it, and to all addresses of each --local, end in the namespace; the server sees the addresses of clients. With
--outside, an interface of this host is moved there, and everything else is forwarded, as by a router. With --port,
connections to a port end there whatever their address is, if the server's sockets are transparent (IP_TRANSPARENT).
When COMMAND ends, or at Ctrl-C or SIGTERM, what was made is removed. With --save DIRECTORY, SIGUSR2 writes the server
with its connections to that new directory, by CRIU, and ends it; another endpoint, also on another host that takes the
place of this one, goes on with it by --restore DIRECTORY instead of --run.

  sluice endpoint web --inside 10.1.0.1/24 --local 192.0.2.10/32 --run "nginx -g 'daemon off;'"
  sluice chain guard.py -i eth1 --forward web0

It needs root, iproute2 and ethtool; to move, CRIU.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from sluice.cli.common.ends import add_space, outside_of, port_of
from sluice.cli.common.errors import UsageError
from sluice.cli.common.options import add_command
from sluice.ends import moves
from sluice.ends.run import exits_on_term, run_in
from sluice.ends.space import Space
from sluice.engine.trust import UntrustedError, check_folder


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(commands, "endpoint", __doc__, action)
    add_space(parser)
    parser.add_argument(
        "--local",
        action="append",
        default=[],
        metavar="PREFIX",
        help="addresses whose connections end here, as 192.0.2.0/24; may be given several times",
    )
    parser.add_argument("--port", metavar="N", help="connections to it end here, for a server with transparent sockets")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--run", metavar="COMMAND", help="the server, a command with its words")
    parser.add_argument(
        "--save", metavar="DIRECTORY", help="at SIGUSR2, write the server and its connections there, and end: they move"
    )
    parser.add_argument("--restore", metavar="DIRECTORY", help="go on with a server that was written there")


def action(options: argparse.Namespace) -> int:
    """Run the command."""
    save, restore = (None if each is None else Path(each).absolute() for each in (options.save, options.restore))
    if (options.run is None) == (restore is None):
        raise UsageError("give either --run, a server, or --restore, one that was saved")
    command = [] if options.run is None else _words(options.run)
    if restore is not None and not (restore / moves.IMAGE).is_file():
        raise UsageError(f"--restore {options.restore}: no server was saved there")
    if restore is not None:
        try:
            check_folder(restore)  # root makes processes of any user from what it has
        except UntrustedError as error:
            raise UsageError(f"--restore {options.restore}: {error}") from error
    if save is not None and (os.path.lexists(save) or not save.parent.is_dir()):
        raise UsageError(f"--save {options.save}: it is to be a new directory, in one that exists")
    port = None if options.port is None else port_of("--port", options.port)
    space = Space(options.name, tuple(options.inside), outside_of(options.outside), port, None, tuple(options.local))
    space.held, space.moves = restore is not None, save is not None or restore is not None
    as_json: bool = options.json

    def ready(output: IO[str] | None) -> None:
        if output is not None and not output.readline():
            return  # it was not restored
        space.release()
        print(json.dumps({"ready": space.interface}) if as_json else f"forward to {space.interface}", flush=True)

    with exits_on_term():
        if save is None and restore is None:
            with space:
                status, _ = run_in(space, command, ready)
        else:
            moves.check()
            with moves.copied() as output, space:
                status = _run_movable(space, command, ready, output, save, restore)
    if status:
        print(f"sluice: the server has ended with status {status}: its connections are lost", file=sys.stderr)
    return 1 if status else 0


def _run_movable(
    space: Space,
    command: list[str],
    ready: Callable[[IO[str] | None], None],
    output: int,
    save: Path | None,
    restore: Path | None,
) -> int:
    """Run a server that moves to `save`, or comes from `restore`. Its exit status, or 0 if it has moved."""
    moved: Path | None = None

    def move(server: int) -> bool:
        nonlocal moved
        assert save is not None
        try:
            moved = moves.save(server, save, output)
        except moves.MoveError as error:
            print(f"sluice: {error}", file=sys.stderr)
        return moved is not None

    on_signal = move if save is not None else None
    if restore is None:
        status, _ = run_in(space, command, ready, output=output, move=on_signal)
    else:
        words = moves.restoring(restore, output)
        status, _ = run_in(space, words, ready, True, output, on_signal, moves.server_of)
        if space.held and not moved:
            raise moves.MoveError(moves.why_not_restored(restore))
    if moved:
        print(f"sluice: the server and its connections are in {moved}", file=sys.stderr)
    return 0 if moved else status


def _words(text: str) -> list[str]:
    """Those of a command that is there."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"--run {text}: {error}") from error
    if not words or shutil.which(words[0]) is None:
        raise UsageError(f"--run {text}: there is no such command")
    return words
