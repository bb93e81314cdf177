"""sluice proxy NAME: a proxy of byte streams after a chain, with the kernel's TCP and the addresses of both ends.

It makes a network namespace NAME, and the interface NAME0, to which a chain forwards. Clients reach servers through
the namespace, as through a router: --inside is its address on the side of the chain; --outside names an interface of
this host that leads to the servers, which is moved there, and its address. Connections to --port end there: for each,
one is opened to where it led, or to --server, with the client's address. Everything else is forwarded. Ctrl-C or
SIGTERM ends it, and removes what was made. With --save FILE, SIGUSR2 writes its connections to the file and ends it;
another proxy, also on another host that takes its place, goes on with them by --restore FILE.

  sluice proxy split --inside 10.1.0.1/24 --outside eth2=10.2.0.1/24 --port 80
  sluice chain guard.py -i eth1 --forward split0

It needs root, iproute2 and ethtool.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from typing import IO, Any

from sluice.cli.common.ends import add_space, is_address, outside_of, port_of
from sluice.cli.common.errors import UsageError
from sluice.cli.common.files import check_output
from sluice.cli.common.options import add_command, count_from_1, number_between
from sluice.cli.common.progress import busy
from sluice.ends.build import build_proxy
from sluice.ends.run import exits_on_term, run_in
from sluice.ends.space import Space

_IDLE = number_between("a number of seconds", 0, 1 << 31)


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(commands, "proxy", __doc__, action)
    add_space(parser)
    parser.add_argument("--port", required=True, metavar="N", help="connections to it end here")
    parser.add_argument("--server", metavar="ADDRESS:PORT", help="where all of them lead (default: where clients say)")
    parser.add_argument(
        "--connections", type=count_from_1("connections"), default=65536, metavar="N", help="at once (65536)"
    )
    parser.add_argument(
        "--idle", type=_IDLE, default=300, metavar="SECONDS", help="after which a connection ends; 0: never (300)"
    )
    parser.add_argument(
        "--save", metavar="FILE", default="", help="at SIGUSR2, write the connections to this file, and end: they move"
    )
    parser.add_argument("--restore", metavar="FILE", default="", help="go on with the connections of such a file")
    parser.add_argument("--json", action="store_true", help="print JSON")


def action(options: argparse.Namespace) -> int:
    """Run the command."""
    as_json: bool = options.json
    port, outside = port_of("--port", options.port), outside_of(options.outside)
    if outside is None:
        raise UsageError("--outside is missing: name the interface to the servers, as in --outside eth2=10.2.0.1/24")
    server: tuple[str, int] | None = None
    if options.server is not None:
        address, colon, number = options.server.rpartition(":")
        if not colon or not is_address(address.strip("[]")):
            raise UsageError(f"--server {options.server}: write ADDRESS:PORT, as in 10.2.0.10:8080")
        server = address.strip("[]"), port_of("--server", number)
    if options.save:
        check_output(options.save)
        if os.path.lexists(options.save):
            raise UsageError(f"--save {options.save}: exists; connections are written to a new file: give another name")
    with busy("compiling"):
        program = build_proxy()
    command = [str(program), str(port), str(options.connections), str(options.idle)]
    command += [os.path.abspath(one) if one else "" for one in (options.save, options.restore)]
    command += [server[0], str(server[1])] if server else []
    space = Space(options.name, tuple(options.inside), outside, port, server[1] if server else None)
    space.held = bool(options.restore)

    def ready(output: IO[str] | None) -> None:
        if output is not None and output.readline():
            if options.restore:
                space.release()
            print(json.dumps({"ready": space.interface}) if as_json else f"forward to {space.interface}", flush=True)

    def save(process: int) -> bool:
        os.kill(process, signal.SIGUSR2)
        return True

    with exits_on_term(), space:
        status, text = run_in(space, command, ready, pipe=True, move=save if options.save else None)
    if status:
        print("sluice: the proxy has ended by an error or a signal: its connections are lost", file=sys.stderr)
    if text.strip():
        counted: dict[str, int] = json.loads(text)
        width = max(len(f"{value:,}") for value in counted.values())
        lines = [f"{value:>{width},} {name}" for name, value in counted.items()]
        print(json.dumps(counted) if as_json else "\n".join(lines))
    return 1 if status else 0
