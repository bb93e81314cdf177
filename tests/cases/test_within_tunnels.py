"""Errors of existing stacks, within tunnels: a test for each known case of TCP.

`none` means no tunnel; the other files of this folder test more variants of each case without a tunnel.
"""

from itertools import permutations

import pytest

from sluice.engine.box import Settings
from tests.cases.tunnel import TUNNELS, Wrap, inside, overhead, through
from tests.support.connection import Host, goodbye, handshake, pair
from tests.support.packets import eth, ip4, scale, tcp
from tests.support.run import run
from tests.support.stacks import all_protocols

LIMIT = 1 << 20
everywhere = pytest.mark.parametrize("wrap", TUNNELS.values(), ids=TUNNELS)
VERSIONS = pytest.mark.parametrize("version", [4, 6])


def opened(**settings: int) -> tuple[Host, Host, list[bytes]]:
    """Two hosts with a connection, and the packets of its handshake."""
    client, server = pair(**settings)  # type: ignore[arg-type]
    return client, server, handshake(client, server)


def text(size: int) -> bytes:
    """Bytes in which no long substring occurs twice."""
    return b"".join(number.to_bytes(4, "big") for number in range((size + 3) // 4))[:size]


@everywhere
@pytest.mark.parametrize("before", [0, 2, 501])
def test_sequence_number_wraps_in_the_stream(wrap: Wrap, before: int) -> None:
    client, server = pair((1 << 32) - 1 - before, (1 << 32) - 1 - before)
    frames = handshake(client, server)
    body = text(5000)
    pieces = [client.data(body[at : at + 500]) for at in range(0, 5000, 500)]
    result = through(wrap, frames, pieces[::-1], server.data(body), goodbye(client, server))
    assert result.stream(40000) == body == result.stream(80)
    assert result.state == "TERMINATED" and result.row["gaps"] == []


@everywhere
def test_data_in_the_fin_segment(wrap: Wrap) -> None:
    client, server, frames = opened()
    frames += [client.send("PFA", b"all"), server.send("PFA", b"of it"), client.send("A")]
    result = through(wrap, frames)
    assert (result.stream(40000), result.stream(80)) == (b"all", b"of it") and result.state == "TERMINATED"


@everywhere
def test_data_after_half_close(wrap: Wrap) -> None:
    client, server, frames = opened()
    frames += [client.send("FA"), server.data(b"still "), server.data(b"here"), server.send("FA"), client.send("A")]
    result = through(wrap, frames)
    assert result.stream(80) == b"still here" and result.state == "TERMINATED"


@everywhere
@VERSIONS
def test_data_on_the_third_packet_of_the_handshake(wrap: Wrap, version: int) -> None:
    client, server = pair(version=version)
    frames = [client.send("S"), server.send("SA"), client.send("PA", b"early")]
    result = through(wrap, frames, goodbye(client, server))
    assert result.stream(40000) == b"early" and result.state == "TERMINATED"


@everywhere
def test_syn_ack_and_ack_reordered(wrap: Wrap) -> None:
    client, server = pair()
    syn, synack, ack = handshake(client, server)
    end = [client.data(b"question"), server.data(b"answer"), *goodbye(client, server)]
    result = through(wrap, syn, ack, synack, end)
    assert (result.stream(40000), result.stream(80)) == (b"question", b"answer") and result.state == "TERMINATED"


@everywhere
def test_handshake_reordered_with_data(wrap: Wrap) -> None:
    client, server = pair()
    syn, synack, ack = handshake(client, server)
    question, answer = client.data(b"question"), server.data(b"answer")
    end = goodbye(client, server)
    for order in permutations([ack, question, synack]):
        result = through(wrap, syn, order, answer, end)
        assert (result.stream(40000), result.stream(80)) == (b"question", b"answer")
        assert result.state == "TERMINATED" and result.row["gaps"] == []


@everywhere
def test_partial_overlap(wrap: Wrap) -> None:
    client, server, frames = opened()
    result = through(wrap, frames, client.at(0, b"AAAABBBB"), client.at(4, b"xxxxCCCC"), server.send("A"))
    assert result.stream(40000) == b"AAAABBBBCCCC" and result.row["src_rexmit"] == 4
    result = through(wrap, frames, client.at(4, b"BBBBCCCC"), client.at(8, b"xxxxDDDD"), client.at(0, b"AAAAyyyy"))
    assert result.stream(40000) == b"AAAABBBBCCCCDDDD" and result.row["src_rexmit"] == 8


@everywhere
@pytest.mark.parametrize("order", ["BDACE", "EDCBA", "ECBDA", "CEABD", "DBECA"])
def test_holes_filled_in_any_order(wrap: Wrap, order: str) -> None:
    client, server, frames = opened()
    pieces = {name: client.data(name.encode() * 1000) for name in "ABCDE"}
    result = through(wrap, frames, [pieces[name] for name in order], goodbye(client, server))
    assert result.stream(40000) == b"".join(name.encode() * 1000 for name in "ABCDE")
    assert result.row["gaps"] == [] and result.state == "TERMINATED"


@everywhere
@pytest.mark.parametrize("size", [9 << 10, 64 << 10, LIMIT])
def test_much_data_after_a_hole(wrap: Wrap, size: int) -> None:
    client, server, frames = opened()
    body = text(1460 + size)
    first, *rest = [client.data(body[at : at + 1460]) for at in range(0, len(body), 1460)]
    result = through(wrap, frames, rest, first, goodbye(client, server))
    assert result.stream(40000) == body and result.row["gaps"] == [] and result.state == "TERMINATED"


@everywhere
def test_more_than_the_limit_after_a_hole(wrap: Wrap) -> None:
    """The out-of-order buffer overflows: the gap is reported with its cause, and the stream continues."""
    client, server, frames = opened()
    body = text(1000 + LIMIT + LIMIT // 2)
    rest = [client.data(body[at : at + 1000]) for at in range(0, len(body), 1000)][1:]
    result = through(wrap, frames, rest, goodbye(client, server))
    assert result.row["gaps"] == [{"side": "src", "offset": 0, "length": 1000, "cause": "limit"}]
    assert result.stream(40000) == body[1000:] and result.state == "TERMINATED"


@everywhere
@pytest.mark.parametrize("size", [1461, 9000, 64_000])
def test_segment_longer_than_the_mtu(wrap: Wrap, size: int) -> None:
    """Segments as large as segmentation offload produces."""
    client, server, frames = opened()
    body = text(size)
    first, second = client.data(body), client.data(body[::-1])
    result = through(wrap, frames, second, first, goodbye(client, server))
    assert result.stream(40000) == body + body[::-1] and result.state == "TERMINATED"


@everywhere
@pytest.mark.parametrize("distance", [1 << 20, 1 << 30, -2])
def test_reset_far_out_of_window(wrap: Wrap, distance: int) -> None:
    client, server, frames = opened()
    frames += [client.data(b"be"), server.send("A")]
    frames.append(client.send("R", number=client.next + distance))
    result = through(wrap, frames, client.data(b"fore"), goodbye(client, server))
    assert result.stream(40000) == b"before" and result.state == "TERMINATED"


@everywhere
def test_simultaneous_open(wrap: Wrap) -> None:
    client, server = pair()
    frames = [client.send("S"), server.send("S"), client.send("SA", number=1000), server.send("SA", number=5000)]
    frames += [client.data(b"question"), server.data(b"answer"), *goodbye(client, server)]
    result = through(wrap, frames)
    assert (result.stream(40000), result.stream(80)) == (b"question", b"answer")
    assert result.state == "TERMINATED" and len(result.rows) == 1


@everywhere
def test_simultaneous_close(wrap: Wrap) -> None:
    client, server, frames = opened()
    fins = [client.send("FA"), server.send("FA", ack=client.next - 1)]
    result = through(wrap, frames, fins, client.send("A"), server.send("A"))
    assert result.state == "TERMINATED" and result.row["end"] == "closed"


@everywhere
@VERSIONS
def test_fin_finack_ack(wrap: Wrap, version: int) -> None:
    """The most common close ends the connection completely."""
    client, server, frames = opened(version=version)
    result = through(wrap, frames, client.data(b"x"), goodbye(server, client))
    assert result.state == "TERMINATED" and result.row["end"] == "closed" and result.row["fin"] == "both"


@everywhere
@pytest.mark.parametrize("close", ["fin", "reset", "nothing"])
def test_the_same_ends_again(wrap: Wrap, close: str) -> None:
    """After a FIN, after a RST, and after neither."""
    client, server, frames = opened()
    frames.append(client.data(b"old"))
    frames += {"fin": goodbye(client, server), "reset": [client.send("R")], "nothing": []}[close]
    again, peer = pair(900_000, 800_000)
    frames += [*handshake(again, peer), again.data(b"new"), *goodbye(again, peer)]
    result = through(wrap, frames)
    assert result.streams(40000) == [b"old", b"new"]
    assert [row["state"] for row in result.rows][-1] == "TERMINATED"


@everywhere
@VERSIONS
def test_capture_starts_in_mid_connection(wrap: Wrap, version: int) -> None:
    client, server, _ = opened(version=version)
    client.next += 100_000
    server.next += 200_000
    frames = [client.data(b"mid"), server.data(b"dle"), client.data(b"stream"), *goodbye(client, server)]
    result = through(wrap, frames)
    assert (result.stream(40000), result.stream(80)) == (b"midstream", b"dle") and result.state == "TERMINATED"


@everywhere
def test_one_direction_only_and_never_a_syn(wrap: Wrap) -> None:
    """Only the first seven payloads are held, in case an earlier byte 0 follows, however long the stream is."""
    client, server = pair()
    body = text(100_000)
    result = through(wrap, [client.data(body[at : at + 1000]) for at in range(0, len(body), 1000)])
    assert result.stream(40000) == body and result.row["gaps"] == [] and server.next == 5000
    assert result.reports["pool at most"] <= 8 * 2080  # a block each, and one for the payload that ends the doubt


@everywhere
def test_one_byte_far_ahead(wrap: Wrap) -> None:
    client, server = pair()
    frames = handshake(client, server, scale(8))  # windows of 16 MiB
    body = text(50_000)
    frames.append(client.at(LIMIT // 2, b"!"))
    frames += [client.data(body[at : at + 1000]) for at in range(0, len(body), 1000)]
    result = through(wrap, frames)
    assert result.stream(40000) == body + b"!" and server.next == 5001
    assert result.row["gaps"] == [
        {"side": "src", "offset": len(body), "length": LIMIT // 2 - len(body), "cause": "close"}
    ]
    assert result.reports["pool at most"] < 1 << 16


@everywhere
def test_every_second_byte_missing(wrap: Wrap) -> None:
    client, server, frames = opened()
    frames += [client.at(at, b"%d" % (at % 10)) for at in range(1, 2000, 2)]
    result = through(wrap, frames)
    assert result.stream(40000) == b"".join(b"%d" % (at % 10) for at in range(1, 2000, 2))
    assert len(result.row["gaps"]) == 1000 and server.next == 5001


@everywhere
def test_fin_with_data_counts_its_data_once(wrap: Wrap) -> None:
    """The other direction acknowledges data and FIN: the data must not be counted twice."""
    client, server, frames = opened()
    frames += [client.at(4, b"data", "FA"), client.at(0, b"more")]
    client.next += 9
    result = through(wrap, frames, server.send("FA"), client.send("A"))
    assert result.stream(40000) == b"moredata" and result.state == "TERMINATED" and result.row["gaps"] == []


@everywhere
def test_retransmission_is_no_gap(wrap: Wrap) -> None:
    client, server, frames = opened()
    first, second = client.data(b"first"), client.data(b"second")
    answer = server.data(b"answer")
    result = through(wrap, frames, first, first, second, answer, first, second, answer, goodbye(client, server))
    assert (result.stream(40000), result.stream(80)) == (b"firstsecond", b"answer")
    assert result.row["gaps"] == [] and result.row["src_rexmit"] == 16 and result.state == "TERMINATED"


@everywhere
def test_data_from_the_other_side_means_nothing_is_lost(wrap: Wrap) -> None:
    client, server, frames = opened()
    first, second = client.data(b"first"), client.data(b"second")
    result = through(wrap, frames, second, server.data(b"meanwhile"), first, goodbye(client, server))
    assert result.stream(40000) == b"firstsecond" and result.row["gaps"] == []


@everywhere
def test_packets_cut_by_the_snap_length_at_any_byte(wrap: Wrap) -> None:
    """Each packet is truncated at every position: in the tunnel's headers, the inner headers, and the data."""
    client, server, frames = opened()
    frames += [client.send("A", b"question", options=scale(7)), server.data(b"answer"), *goodbye(client, server)]
    wrapped = [wrap(frame) for frame in frames]
    headers = overhead(wrap) + 54
    for snap in range(headers + 26):
        result = inside([(frame[:snap], len(frame)) for frame in wrapped], settings=Settings(seed=1))
        assert result.counters["box"]["packets"] == len(frames)
        if snap < headers - 20 + 14:  # TCP needs its header up to the flags
            assert result.rows == []
            continue
        seen = max(0, min(snap - headers - 4, 8)), max(0, min(snap - headers, 6))
        assert result.stream(40000) == b"question"[: seen[0]] and result.stream(80) == b"answer"[: seen[1]]
        assert result.state == "TERMINATED"


@everywhere
def test_syn_flood(wrap: Wrap) -> None:
    """One instance per SYN and no other memory; at the bound of the table, old instances are evicted."""
    frames = [
        wrap(eth(ip4(tcp(number, 80, 99 * number, "S"), 6, bytes([11, 0, number >> 8, number & 255]))))
        for number in range(3000)
    ]
    result = run(all_protocols(), frames, settings=Settings(seed=1, max_instances=1000))
    assert result.count("tcp", "instances") == 3000 and result.count("tcp", "ended:evicted") == 2000
    assert result.reports["pool at most"] == 0


@everywhere
def test_time_is_that_of_the_packets(wrap: Wrap) -> None:
    client, server, frames = opened()
    frames += [client.data(b"old"), client.data(b"new")]
    result = through(wrap, frames, times=[0, 0.1, 0.2, 0.3, 86_400])
    assert result.streams(40000) == [b"old", b"new"] and [row["end"] for row in result.rows] == ["timeout", "eof"]
    assert server.next == 5001


@everywhere
def test_timestamps_that_jump_back(wrap: Wrap) -> None:
    client, server, frames = opened()
    frames += [client.data(bytes([number])) for number in range(6)]
    result = through(wrap, frames, times=[5000, 5000.1, 5000.2, 5000.3, 1, 5000.4, 0, 4000, 5000.5])
    assert result.stream(40000) == bytes(range(6)) and result.row["end"] == "eof" and server.next == 5001
