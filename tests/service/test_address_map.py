"""examples/address_map: the server of a client follows from its address."""

from __future__ import annotations

import contextlib
import socket
import struct
from pathlib import Path

from sluice.service.load import load_file
from tests.service.peers import PATIENCE, Served, accepting, faults, read_exactly

PROGRAM = Path(__file__).parents[2] / "examples" / "address_map" / "map.fk"
NETWORK = struct.unpack(">I", socket.inet_aton("127.1.0.0"))[0]


def test_each_client_has_the_server_of_its_address() -> None:
    def answer(end: socket.socket) -> None:
        with end, contextlib.suppress(AssertionError, OSError):
            own = end.getsockname()[0].encode()
            while True:
                read_exactly(end, int.from_bytes(read_exactly(end, 4), "big"))
                end.sendall(len(own).to_bytes(4, "big") + own)

    with contextlib.ExitStack() as stack:
        port = stack.enter_context(accepting(answer, "127.1.0.2"))
        for number in (3, 9):
            stack.enter_context(accepting(answer, f"127.1.0.{number}", port))
        served = stack.enter_context(Served(load_file(str(PROGRAM), [], {"network": NETWORK}), [port]))
        for number in (2, 3, 9, 3):
            client = stack.enter_context(
                socket.create_connection(("127.0.0.1", served.port), PATIENCE, (f"127.0.0.{number}", 0))
            )
            for body in (b"", b"x" * 100_000):
                client.sendall(len(body).to_bytes(4, "big") + body)
                assert read_exactly(client, 4 + 9)[4:] == b"127.1.0.%d" % number
        assert not faults(served.stop())
