"""The byte stream: wrap of numbers, overlaps, gaps in every order, long segments, retransmissions."""

from itertools import permutations

import pytest

from tests.cases.trace import trace
from tests.support.connection import Host, goodbye, handshake, pair
from tests.support.run import leaves_nothing, run, sha256
from tests.support.stacks import plain_tcp, whole

VERSIONS = pytest.mark.parametrize("version", [4, 6])
LIMIT = 1 << 20


def opened(options: bytes = b"", **settings: int) -> tuple[Host, Host, list[bytes]]:
    """Two hosts with a connection, and the packets of its handshake."""
    client, server = pair(**settings)  # type: ignore[arg-type]
    return client, server, handshake(client, server, options)


SCALED = bytes([3, 3, 8])
"""The option of a SYN for windows of 16 MiB."""


def text(size: int, salt: int = 0) -> bytes:
    """Bytes in which no long substring occurs twice."""
    return b"".join((salt + number).to_bytes(4, "big") for number in range((size + 3) // 4))[:size]


@pytest.mark.parametrize("before", [0, 1, 2, 3, 499, 500, 501, 2499, 5000])
@pytest.mark.parametrize("backwards", [False, True])
def test_number_wraps_in_the_stream(before: int, backwards: bool) -> None:
    """The client's number passes 2^32 `before` bytes after its SYN; the server's too."""
    client, server = pair((1 << 32) - 1 - before, (1 << 32) - 1 - before)
    frames = handshake(client, server)
    body = text(5000)
    pieces = [client.data(body[at : at + 500]) for at in range(0, 5000, 500)]
    answer = [server.data(body[at : at + 500]) for at in range(0, 5000, 500)]
    result = trace(frames, pieces[::-1] if backwards else pieces, answer, goodbye(client, server))
    assert result.stream(40000) == body == result.stream(80)
    assert result.state == "TERMINATED" and result.row["gaps"] == [] and result.row["src_rexmit"] == 0


def test_number_wraps_many_times() -> None:
    """More than 2^32 bytes, most of them in gaps, so that it goes fast. The receiver has acknowledged them: otherwise
    they would be outside.
    """
    client, server, frames = opened()
    step = 1 << 29
    for _ in range(20):
        client.next += step
        frames += [server.send("A"), client.data(b"x")]
    result = run(plain_tcp(limit=1), frames)
    assert result.stream(40000) == b"x" * 20
    assert sum(gap["length"] for gap in result.row["gaps"]) == 20 * step
    assert server.next == 5001


def test_partial_overlap() -> None:
    client, server, frames = opened()
    result = trace(frames, client.at(0, b"AAAABBBB"), client.at(4, b"xxxxCCCC"), client.at(12, b"DDDD"))
    assert result.stream(40000) == b"AAAABBBBCCCCDDDD"
    assert result.row["src_rexmit"] == 4 and result.row["gaps"] == [] and result.reports["pool at most"] == 0
    assert server.next == 5001


def test_partial_overlap_after_a_hole() -> None:
    client, server, frames = opened()
    result = trace(frames, client.at(4, b"BBBBCCCC"), client.at(8, b"xxxxDDDD"), client.at(0, b"AAAAyyyy"))
    assert result.stream(40000) == b"AAAABBBBCCCCDDDD" and result.row["src_rexmit"] == 8
    assert server.next == 5001


def test_segment_that_covers_several_held_ones() -> None:
    client, server, frames = opened()
    held = [client.at(at, b"%d" % (at % 10)) for at in (3, 5, 8)]
    result = trace(frames, held, client.at(0, b"abcdefghijkl"))
    assert result.stream(40000) == b"abc3e5gh8jkl" and result.row["src_rexmit"] == 3
    assert server.next == 5001


@pytest.mark.parametrize("order", ["BDACE", "EDCBA", "ECBDA", "CEABD", "DBECA"])
def test_holes_filled_in_any_order(order: str) -> None:
    client, server, frames = opened()
    pieces = {name: client.data(name.encode() * 1000) for name in "ABCDE"}
    result = trace(frames, [pieces[name] for name in order], goodbye(client, server))
    assert result.stream(40000) == b"".join(name.encode() * 1000 for name in "ABCDE")
    assert result.row["gaps"] == [] and result.state == "TERMINATED"


def test_holes_filled_in_every_order() -> None:
    client, server, frames = opened()
    pieces = [client.data(bytes([65 + number]) * (number + 1)) for number in range(5)]
    end = goodbye(client, server)
    for order in permutations(pieces):
        result = run(whole(), [*frames, *order, *end])
        assert result.stream(40000) == b"ABBCCCDDDDEEEEE" and result.state == "TERMINATED"


@pytest.mark.parametrize("size", [8 << 10, 9 << 10, 64 << 10, 65 << 10, 512 << 10, LIMIT - 1, LIMIT])
@VERSIONS
def test_much_data_after_a_hole(size: int, version: int) -> None:
    client, server, frames = opened(version=version)
    body = text(1460 + size)
    first, *rest = [client.data(body[at : at + 1460]) for at in range(0, len(body), 1460)]
    result = trace(frames, rest, first, goodbye(client, server))
    assert result.stream(40000) == body and result.row["gaps"] == [] and result.state == "TERMINATED"


def test_more_than_the_limit_after_a_hole() -> None:
    """The gap is given up, with its cause; all other bytes are delivered, and the stream continues."""
    client, server, frames = opened()
    body = text(1000 + LIMIT + LIMIT // 2)
    first, *rest = [client.data(body[at : at + 1000]) for at in range(0, len(body), 1000)]
    result = trace(frames, rest, goodbye(client, server))
    assert result.row["gaps"] == [{"side": "src", "offset": 0, "length": 1000, "cause": "limit"}]
    assert result.stream(40000) == body[1000:] and result.row["src_after_gap"] == len(body) - 1000
    assert result.row["src_stream"] == 0 and result.row["src_sha256"] == sha256(b"")
    assert result.reports["pool at most"] < 2 * LIMIT + (1 << 18)
    assert result.state == "TERMINATED" and first


def test_hole_that_comes_after_it_was_given_up() -> None:
    client, server, frames = opened()
    first, *rest = [client.data(bytes([number]) * 100) for number in range(12)]
    compiled = plain_tcp(limit=1000)
    result = run(compiled, [*frames, *rest, first, *goodbye(client, server)])
    assert result.stream(40000) == b"".join(bytes([number]) * 100 for number in range(1, 12))
    assert [gap["cause"] for gap in result.row["gaps"]] == ["limit"]
    assert result.row["src_payload"] == 1200 and result.state == "TERMINATED"


@pytest.mark.parametrize("missing", [1, 100, 5000])
def test_hole_at_the_end_of_input(missing: int) -> None:
    client, server, frames = opened()
    frames.append(client.data(b"before"))
    client.next += missing
    result = trace(frames, client.data(b"behind"), server.data(b"answer"))
    assert result.stream(40000) == b"beforebehind" and result.row["src_stream"] == 6
    assert result.row["src_sha256"] == sha256(b"before") and result.row["src_after_gap"] == 6
    assert result.row["gaps"] == [{"side": "src", "offset": 6, "length": missing, "cause": "close"}]
    assert result.stream(80) == b"answer"


def test_hole_at_timeout() -> None:
    client, server, frames = opened()
    frames += [client.data(b"before"), client.at(10, b"behind")]
    times = [0.001 * number for number in range(len(frames))]
    other, peer = pair(port=50000)
    result = run(whole(), [*frames, *[other.data(b"x")] * 200], [*times, *[1000 + 0.01 * n for n in range(200)]])
    row = result.rows[0]
    assert row["gaps"] == [{"side": "src", "offset": 6, "length": 4, "cause": "timeout"}] and row["end"] == "timeout"
    assert peer.next == server.next - 1


@pytest.mark.parametrize("size", [1461, 9000, 40_000, 65_495])
@VERSIONS
def test_segment_longer_than_the_mtu(size: int, version: int) -> None:
    client, server, frames = opened(SCALED, version=version)
    body = text(4 * size)
    pieces = [client.data(body[at : at + size]) for at in range(0, len(body), size)]
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        result = trace(frames, [pieces[number] for number in order])
        assert result.stream(40000) == body and result.row["gaps"] == []
    assert server.next == 5001


def test_one_byte_far_ahead() -> None:
    """The receiver could not have accepted it: it is outside, and disturbs nothing."""
    client, server, frames = opened()
    body = text(300_000)
    far = client.at(1_000_000_000, b"!")
    rest: list[bytes] = []
    for at in range(0, len(body), 1000):
        rest += [client.data(body[at : at + 1000]), server.send("A")]
    result = trace(frames, far, rest)
    assert result.stream(40000) == body and result.row["src_stream"] == len(body)
    assert result.row["gaps"] == [] and result.row["src_outside"] == 1
    assert result.count("tcp", "out of window") == 1 and result.reports["pool at most"] < 4096
    assert server.next == 5001


def test_every_second_byte_missing() -> None:
    """Memory is bounded, every missing byte counts as a gap, and the time is not quadratic."""
    client, server, frames = opened()
    count = 30_000
    frames += [client.at(2 * number + 1, bytes([number & 255])) for number in range(count)]
    result = run(whole(), frames)
    gaps = result.row["gaps"]
    assert result.stream(40000) == bytes(number & 255 for number in range(count))
    assert len(gaps) == count and all(gap["length"] == 1 for gap in gaps)
    assert {gap["cause"] for gap in gaps} == {"limit", "close"} and gaps[0]["cause"] == "limit"
    assert sum(gap["cause"] == "close" for gap in gaps) <= 1024
    assert result.reports["pool at most"] < 1024 * 256
    leaves_nothing(whole(), frames, result)
    assert server.next == 5001


def test_every_second_byte_missing_and_then_filled() -> None:
    client, server, frames = opened()
    body = text(1000)
    odd = [client.at(at, body[at : at + 1]) for at in range(1, 1000, 2)]
    even = [client.at(at, body[at : at + 1]) for at in range(0, 1000, 2)]
    for first, second in ((odd, even), (odd[::-1], even[::-1]), (odd, even[::-1])):
        result = run(whole(), [*frames, *first, *second])
        assert result.stream(40000) == body and result.row["gaps"] == []
    assert server.next == 5001


# --- retransmission ------


def test_retransmission_is_no_gap() -> None:
    client, server, frames = opened()
    one, two, three = client.data(b"one"), client.data(b"two"), client.data(b"three")
    result = trace(frames, one, two, one, two, three, three, one)
    assert result.stream(40000) == b"onetwothree" and result.row["gaps"] == [] and result.named("gap") == []
    assert [(event.offset, event.length) for event in result.named("rexmit")] == [
        (0, 3),
        (3, 3),
        (6, 5),
        (0, 3),
    ]
    assert result.row["src_rexmit"] == 14 and result.row["src_payload"] == 25
    assert server.next == 5001


def test_data_from_the_other_side_means_nothing_is_lost() -> None:
    """The response to a lost segment arrives before the segment is retransmitted."""
    client, server, frames = opened()
    question, more = client.data(b"question"), client.data(b"more")
    answer = [server.data(b"answer"), server.data(b"and more")]
    result = trace(frames, more, answer, question, goodbye(client, server))
    assert (result.stream(40000), result.stream(80)) == (b"questionmore", b"answerand more")
    assert result.row["gaps"] == [] and result.state == "TERMINATED"


def test_acknowledged_data_that_the_capture_missed() -> None:
    client, server, frames = opened()
    frames.append(client.data(b"seen"))
    client.next += 10
    result = trace(frames, server.send("A"), client.data(b"behind"), server.send("A"), goodbye(client, server))
    assert result.stream(40000) == b"seenbehind" and result.state in ("TERMINATED", "CLOSE_WAIT_2")
    assert result.row["gaps"] == [{"side": "src", "offset": 4, "length": 10, "cause": "close"}]


def test_keep_alive() -> None:
    """Keep-alives repeat the last byte, or carry none: nothing new, nothing lost."""
    client, server, frames = opened()
    frames.append(client.data(b"x"))
    for _ in range(5):
        frames += [
            client.send("A", b"\0", number=client.next - 1),
            client.send("A", number=client.next - 1),
            server.send("A"),
        ]
    result = trace(frames, client.data(b"y"), goodbye(client, server))
    assert result.stream(40000) == b"xy" and result.state == "TERMINATED" and result.row["src_rexmit"] == 5


def test_zero_window_probe_is_kept() -> None:
    client, server, frames = opened()
    frames += [client.data(b"full"), server.send("A", window=0)]
    probe = client.data(b"!")
    result = trace(frames, probe, server.send("A"), client.data(b"more"))
    assert result.stream(40000) == b"full!more"
    assert len(result.named("out_of_wnd")) == result.count("tcp", "out of window") == 1


def test_out_of_window_is_counted_and_kept() -> None:
    client, server, frames = opened(window=100)
    frames += [client.data(b"in"), server.send("A")]
    beyond, within = client.at(2 + 100, b"beyond"), client.at(2, bytes(100))
    result = trace(frames, beyond, within)
    assert result.stream(40000) == b"in" + bytes(100) + b"beyond" and result.row["gaps"] == []
    assert [event.sport for event in result.named("out_of_wnd")] == [40000]


def test_urgent_data_stay_in_line() -> None:
    client, server, frames = opened()
    result = trace(frames, client.data(b"a"), client.send("UA", b"b"), client.data(b"c"))
    assert result.stream(40000) == b"abc" and server.next == 5001


def test_history_shows_the_old_copy() -> None:
    client, server, frames = opened()
    frames += [
        client.data(b"abcd"),
        client.data(b"efgh"),
        client.at(2, b"CDEF"),
        client.at(8, b"ijkl"),
        client.at(0, b"AB"),
    ]
    result = run(plain_tcp(history=8), frames)
    assert [(event.offset, event.old, event.new) for event in result.named("rexmit")] == [
        (2, b"cdef", b"CDEF"),
        (0, b"", b"AB"),
    ]
    assert result.stream(40000) == b"abcdefghijkl"
    result = run(plain_tcp(), frames)
    assert [(event.offset, event.old, event.new) for event in result.named("rexmit")] == [
        (2, b"", b"CDEF"),
        (0, b"", b"AB"),
    ]
    assert server.next == 5001


def test_old_copy_of_held_bytes_needs_no_history() -> None:
    client, server, frames = opened()
    result = run(whole(), [*frames, client.at(4, b"efgh"), client.at(2, b"CDEFGHIJ"), client.at(0, b"abcd")])
    assert [(event.offset, event.old, event.new) for event in result.named("rexmit")] == [
        (4, b"efgh", b"EFGH"),
        (2, b"CD", b"cd"),
    ]
    assert result.stream(40000) == b"abCDefghIJ" and server.next == 5001


NEW_WINS = {
    (5, 15): ("last", "bsd", "linux", "windows"),
    (10, 25): ("last", "bsd_right", "linux", "solaris"),
    (12, 18): ("last", "bsd_right"),
    (5, 25): ("last", "bsd", "linux", "windows", "solaris"),
    (15, 25): ("last", "bsd_right", "solaris"),
    (10, 15): ("last", "bsd_right"),
    (10, 20): ("last", "bsd_right", "solaris"),
}
"""For a new segment over a held one of [10, 20): the policies by which the new bytes win (Novak and Sturges, 2007)."""


@pytest.mark.parametrize("policy", ["first", "last", "bsd", "bsd_right", "linux", "windows", "solaris"])
def test_overlap_policy(policy: str) -> None:
    for (low, high), winners in NEW_WINS.items():
        client, server, frames = opened()
        start, end = min(low, 10), max(high, 20)
        frames += [client.at(10, b"o" * 10), client.at(low, b"n" * (high - low))]
        frames += [client.at(0, b"-" * start), client.at(end, b"-" * (30 - end))]
        expected = bytearray(b"-" * 30)
        order = [(10, 20, b"o"), (low, high, b"n")]
        for first, last, letter in order if policy in winners else order[::-1]:
            expected[first:last] = letter * (last - first)
        assert run(plain_tcp(policy=policy), frames).stream(40000) == expected, (policy, low, high)
        assert server.next == 5001
