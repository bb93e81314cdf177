"""Settings of TCP: mid-stream pick-up, enforcement of the window, how long closed connections linger."""

from __future__ import annotations

from tests.support.connection import goodbye, handshake, pair
from tests.support.run import run
from tests.support.stacks import plain_tcp


def test_a_connection_seen_from_its_middle() -> None:
    """Without pick-up, such a connection has no row and no instance; a connection captured from its SYN is complete."""
    client, server = pair(port=1000)
    middle = [client.data(b"late"), server.data(b"answer"), client.data(b"more"), *goodbye(client, server)]
    client, server = pair(port=2000)
    begun = [*handshake(client, server), client.data(b"hello"), *goodbye(client, server)]
    picked = run(plain_tcp(), [*middle, *begun])
    assert [(row["src_stream"], row["dst_stream"]) for row in picked.rows] == [(8, 6), (5, 0)]
    result = run(plain_tcp(pick_up=False), [*middle, *begun])
    whole = [row for row in result.rows if row["sport"] == 2000 or row["dport"] == 2000]
    assert [(row["src_stream"], row["state"]) for row in whole] == [(5, "TERMINATED")]
    assert whole == result.rows and len(result.named("orphan")) == len(middle)
    assert result.live["tcp"] == 1  # it lingers


def test_data_out_of_the_window() -> None:
    """What its receiver could not have taken is no part of the stream, with `enforce` or without."""
    client, server = pair(window=100)
    frames = [*handshake(client, server), client.at(5000, b"beyond"), client.data(b"within")]
    for settings in ({}, {"enforce": True}):
        result = run(plain_tcp(**settings), frames)
        (row,) = result.rows
        assert (row["src_stream"], row["src_after_gap"], row["src_outside"], row["gaps"]) == (6, 0, 6, [])
        assert result.count("tcp", "out of window") == 1


def test_how_long_it_lingers() -> None:
    client, server = pair()
    frames = [*handshake(client, server), *goodbye(client, server)]
    other, another = pair(port=7000)
    for settings, left in (({}, 1), ({"linger": 60.0}, 2)):
        later = [other.send("S"), *[another.send("SA")] * 99]  # look-ups that advance the sweep
        times = [0.0] * len(frames) + [30.0] * len(later)
        assert run(plain_tcp(**settings), [*frames, *later], times).live["tcp"] == left


def test_pieces_are_limited() -> None:
    client, server = pair()
    frames = [*handshake(client, server), *(client.at(10 + 10 * number, b"x") for number in range(5))]
    result = run(plain_tcp(limit_pieces=3), frames)
    causes = [gap["cause"] for gap in result.rows[0]["gaps"]]
    assert causes.count("limit") == 2 and result.rows[0]["src_after_gap"] == 5


def test_a_reset_that_nobody_asked_for_closes_nothing() -> None:
    """RFC 9293, 3.10.7: a reset that is the first packet of a connection has no effect."""
    client, server = pair()
    result = run(plain_tcp(), [client.send("R"), client.data(b"hello"), server.data(b"you")])
    (row,) = result.rows
    assert row["state"] == "ESTABLISHED" and row["rst"] == "src"
    assert (row["src_stream"], row["dst_stream"]) == (5, 3)
