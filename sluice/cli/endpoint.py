"""sluice endpoint NAME --run COMMAND: an unmodified server after a chain, in a network namespace.

It makes a network namespace NAME, and the interface NAME0, to which a chain forwards, and runs COMMAND in the
namespace: a web server, or `sluice serve`. --inside is the namespace's address on the side of the chain. Connections
to it, and to all addresses of each --local, end in the namespace; the server sees the addresses of clients. With
--outside, an interface of this host is moved there, and everything else is forwarded, as by a router. With --port,
connections to a port end there whatever their address is, if the server's sockets are transparent (IP_TRANSPARENT).
When COMMAND ends, or at Ctrl-C or SIGTERM, what was made is removed.

  sluice endpoint web --inside 10.1.0.1/24 --local 192.0.2.10/32 --run "nginx -g 'daemon off;'"
  sluice chain guard.py -i eth1 --forward web0

It needs root, iproute2 and ethtool.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
from typing import IO, Any

from sluice.cli.common.ends import add_space, outside_of, port_of
from sluice.cli.common.errors import UsageError
from sluice.cli.common.options import add_command
from sluice.ends.run import exits_on_term, run_in
from sluice.ends.space import Space


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
    parser.add_argument("--run", required=True, metavar="COMMAND", help="the server, a command with its words")


def action(options: argparse.Namespace) -> int:
    """Run the command."""
    try:
        command = shlex.split(options.run)
    except ValueError as error:
        raise UsageError(f"--run {options.run}: {error}") from error
    if not command or shutil.which(command[0]) is None:
        raise UsageError(f"--run {options.run}: there is no such command")
    port = None if options.port is None else port_of("--port", options.port)
    space = Space(options.name, tuple(options.inside), outside_of(options.outside), port, None, tuple(options.local))

    as_json: bool = options.json

    def ready(output: IO[str] | None) -> None:
        print(json.dumps({"ready": space.interface}) if as_json else f"forward to {space.interface}", flush=True)

    with exits_on_term(), space:
        status, _ = run_in(space, command, ready)
    return 1 if status else 0
