"""Ends of TCP connections: half close, full close, simultaneous close, reset, and reuse of the same ends."""

from itertools import permutations

import pytest

from tests.cases.trace import trace
from tests.support.connection import Host, goodbye, handshake, pair
from tests.support.run import run
from tests.support.stacks import plain_tcp, whole

VERSIONS = pytest.mark.parametrize("version", [4, 6])


def opened(**settings: int) -> tuple[Host, Host, list[bytes]]:
    """Two hosts with a connection, and the packets of its handshake."""
    client, server = pair(**settings)  # type: ignore[arg-type]
    return client, server, handshake(client, server)


@VERSIONS
@pytest.mark.parametrize("closer", [0, 1])
def test_fin_finack_ack(version: int, closer: int) -> None:
    client, server, frames = opened(version=version)
    hosts = (client, server)
    result = trace(frames, goodbye(hosts[closer], hosts[1 - closer]))
    assert result.state == "TERMINATED" and result.count("tcp", "instances") == 1


def test_every_packet_of_the_close_may_be_missing_but_the_state_says_so() -> None:
    client, server, frames = opened()
    fin, fin_back, ack = goodbye(client, server)
    assert trace(frames, fin).state == "FIN_WAIT_1"
    assert trace(frames, fin, fin_back).state == "TIME_WAIT"
    assert trace(frames, fin_back, ack).state == "CLOSE_WAIT_2"


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_close_in_any_order(order: tuple[int, ...]) -> None:
    client, server, frames = opened()
    end = [client.send("FA"), server.send("A"), server.send("FA"), client.send("A")]
    assert trace(frames, [end[number] for number in order]).state == "TERMINATED"


def test_data_in_the_fin_segment() -> None:
    client, server, frames = opened()
    result = trace(
        frames,
        client.data(b"nearly "),
        client.send("FPA", b"all"),
        server.send("FPA", b"too"),
        client.send("A"),
    )
    assert (result.stream(40000), result.stream(80)) == (b"nearly all", b"too")
    assert result.state == "TERMINATED"


def test_fin_with_data_counts_its_data_once() -> None:
    """FIN takes the number after its data: only an acknowledgement of both ends the connection."""
    client, server, frames = opened()
    fin = client.send("FPA", b"0123456789")
    partly = server.send("FA", ack=client.next - 1)
    result = trace(frames, fin, partly)
    assert result.state == "CLOSING" and result.stream(40000) == b"0123456789"
    result = trace(frames, fin, partly, server.send("A"), client.send("A"))
    assert result.state == "TERMINATED" and result.row["src_payload"] == 10 and result.row["src_rexmit"] == 0


def test_fin_with_data_out_of_order() -> None:
    client, server, frames = opened()
    data, fin = client.data(b"nearly "), client.send("FPA", b"all")
    result = trace(frames, fin, data, server.send("FA"), client.send("A"))
    assert result.stream(40000) == b"nearly all" and result.state == "TERMINATED" and result.row["gaps"] == []


def test_fin_sent_again_with_less_data() -> None:
    client, server, frames = opened()
    fin = client.send("FPA", b"abcd")
    again = client.send("FA", b"cd", number=client.isn + 3)
    result = trace(frames, fin, again, again, server.send("FA"), client.send("A"))
    assert result.stream(40000) == b"abcd" and result.state == "TERMINATED" and result.row["src_rexmit"] == 4


@VERSIONS
def test_data_after_half_close(version: int) -> None:
    client, server, frames = opened(version=version)
    answer = [server.data(bytes([number]) * 1000) for number in range(50)]
    result = trace(frames, client.data(b"question"), client.send("FA"), answer, server.send("FA"), client.send("A"))
    assert result.stream(80) == b"".join(bytes([number]) * 1000 for number in range(50))
    assert result.stream(40000) == b"question" and result.state == "TERMINATED"


def test_half_close_with_acknowledgements() -> None:
    client, server, frames = opened()
    frames += [client.send("FA"), server.send("A"), server.data(b"answer"), client.send("A")]
    assert trace(frames).state == "FIN_WAIT_2"
    result = trace(frames, server.send("FA"), client.send("A"))
    assert result.state == "TERMINATED" and result.stream(80) == b"answer"


@VERSIONS
def test_simultaneous_close(version: int) -> None:
    client, server, frames = opened(version=version)
    ours, theirs = client.send("FA", ack=server.next), server.send("FA", ack=client.next - 1)
    assert trace(frames, ours, theirs).state == "CLOSING"
    assert trace(frames, ours, theirs, client.send("A")).state == "LAST_ACK"
    assert trace(frames, ours, theirs, server.send("A")).state == "TIME_WAIT"
    assert trace(frames, ours, theirs, client.send("A"), server.send("A")).state == "TERMINATED"


def test_late_packets_count_on_the_closed_connection() -> None:
    client, server, frames = opened()
    data = client.data(b"again")
    end = goodbye(client, server)
    result = trace(frames, data, end, data, end[1], end[2])
    assert result.stream(40000) == b"again" and result.row["src_pkts"] == 7 and result.row["src_rexmit"] == 5
    assert len(result.rows) == 1 and result.state == "TERMINATED"


# --- reset ------


@pytest.mark.parametrize("who", [0, 1])
def test_reset(who: int) -> None:
    client, server, frames = opened()
    data = [client.data(b"question"), server.data(b"answer")]
    result = trace(frames, data, (client, server)[who].send("R"))
    assert result.state == "RESET" and (result.stream(40000), result.stream(80)) == (b"question", b"answer")
    assert result.row["rst"] == ("src", "dst")[who] and result.row["end"] == "closed"


@pytest.mark.parametrize("distance", [1 << 20, 1 << 30, (1 << 32) - (1 << 20), -2, -1])
def test_reset_out_of_window(distance: int) -> None:
    """Such a reset neither ends the connection nor blocks the following packets."""
    client, server, frames = opened(window=1000)
    before = client.data(b"before ")
    frames += [
        before,
        server.send("A"),
        client.send("R", number=client.next + distance),
        client.data(b"after"),
    ]
    result = trace(frames)
    assert result.state == "ESTABLISHED" and result.stream(40000) == b"before after"
    result = trace(frames, goodbye(client, server))
    assert result.state == "TERMINATED" and result.row["rst"] == "src"


def test_reset_in_window_is_believed() -> None:
    client, server, frames = opened(window=1000)
    frames += [client.data(b"data"), server.send("A")]
    assert trace(frames, client.send("R", number=client.next + 999)).state == "RESET"
    assert trace(frames, client.send("R", number=client.next + 1000)).state == "ESTABLISHED"


def test_every_reset_is_believed_by_option() -> None:
    client, server, frames = opened(window=1000)
    frames += [server.send("A"), client.send("R", number=client.next + (1 << 30))]
    assert run(plain_tcp(resets="always"), frames).state == "RESET"
    assert run(plain_tcp(), frames).state == "ESTABLISHED"


def test_bytes_on_a_reset_are_not_part_of_the_stream() -> None:
    client, server, frames = opened()
    result = trace(frames, client.data(b"data"), client.send("RA", b"because"), client.at(4, b"more"))
    assert result.stream(40000) == b"datamore" and result.state == "RESET"
    assert server.next == 5001


# --- the same ends again ------


def again(client: Host, isn: int, peer_isn: int) -> tuple[Host, Host]:
    """The same two ends with new initial numbers."""
    assert client.peer is not None
    return pair(isn, peer_isn, port=client.port)


@pytest.mark.parametrize("isn", [1000, 900_000, 1001])
def test_ends_used_again_after_close(isn: int) -> None:
    client, server, frames = opened()
    frames += [client.data(b"old"), server.data(b"OLD"), *goodbye(client, server)]
    other, peer = again(client, isn, 777)
    frames += [*handshake(other, peer), other.data(b"new"), peer.data(b"NEW"), *goodbye(other, peer)]
    result = trace(frames)
    assert result.streams(40000) == [b"old", b"new"] and result.streams(80) == [b"OLD", b"NEW"]
    assert [row["state"] for row in result.rows] == ["TERMINATED", "TERMINATED"]
    assert [row["src_pkts"] for row in result.rows] == [5, 5]


@pytest.mark.parametrize("isn", [1000, 900_000])
def test_ends_used_again_after_reset(isn: int) -> None:
    client, server, frames = opened()
    frames += [client.data(b"old"), server.send("R")]
    other, peer = again(client, isn, 777)
    result = trace(frames, handshake(other, peer), other.data(b"new"))
    assert result.streams(40000) == [b"old", b"new"]
    assert [row["state"] for row in result.rows] == ["RESET", "ESTABLISHED"]


def test_ends_used_again_without_a_close() -> None:
    """Without FIN and RST, a SYN with another number begins the new connection."""
    client, _, frames = opened()
    frames += [client.data(b"old"), client.at(1000, b"stuck behind a hole")]
    other, peer = again(client, 900_000, 777)
    result = trace(frames, handshake(other, peer), other.data(b"new"), goodbye(other, peer))
    assert result.streams(40000) == [b"oldstuck behind a hole", b"new"]
    assert [row["end"] for row in result.rows] == ["reused", "closed"]
    assert result.rows[0]["gaps"] == [{"side": "src", "offset": 3, "length": 997, "cause": "close"}]
    assert result.rows[1]["gaps"] == []


def test_ends_used_again_by_the_other_side() -> None:
    client, server, frames = opened()
    frames += [client.data(b"old"), *goodbye(client, server)]
    other, peer = again(client, 31, 32)
    result = trace(frames, handshake(peer, other), peer.data(b"new"), goodbye(peer, other))
    assert result.streams(80) == [b"", b"new"] and [row["src"] for row in result.rows] == [
        "10.0.0.1",
        "10.0.0.2",
    ]
    assert [row["state"] for row in result.rows] == ["TERMINATED", "TERMINATED"]


def test_reset_that_does_not_count_lets_the_same_syn_begin_anew() -> None:
    """TRUTH.md: any earlier FIN or RST, whether or not it took effect."""
    client, server, frames = opened(window=1000)
    frames += [server.send("A"), client.send("R", number=client.next + (1 << 30))]
    result = trace(frames, client.send("S", number=1000))
    assert [row["state"] for row in result.rows] == ["ESTABLISHED", "SYN_SENT"]
    assert [row["end"] for row in result.rows] == ["reused", "eof"]


def test_late_syn_of_a_connection_heard_without_it() -> None:
    client, server = pair()
    syn, synack, ack = handshake(client, server)
    first, second = client.data(b"first"), client.data(b"second")
    assert len(trace(ack, first, syn).rows) == len(trace(first, syn).rows) == 1
    assert len(trace(second, syn).rows) == 1  # of the first flight that it opens
    assert synack


def test_syn_of_a_side_not_heard_before_begins_nothing() -> None:
    client, server, frames = opened()
    del frames[1]
    assert len(trace(frames, client.send("FA"), server.send("S", number=5000)).rows) == 1


def test_reuse_many_times() -> None:
    frames: list[bytes] = []
    for number in range(100):
        client, server = pair(1000 + number * 77_777, 5000 + number * 33_333)
        frames += [*handshake(client, server), client.data(b"%d" % number)]
        frames += goodbye(client, server) if number % 3 else [client.send("R")] if number % 2 else []
    result = run(whole(), frames)
    assert result.streams(40000) == [b"%d" % number for number in range(100)]
