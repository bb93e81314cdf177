"""Beginnings of TCP connections: in order, reordered, with data, simultaneous, mid-stream, on reused ends."""

from itertools import permutations

import pytest

from tests.cases.trace import trace
from tests.support.connection import goodbye, handshake, pair
from tests.support.packets import scale

VERSIONS = pytest.mark.parametrize("version", [4, 6])


@VERSIONS
def test_plain(version: int) -> None:
    client, server = pair(version=version)
    result = trace(handshake(client, server), client.data(b"question"), server.data(b"answer"), goodbye(client, server))
    assert (result.stream(40000), result.stream(80)) == (b"question", b"answer")
    assert result.state == "TERMINATED" and result.row["end"] == "closed"
    assert result.row["gaps"] == [] and result.row["src_rexmit"] == 0
    assert (result.row["syn"], result.row["fin"], result.row["rst"]) == ("both", "both", None)


@VERSIONS
def test_data_on_the_third_packet(version: int) -> None:
    client, server = pair(version=version)
    result = trace(client.send("S"), server.send("SA"), client.send("PA", b"early"), goodbye(client, server))
    assert result.stream(40000) == b"early" and result.state == "TERMINATED"


def test_data_on_the_third_packet_with_fin() -> None:
    client, server = pair()
    result = trace(client.send("S"), server.send("SA"), client.send("PFA", b"all"), server.send("FA"), client.send("A"))
    assert result.stream(40000) == b"all" and result.state == "TERMINATED"


def test_data_on_the_syn() -> None:
    """TCP Fast Open: data on SYN lies at its number + 1."""
    client, server = pair()
    result = trace(
        client.send("S", b"fast"),
        server.send("SA", b"open"),
        client.data(b"er"),
        server.data(b"ed"),
        goodbye(client, server),
    )
    assert (result.stream(40000), result.stream(80)) == (b"faster", b"opened")
    assert result.state == "TERMINATED"


def test_data_on_the_syn_sent_again_without_it() -> None:
    client, server = pair()
    syn = client.send("S", b"fast")
    client.next -= 4
    result = trace(
        syn,
        client.send("S", number=1000),
        server.send("SA"),
        client.data(b"fast and"),
        goodbye(client, server),
    )
    assert result.stream(40000) == b"fast and" and result.row["src_rexmit"] == 4


@VERSIONS
def test_syn_ack_and_ack_reordered(version: int) -> None:
    client, server = pair(version=version)
    syn, synack, ack = handshake(client, server)
    result = trace(syn, ack, synack, client.data(b"question"), server.data(b"answer"), goodbye(client, server))
    assert (result.stream(40000), result.stream(80)) == (b"question", b"answer")
    assert result.state == "TERMINATED"


def syn_first(order: tuple[int, ...]) -> bool:
    """Whether each side's SYN is its first packet; 0 is SYN, 1 SYN/ACK, 2 ACK, 3 the request, 4 the response."""
    at = order.index
    return at(0) < min(at(2), at(3)) and at(1) < at(4)


@pytest.mark.parametrize("order", list(filter(syn_first, permutations(range(5)))))
def test_handshake_reordered_with_data(order: tuple[int, ...]) -> None:
    """All orders in which each side's SYN precedes its other packets."""
    client, server = pair()
    frames = [*handshake(client, server), client.data(b"question"), server.data(b"answer")]
    result = trace([frames[number] for number in order], goodbye(client, server))
    assert (result.stream(40000), result.stream(80)) == (b"question", b"answer")
    assert result.state == "TERMINATED" and result.row["gaps"] == []


def test_data_before_the_syn_of_its_side() -> None:
    """A stray segment, then the SYN: the SYN sets a new base, because nothing was delivered yet."""
    client, server = pair()
    syn, synack, ack = handshake(client, server)
    result = trace(ack, syn, synack, client.data(b"question"), goodbye(client, server))
    assert result.stream(40000) == b"question" and result.state == "TERMINATED"
    assert len(result.rows) == 1


def test_stray_segment_before_the_syn_ack() -> None:
    """A stray segment of an old connection on the same ends has another number; the SYN/ACK sets a new base."""
    client, server = pair()
    stray = server.send("A", number=123_456)
    result = trace(stray, handshake(client, server), server.data(b"answer"), client.data(b"question"))
    assert (result.stream(40000), result.stream(80)) == (b"question", b"answer")
    assert len(result.rows) == 1 and result.row["gaps"] == []


def test_syn_sent_again() -> None:
    client, server = pair()
    syn = client.send("S")
    synack = server.send("SA")
    result = trace(
        syn, syn, synack, syn, synack, client.send("A"), client.data(b"once"), synack, goodbye(client, server)
    )
    assert result.stream(40000) == b"once" and result.state == "TERMINATED"


@VERSIONS
def test_simultaneous_open(version: int) -> None:
    client, server = pair(version=version)
    syn, syn_back = client.send("S"), server.send("S")
    synack, synack_back = client.send("SA", number=1000), server.send("SA", number=5000)
    result = trace(
        syn,
        syn_back,
        synack,
        synack_back,
        client.data(b"question"),
        server.data(b"answer"),
        goodbye(client, server),
    )
    assert (result.stream(40000), result.stream(80)) == (b"question", b"answer")
    assert result.state == "TERMINATED" and len(result.rows) == 1


def test_simultaneous_open_is_established_without_data() -> None:
    client, server = pair()
    frames = [
        client.send("S"),
        server.send("S"),
        client.send("SA", number=1000),
        server.send("SA", number=5000),
    ]
    assert trace(frames).state == "ESTABLISHED"


@pytest.mark.parametrize(
    "count, state", [(1, "SYN_SENT"), (2, "SYN_RECEIVED"), (3, "ESTABLISHED")], ids=["syn", "syn ack", "ack"]
)
def test_half_open(count: int, state: str) -> None:
    client, server = pair()
    result = trace(handshake(client, server)[:count])
    assert result.state == state and result.row["end"] == "eof"


def test_first_seen_from_the_syn_ack() -> None:
    """The active side is the receiver of the SYN/ACK."""
    client, server = pair()
    client.send("S")
    result = trace(
        server.send("SA"),
        client.send("A"),
        client.data(b"question"),
        server.data(b"answer"),
        goodbye(client, server),
    )
    assert (result.stream(40000), result.stream(80)) == (b"question", b"answer")
    assert result.state == "TERMINATED" and result.row["src"] == "10.0.0.2"
    assert [event.side for event in result.named("packet") if event.key.get("sport") == 40000] == [0] * 4


def test_connection_refused() -> None:
    client, server = pair()
    result = trace(client.send("S"), server.send("RA", number=0))
    assert result.state == "RESET" and result.row["rst"] == "dst"


@VERSIONS
def test_capture_starts_in_mid_connection(version: int) -> None:
    client, server = pair(version=version)
    handshake(client, server)
    client.next += 100_000
    server.next += 200_000
    result = trace(client.data(b"mid"), server.data(b"dle"), client.data(b"stream"), goodbye(client, server))
    assert (result.stream(40000), result.stream(80)) == (b"midstream", b"dle")
    assert result.state == "TERMINATED" and result.row["syn"] is None and result.row["gaps"] == []


def test_capture_starts_in_mid_connection_out_of_order() -> None:
    """Byte 0 is the lowest byte that was captured and not acknowledged yet."""
    client, server = pair()
    handshake(client, server)
    first, second, third = client.data(b"aaaa"), client.data(b"bbbb"), client.data(b"cccc")
    result = trace(second, first, third, goodbye(client, server))
    assert result.stream(40000) == b"aaaabbbbcccc" and result.state == "TERMINATED"


@pytest.mark.parametrize("with_syn", [True, False])
@pytest.mark.parametrize("who", [0, 1])
def test_one_direction_only(who: int, with_syn: bool) -> None:
    hosts = pair()
    syn, synack, ack = handshake(*hosts)
    own = [syn, ack] if who == 0 else [synack]
    data = [hosts[who].data(bytes([number]) * 1000) for number in range(100)]
    result = trace(own if with_syn else [], data, hosts[who].send("FA"))
    assert result.stream(hosts[who].port) == b"".join(bytes([number]) * 1000 for number in range(100))
    assert result.row["gaps"] == []
    if with_syn:  # else byte 0 is not decided before several packets have come
        assert result.reports["pool at most"] == 0
    assert result.row["fin"] == "src" and result.state in ("FIN_WAIT_1", "CLOSE_WAIT")


def test_never_a_syn_one_direction_with_a_hole() -> None:
    client, server = pair()
    frames = [client.data(bytes([number]) * 100) for number in range(10)]
    del frames[4]
    result = trace(frames)
    assert result.stream(40000) == b"".join(bytes([number]) * 100 for number in range(10) if number != 4)
    assert result.row["gaps"] == [{"side": "src", "offset": 400, "length": 100, "cause": "close"}]
    assert server.next == 5000


def test_neither_side_scales_if_the_syn_ack_has_no_scale() -> None:
    """RFC 7323, 1.3: a FIN beyond the window is answered and dropped."""
    client, server = pair(window=1000)
    frames = [client.send("S", options=scale(7)), server.send("SA"), client.send("A"), server.data(b"hello")]
    frames += [client.send("A"), server.send("FA", number=server.isn + 60_000), server.data(b"more")]
    result = trace(frames)
    assert result.stream(server.port) == b"hellomore" and result.row["gaps"] == [] and result.state == "ESTABLISHED"


def test_window_scale_counts_only_from_the_syn() -> None:
    client, server = pair(window=1000)
    frames = handshake(client, server, scale(7))
    frames += [client.data(bytes(1000)) for _ in range(100)]
    result = trace(frames)
    assert result.count("tcp", "out of window") == 0 and len(result.stream(40000)) == 100_000


@pytest.mark.parametrize("options", [b"", scale(0)])
def test_a_copy_of_an_acknowledged_syn_ack_does_not_change_the_window(options: bytes) -> None:
    """RFC 5961, 4: the client answers it and keeps its window, which has room for data behind a hole."""
    client, server = pair(window=500)
    frames = [*handshake(client, server, scale(7)), server.data(b"hello"), client.send("A")]
    frames += [server.send("SA", number=server.isn, options=options), client.send("A")]
    first, second = server.data(bytes(1000)), server.data(bytes(1000))
    result = trace([*frames, second, first, client.send("A"), server.data(b"end")])
    assert result.stream(server.port) == b"hello" + bytes(2000) + b"end" and result.row["gaps"] == []
    assert result.count("tcp", "out of window") == 1  # the copy


def test_a_syn_ack_before_it_is_acknowledged_still_says_whether_windows_are_scaled() -> None:
    client, server = pair(window=1000)
    frames = [client.send("S", options=scale(7)), server.send("SA", options=scale(7))]
    frames += [server.send("SA", number=server.isn), client.send("A"), server.data(b"hello"), client.send("A")]
    frames += [server.send("FA", number=server.isn + 60_000), server.data(b"more")]
    result = trace(frames)
    assert result.stream(server.port) == b"hellomore" and result.row["gaps"] == [] and result.state == "ESTABLISHED"


def test_a_syn_ack_with_a_scale_that_answers_a_syn_without_one_scales_nothing() -> None:
    """RFC 7323, 2.2: both SYNs must have the option."""
    client, server = pair(window=1000)
    frames = [client.send("S"), server.send("SA", options=scale(7)), client.send("A"), client.data(b"hello")]
    frames += [server.send("A"), client.send("FA", number=client.isn + 60_000), client.data(b"more")]
    result = trace(frames)
    assert result.stream(40000) == b"hellomore" and result.row["gaps"] == [] and result.state == "ESTABLISHED"


def test_a_repeated_syn_without_the_scale_of_the_first_takes_nothing_back() -> None:
    """The SYN/ACK says which of them it answers."""
    client, server = pair(window=1000)
    frames = [client.send("S", options=scale(7)), client.send("S", number=client.isn)]
    frames += [server.send("SA", options=scale(7)), client.send("A")]
    frames += [server.data(bytes(1000)) for _ in range(100)] + [client.data(bytes(1000)) for _ in range(100)]
    result = trace(frames)
    assert result.count("tcp", "out of window") == 0 and result.row["gaps"] == []
