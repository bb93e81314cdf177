"""Bounds and clocks: floods, truncated packets, random bytes, timestamps that jump; and checksums if enabled."""

import random

import pytest

from sluice.engine.box import Settings
from sluice.lang import Pred, Stack
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.ipv6 import ipv6_parser
from sluice.protocols.ipv6_fragment import ipv6_fragment_parser
from tests.cases.trace import trace
from tests.support.connection import Host, goodbye, handshake, pair
from tests.support.packets import A4, B4, eth, fragments4, fragments6, ip4, scale, tcp
from tests.support.run import leaves_nothing, run, watch_all
from tests.support.stacks import checking, whole


def opened(**settings: int) -> tuple[Host, Host, list[bytes]]:
    """Two hosts with a connection, and the packets of its handshake."""
    client, server = pair(**settings)  # type: ignore[arg-type]
    return client, server, handshake(client, server)


def syn_from(number: int) -> bytes:
    """A SYN of its own address and port."""
    source = bytes([11]) + number.to_bytes(3, "big")
    return eth(ip4(tcp(number & 0xFFFF, 80, number * 99, "S", options=scale(7)), 6, source, B4))


# --- floods ------


def test_syn_flood() -> None:
    """One packet per connection: an instance and no other memory; all end because the handshake does not continue."""
    frames = [syn_from(number) for number in range(10_000)]
    result = run(whole(), frames)
    assert result.count("tcp", "instances") == 10_000 and result.reports["pool at most"] == 0
    times = [number / 10_000 for number in range(10_000)]
    client, server = pair()
    later = [client.data(b"")] * 50_000
    result = run(whole(), [*frames, *later], [*times, *[32 + number / 1000 for number in range(50_000)]])
    assert result.live["tcp_over_ipv4"] == 1 and result.count("tcp", "ended:timeout") == 10_000
    assert server.next == 5000


def test_syn_flood_on_a_full_table() -> None:
    """At the bound, old instances are evicted and counted."""
    frames = [syn_from(number) for number in range(5000)]
    result = run(whole(), frames, settings=Settings(seed=1, max_instances=1000))
    assert result.count("tcp", "instances") == 5000
    assert result.count("tcp", "ended:evicted") == 4000 and result.live["tcp_over_ipv4"] == 1000
    assert sum(row["end"] == "evicted" for row in result.rows) == 4000


def test_memory_of_the_box_is_bounded() -> None:
    """Many connections with a gap each: the box stays within its budget; those that hold for longest give up."""
    frames: list[bytes] = []
    for number in range(200):
        client, server = pair(port=2000 + number)
        frames += handshake(client, server)
        frames += [client.at(1000 * (1 + block), bytes([number]) * 1000) for block in range(20)]
    budget = 1 << 20
    result = run(whole(), frames, settings=Settings(seed=1, max_instances=1 << 16, memory=budget))
    assert result.reports["pool at most"] <= budget
    for row in result.rows:  # every byte is delivered or reported in a gap
        given_up = sum(gap["length"] for gap in row["gaps"])
        assert row["src_stream"] + row["src_after_gap"] + given_up == 21_000
    assert any(gap["cause"] == "memory" for row in result.rows for gap in row["gaps"])
    assert result.count("tcp", "memory:given up") > 0 and result.count("tcp", "bytes:no memory") == 0


def test_others_that_use_all_memory_take_no_byte_of_a_connection() -> None:
    """They give up what they hold, so that its data out of order is held until the hole is filled."""
    frames: list[bytes] = []
    for number in range(500):
        client, server = pair(port=2000 + number)
        frames += [*handshake(client, server), client.at(1000, bytes(1000 if number < 100 else 1))]
    client, server = pair(port=999)
    frames += handshake(client, server)
    frames += [client.at(10, b"b" * 10), server.send("A"), client.at(0, b"a" * 10), client.at(20, b"c" * 10)]
    client.next += 30
    frames += [client.data(bytes([number]) * 100) for number in range(50)]
    frames += goodbye(client, server)
    result = run(whole(), frames, settings=Settings(seed=1, max_instances=1 << 10, memory=1 << 16))
    (row,) = (row for row in result.rows if row["sport"] == 999)
    assert row["gaps"] == [] and (row["src_stream"], row["src_after_gap"]) == (10 + 10 + 10 + 5000, 0)
    assert row["state"] == "TERMINATED" and row["end"] == "closed"
    assert result.count("tcp", "bytes:no memory") == 0


def test_fragment_flood() -> None:
    frames = [fragments4(bytes(16), 8, id=number)[number & 1] for number in range(5000)]
    result = run(whole(), frames, settings=Settings(seed=1, max_instances=500))
    assert result.count("ipv4", "ended:evicted") == 4500 and result.rows == []
    leaves_nothing(whole(), frames[:100], result)


def test_a_stack_says_how_many_datagrams_may_be_incomplete() -> None:
    s = Stack("few")
    s.eth, s.ipv4, s.ipv6 = ethernet_parser(), ipv4_parser(datagrams=3), ipv6_parser()
    s.frag = ipv6_fragment_parser(datagrams=2)
    s += (s.eth >> s.ipv4) + Pred(s.eth.header.type == 0x0800)
    s += (s.eth >> s.ipv6) + Pred(s.eth.header.type == 0x86DD)
    s += (s.ipv6 >> s.frag) + Pred(s.ipv6.header.next == 44)
    frames = [made(bytes(16), 8, id=number)[0] for number in range(10) for made in (fragments4, fragments6)]
    result = run(watch_all(s), frames, settings=Settings(seed=1))
    assert (result.count("ipv4", "ended:evicted"), result.count("frag", "ended:evicted")) == (7, 8)


def test_fragments_of_more_datagrams_than_there_may_be() -> None:
    """A flood gets at most 65,536 instances, whatever the box's bound; a datagram during the flood is reassembled."""
    flood = [
        fragments4(bytes(16), 8, id=number & 0xFFFF, src=bytes([10, 9, number >> 16, 1]))[0] for number in range(70_000)
    ]
    good = fragments4(bytes(16), 8, id=7, src=bytes([10, 8, 0, 1]))
    frames = [*flood[:69_000], good[0], *flood[69_000:], good[1]]
    result = run(whole(), frames, settings=Settings(seed=1, timeouts=False))
    assert result.live["ipv4"] == 65_535 and result.count("ipv4", "ended:evicted") == 70_001 - 65_536
    assert result.count("ipv4", "ended:accept") == 1


def test_rubbish_of_every_length() -> None:
    choose = random.Random(5)
    frames = [choose.randbytes(size) for size in range(300)]
    frames += [eth(ip4(choose.randbytes(size))) for size in range(300)]
    for _ in range(300):
        flags = "".join(choose.sample("FSRPAU", 3))
        options = choose.randbytes(choose.randrange(41))
        frames.append(eth(ip4(tcp(1, 2, choose.getrandbits(32), flags, options=options))))
    result = run(whole(), frames)
    assert result.counters["box"]["packets"] == 900


# --- truncated by the snap length ------


def conversation() -> list[bytes]:
    client, server, frames = opened()
    frames += [
        client.send("A", b"question", options=scale(7)),
        server.data(b"answer"),
        *goodbye(client, server),
    ]
    return frames


TCP_NEEDS = 14
"""Bytes of TCP's header up to its flags, which a truncated packet needs to be assigned to a connection."""


@pytest.mark.parametrize("snap", range(0, 80))
def test_packets_cut_at_any_byte(snap: int) -> None:
    frames = conversation()
    result = trace(*[(frame[:snap], len(frame)) for frame in frames])
    assert result.counters["box"]["packets"] == len(frames)
    if snap < 14:
        assert result.count("eth", "cut:header") == len(frames)
    elif snap < 34:
        assert result.count("ipv4", "cut:header") == len(frames)
    elif snap < 34 + TCP_NEEDS:
        assert result.count("tcp", "cut:header") == len(frames)
    else:
        assert result.state == "TERMINATED" and result.row["src_payload"] == 8
        seen = max(0, min(snap - 58, 8)), max(0, min(snap - 54, 6))
        assert (result.row["src_stream"], result.row["dst_stream"]) == seen
        assert result.stream(40000) == b"question"[: seen[0]] and result.stream(80) == b"answer"[: seen[1]]
        lost = {gap["side"]: gap["length"] for gap in result.row["gaps"]}
        assert lost == {
            side: size - there for side, size, there in (("src", 8, seen[0]), ("dst", 6, seen[1])) if size > there
        }
        assert all(gap["cause"] == "snaplen" for gap in result.row["gaps"])


@pytest.mark.parametrize("size", range(0, 70))
def test_packets_that_end_early(size: int) -> None:
    """As above, but the wire length is shortened too: a header that does not fit is malformed."""
    frames = conversation()
    result = trace([frame[:size] for frame in frames])
    short = len(frames) if size < 54 else 1 if size < 58 else 0  # one header has an option
    assert sum(result.count(layer, "malformed:header too short") for layer in ("eth", "ipv4", "tcp")) == short


def test_cut_segment_sent_again_whole() -> None:
    client, server, frames = opened()
    first, second = client.data(b"0123456789"), client.data(b"abcdef")
    result = trace(*frames, second, (first[:-4], len(first)))
    assert result.stream(40000) == b"012345abcdef"
    assert result.row["gaps"] == [{"side": "src", "offset": 6, "length": 4, "cause": "snaplen"}]
    result = trace(*frames, (second[:-3], len(second)), first, goodbye(client, server))
    assert result.stream(40000) == b"0123456789abc" and result.state == "TERMINATED"
    assert result.row["gaps"] == [{"side": "src", "offset": 13, "length": 3, "cause": "snaplen"}]


# --- time ------


def test_time_is_that_of_the_packets() -> None:
    """A day of packet time passes between two packets: the connection times out, and the second one begins another."""
    client, server, frames = opened()
    frames += [client.data(b"old"), client.data(b"new")]
    result = run(whole(), frames, [0, 0.1, 0.2, 0.3, 86_400])
    assert [row["end"] for row in result.rows] == ["timeout", "eof"]
    assert result.streams(40000) == [b"old", b"new"]
    assert run(whole(), frames, [0, 0.1, 0.2, 0.3, 299]).stream(40000) == b"oldnew"
    assert server.next == 5001


def test_idle_is_an_option() -> None:
    client, server, frames = opened()
    frames += [client.data(b"old"), client.data(b"new")]
    for idle, count in ((5, 2), (50, 1)):
        settings = Settings(seed=1, max_instances=1 << 16, idle=idle)
        assert len(run(whole(), frames, [0, 0.1, 0.2, 0.3, 10], settings=settings).rows) == count
    assert server.next == 5001


def test_without_timeouts_nothing_ever_ends() -> None:
    client, server, frames = opened()
    frames += [client.data(b"old"), *goodbye(client, server), client.at(3, b"", "A")]
    settings = Settings(seed=1, max_instances=1 << 16, timeouts=False)
    assert len(run(whole(), frames, [10.0**number for number in range(8)], settings=settings).rows) == 1


def test_timestamps_that_jump_back() -> None:
    """Time does not run backwards: it stays at the largest timestamp so far, and nothing times out."""
    client, server, frames = opened()
    frames += [client.data(bytes([number])) for number in range(6)]
    times = [5000, 5000.1, 5000.2, 5000.3, 1, 5000.4, 0, 4000, 5000.5]
    result = run(whole(), frames, times)
    assert result.stream(40000) == bytes(range(6)) and result.row["end"] == "eof"
    assert server.next == 5001


def test_old_timestamps_do_not_end_a_connection_early() -> None:
    client, server, frames = opened()
    frames += [client.data(b"a"), client.data(b"b")]
    assert run(whole(), frames, [5000, 5000, 5000, 10, 5299]).stream(40000) == b"ab"
    assert len(run(whole(), frames, [5000, 5000, 5000, 10, 5301]).rows) == 2
    assert server.next == 5001


def test_end_of_input_tells_what_has_expired_before() -> None:
    """The position of the sweep must not affect the result: as at a look-up, the deadline decides."""
    client, server, frames = opened()
    frames.append(client.at(5, b"x"))
    other, peer = pair(port=50000)
    result = run(whole(), [*frames, *handshake(other, peer)], [0, 0, 0, 0, 1000, 1000, 1000])
    assert [row["end"] for row in result.rows] == ["timeout", "eof"]
    assert result.rows[0]["gaps"] == [{"side": "src", "offset": 0, "length": 5, "cause": "timeout"}]
    assert server.next == 5001


def test_lingering_ends() -> None:
    client, server, frames = opened()
    frames += [client.data(b"x"), *goodbye(client, server)]
    late = client.at(0, b"x")
    times = [number / 1000 for number in range(len(frames))]
    assert len(run(whole(), [*frames, late], [*times, 9]).rows) == 1
    assert len(run(whole(), [*frames, late], [*times, 11]).rows) == 2


# --- checksums ------


@pytest.mark.parametrize("version", [4, 6])
def test_checksums_are_not_verified_unless_asked(version: int) -> None:
    client, server = pair(version=version, checksums=True)
    frames = [*handshake(client, server), client.data(b"right"), server.data(b"odd")]
    wrong = frames[3][:-1] + b"T"
    assert run(whole(), [*frames[:3], wrong, frames[4]]).stream(40000) == b"righT"
    result = run(checking(), [*frames[:3], wrong, *frames[3:]])
    assert (result.stream(40000), result.stream(80)) == (b"right", b"odd")
    assert result.count("tcp", "malformed:checksum") == 1 and result.row["src_rexmit"] == 0


def test_checksum_of_a_cut_packet_is_not_known() -> None:
    client, server = pair(checksums=True)
    frames = [*handshake(client, server), client.data(b"0123456789")]
    result = run(checking(), [*frames[:3], (frames[3][:-4], len(frames[3]))])
    assert result.stream(40000) == b"012345" and result.count("tcp", "malformed:checksum") == 0


def test_checksum_of_a_reassembled_datagram() -> None:
    segment = tcp(1, 2, 99, "A", bytes(range(100)), addresses=(A4, B4))
    assert run(checking(), fragments4(segment, 64)).stream(1) == bytes(range(100))
    assert run(checking(), fragments4(segment[:-1] + b"!", 64)).rows == []


def test_without_timeouts_the_oldest_make_room() -> None:
    """No deadline shows which instance is idle: all are evicted in turn, and none stays for ever."""
    frames = [syn_from(number) for number in range(4000)]
    result = run(whole(), frames, settings=Settings(seed=1, max_instances=1000, timeouts=False))
    evicted = [row["end"] == "evicted" for row in result.rows]
    assert evicted == [True] * 3000 + [False] * 1000
