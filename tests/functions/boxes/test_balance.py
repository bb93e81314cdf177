"""The health of servers that balance finds from connections: refused and unanswered attempts, recovery."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.functions.boxes.test_nat import datagram, ends
from tests.functions.security import Ran, run, wrong_checksums
from tests.support.connection import Host, handshake

CLIENT, VIRTUAL = bytes([198, 51, 100, 1]), bytes([192, 0, 2, 10])
ONE, TWO = bytes([10, 9, 0, 1]), bytes([10, 9, 0, 2])


def opening(port: int) -> list[bytes]:
    """A client's SYN and the acknowledgement of the SYN/ACK that it got."""
    client, server = Host(CLIENT, port, 1), Host(VIRTUAL, 80, 5)
    client.peer, server.peer = server, client
    first, _, last = handshake(client, server)
    return [first, last]


def refusal(server: bytes, port: int) -> bytes:
    """A server's reset, from its own address, as on the wire, or from the virtual one, as at the clients."""
    return Host(server, 80, 0, peer=Host(CLIENT, port, 1)).send("RA")


def balance(frames: Sequence[bytes], times: Sequence[float], parameters: str = "") -> Ran:
    given = ",".join(filter(None, ["servers=10.9.0.1+10.9.0.2,failures=2,wait=1,down=20", parameters]))
    return run("balance", frames, given, times=times, rows=False)


def servers(ran: Ran) -> list[int]:
    """The servers that SYNs went to."""
    return [frame[33] for frame in ran.left if frame[47] == 2]


def test_a_server_that_refuses_goes_down_and_is_tried_again() -> None:
    frames: list[bytes] = []
    for port in range(1000, 1008):
        frames += opening(port)[:1]
        frames += [refusal(VIRTUAL, port)] if port in (1000, 1002) else opening(port)[1:] if port != 1004 else []
    frames += opening(1010)[:1]
    times = [1000 + 0.01 * n for n in range(len(frames) - 1)] + [1030.0]
    ran = balance(frames, times)
    assert servers(ran) == [1, 2, 1, 2, 2, 2, 2, 2, 1]
    assert (ran.reports["went_down"], ran.reports["failed"] >= 2, ran.reports["all_down"]) == (1, True, 0)
    assert 1 in servers(balance(frames, times, "failures=0"))[4:8]


@pytest.mark.parametrize("port", ["", "port=53"])
def test_an_answer_to_an_expired_connection_keeps_no_client_from_its_server(port: str) -> None:
    """It is translated before the stack ends the connection, and leaves with the virtual address."""
    there, back = datagram(CLIENT, 1000, VIRTUAL, 53), datagram(ONE, 53, CLIENT, 1000)
    ran = balance([there, back, there, back, there], [1000, 1061, 1062, 1063, 1064], port)
    assert [ends(frame)[::2] for frame in ran.left] == [
        (CLIENT, ONE),
        (VIRTUAL, CLIENT),
        (CLIENT, ONE),
        (VIRTUAL, CLIENT),
        (CLIENT, ONE),
    ]
    assert ran.reports["balanced"] == 2 and not any(map(wrong_checksums, ran.left))


def test_a_server_that_does_not_answer() -> None:
    frames = [opening(1000)[0], *opening(1001), opening(1002)[0], *opening(1003), opening(1004)[0], opening(1005)[0]]
    times = [1000, 1000.1, 1000.2, 1000.3, 1000.4, 1000.5, 1003, 1003.1]
    ran = balance(frames, times)
    assert servers(ran) == [1, 2, 1, 2, 2, 2]
    assert (ran.reports["failed"], ran.reports["went_down"]) == (2, 1)


def test_a_refusal_on_the_wire_counts_once() -> None:
    frames = [opening(1000)[0], refusal(ONE, 1000), *opening(1001), opening(1002)[0], opening(1003)[0]]
    ran = balance(frames, [1000, 1000.1, 1000.2, 1000.3, 1005, 1005.1], "down=100")
    assert (ran.reports["failed"], ran.reports["went_down"]) == (1, 0)


def test_attempts_that_a_server_answers_on_the_wire_are_no_failures() -> None:
    """Clients of a flood never acknowledge what the server answers."""
    frames: list[bytes] = []
    for port in range(1000, 1012):
        server = ONE if port % 2 == 0 else TWO
        frames += [opening(port)[0], Host(server, 80, 5, peer=Host(CLIENT, port, 2)).send("SA")]
    frames += [opening(port)[0] for port in range(1020, 1024)]
    times = [1000 + 0.01 * n for n in range(24)] + [1005.0, 1005.1, 1005.2, 1005.3]
    ran = balance(frames, times)
    assert ran.reports["balanced"] == 16
    assert (ran.reports["failed"], ran.reports["went_down"]) == (0, 0)


def test_a_server_that_answers_others_alone_goes_down() -> None:
    """On the wire, the answer to one client says nothing about the attempt of another one."""
    frames: list[bytes] = []
    for port in range(1000, 1012):
        frames.append(opening(port)[0])
        if port % 2:
            frames.append(Host(TWO, 80, 5, peer=Host(CLIENT, port, 2)).send("SA"))
        elif port == 1010:  # the sixth attempt of the first server; those before it are due afterwards
            frames.append(Host(ONE, 80, 5, peer=Host(CLIENT, port, 2)).send("SA"))
    frames += [opening(port)[0] for port in range(1020, 1024)]
    times = [1000 + 0.01 * n for n in range(19)] + [1005.0, 1005.1, 1005.2, 1005.3]
    ran = balance(frames, times, "down=100")
    assert (ran.reports["failed"], ran.reports["went_down"]) == (5, 1)
    assert servers(ran)[-4:] == [2] * 4


def test_a_success_in_between_keeps_a_server_up() -> None:
    frames = [
        opening(1000)[0],
        refusal(VIRTUAL, 1000),
        *opening(1001),
        *opening(1002),
        *opening(1003),
        opening(1004)[0],
        refusal(VIRTUAL, 1004),
    ]
    frames += [*opening(1005), opening(1006)[0]]
    ran = balance(frames, [1000 + 0.01 * n for n in range(len(frames))])
    assert ran.reports["went_down"] == 0 and servers(ran)[-1] == 1


def test_all_are_tried_where_all_are_down() -> None:
    frames: list[bytes] = []
    for port in range(1000, 1004):
        frames += [opening(port)[0], refusal(VIRTUAL, port)]
    frames += [opening(port)[0] for port in (1010, 1011, 1012)]
    ran = balance(frames, [1000 + 0.01 * n for n in range(len(frames))])
    assert ran.reports["went_down"] == 2 and ran.reports["all_down"] == 3
    assert set(servers(ran)[-3:]) == {1, 2}


def test_a_server_that_is_down_gets_none_however_few_it_has() -> None:
    frames: list[bytes] = []
    for port in (1000, 1001, 1002):
        frames += [opening(port)[0], refusal(VIRTUAL, port)] if port != 1001 else opening(port)
    for port in range(1100, 1250):
        frames += opening(port)
    ran = balance(frames, [1000 + 0.01 * n for n in range(len(frames))])
    assert servers(ran)[3:] == [2] * 150
    assert (ran.reports["went_down"], ran.reports["all_down"]) == (1, 0)
