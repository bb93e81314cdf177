"""Resets that fakereset takes for forged, by each kind of evidence, and honest ones that it does not."""

from __future__ import annotations

import pytest

from sluice.engine.box import RunError
from tests.functions.security import Ran, run
from tests.support.connection import Host, goodbye, handshake, pair
from tests.support.packets import checksum


def hops(frame: bytes, ttl: int) -> bytes:
    """The same frame with another TTL."""
    ip = frame[14:22] + bytes([ttl]) + frame[23:24] + bytes(2) + frame[26:34]
    return frame[:14] + ip[:10] + checksum(ip).to_bytes(2, "big") + ip[12:] + frame[34:]


def talk() -> tuple[Host, Host, list[bytes]]:
    client, server = pair()
    frames = handshake(client, server)
    frames += [client.data(b"request"), server.data(b"answer " * 100), client.send("A")]
    return client, server, frames


def forged(frames: list[bytes], parameters: str = "", step: float = 0.01) -> list[list[str]]:
    return [row["evidence"] for row in run("fakereset", frames, parameters, step=step).rows]


def test_a_reset_from_elsewhere_after_which_the_host_sends_on() -> None:
    client, server, frames = talk()
    reset = hops(server.send("R", number=server.next), 55)
    ran: Ran = run("fakereset", [*frames, reset, server.data(b"more"), client.send("A")], step=0.01)
    (row,) = ran.rows
    assert row["evidence"] == ["ttl", "goes_on"] and row["fakereset"]["src"] == "10.0.0.2" and row["packet"] == 7
    assert (row["ttl"], row["usual_ttl"], row["decided"]) == (55, [64, 64], 8)


def test_guesses_of_the_number_are_dropped() -> None:
    client, server, frames = talk()
    guesses = [hops(server.send("R", number=server.next + step), 60) for step in (0, 1460, 4380)]
    more = [server.data(b"more"), client.send("A")]
    ran = run("fakereset", [*frames, *guesses, *more], step=0.001)
    assert ran.left == [*frames, guesses[0], *more]
    assert ran.reports["fakereset_dropped"] == 2 and ran.rows[0]["evidence"] == ["ttl", "change"]
    assert run("fakereset", [*frames, *guesses], "pass").left == [*frames, *guesses]


def test_a_number_that_was_sent_already() -> None:
    _, server, frames = talk()
    stale = server.send("R", number=server.next - 200)
    assert forged([*frames, stale], "least=1") == [["sequence"]]
    assert forged([*frames, stale]) == []
    assert forged([*frames, hops(stale, 99)]) == [["ttl", "sequence"]]


def test_a_reset_that_overtakes_the_answer_to_a_syn() -> None:
    client, server = pair()
    syn = client.send("S")
    reset = hops(server.send("RA", number=0), 250)
    assert forged([syn, reset, server.send("SA"), client.send("A")], "least=1") == [["early"]]


def test_honest_resets() -> None:
    client, server, frames = talk()
    assert forged([*frames, client.send("RA")]) == []
    client, server, frames = talk()
    closed = [*frames, *goodbye(client, server), server.send("R", number=server.next)]
    assert forged(closed) == []
    client, server = pair()
    assert forged([client.send("S"), server.send("RA", number=0)]) == []
    # a host that has closed answers each segment that still comes with the number that this acknowledges
    client, server, frames = talk()
    late = [server.data(b"more"), server.data(b"more")]
    answers = [client.send("R", number=client.next) for _ in range(2)]
    assert forged([*frames, client.send("FA"), *late, *answers], "least=1") == []
    # the path changed by a hop
    client, server, frames = talk()
    assert forged([*frames, hops(client.send("R"), 63)], "least=1") == []


@pytest.mark.parametrize("least", ["least=0", "least=6", "ttl=256"])
def test_parameters_are_checked(least: str) -> None:
    with pytest.raises(RunError):
        run("fakereset", [], least)
