"""Streams that are given up: RESET_STREAM and STOP_SENDING (RFC 9000, 3.2, 3.3, 19.4, 19.5), in the clear."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.engine.box import Settings
from tests.differential.both import Packet, assert_same
from tests.quic.stacks import compared_deciphered, deciphered
from tests.quic.test_frames import packet
from tests.support.run import Result, run

SECOND = 10**9
STREAM, ERROR = 4, 0x101


def varint(number: int) -> bytes:
    """In 8 bytes, which any number may take."""
    return (3 << 62 | number).to_bytes(8, "big")


def data(offset: int, content: bytes, fin: bool = False) -> bytes:
    return bytes([0x0E | fin, STREAM]) + varint(offset) + varint(len(content)) + content


def reset(final_size: int, stream: int = STREAM) -> bytes:
    return bytes([0x04, stream]) + varint(ERROR) + varint(final_size)


STOP = bytes([0x05, STREAM]) + varint(ERROR)


def seen(*frames: bytes, seconds: tuple[int, ...] = ()) -> Result:
    """What interpreter and C make of packets with these frames, one in each."""
    packets = [packet(each) for each in frames]
    times = seconds or tuple(range(len(packets)))
    settings = Settings(timeouts=True, memory=1 << 26, max_instances=1 << 12, seed=1)
    inputs = [Packet(each, at * SECOND) for each, at in zip(packets, times, strict=True)]
    assert_same(compared_deciphered(), inputs, settings)
    return run(deciphered(), packets, times, settings=settings)


def story(result: Result) -> list[Any]:
    """What happened to the streams, in order."""
    told: list[Any] = []
    for event in result.events:
        if event.layer != "quic_stream":
            continue
        if event.name == "data":
            told.append((event.offset, event.bytes))
        elif event.name == "gap":
            told.append(("gap", event.offset, event.length, event.cause))
        elif event.name == "reset":
            told.append(("reset", event.stream, event.error, event.final_size))
        elif event.name == "end":
            told.append(event.reason)
    return told


def test_it_ends_the_stream() -> None:
    result = seen(data(0, b"abc"), reset(3), b"\x01", seconds=(0, 1, 32))
    assert story(result) == [(0, b"abc"), ("reset", STREAM, ERROR, 3), "timeout"]
    assert result.count("quic_stream", "gaps") == 0
    assert result.count("quic_stream", "ended:timeout") == 1


def test_what_was_on_its_way_still_comes() -> None:
    """A reset overtakes data: that is delivered, and what lies after it."""
    frames = data(0, b"ab"), data(4, b"ef"), reset(6), data(2, b"cd")
    assert story(seen(*frames)) == [(0, b"ab"), ("reset", STREAM, ERROR, 6), (2, b"cdef"), "eof"]


def test_what_never_came_is_a_gap() -> None:
    """In front of the final size, and of what came after it; told when the instance ends, by why it does."""
    frames = data(0, b"ab"), data(4, b"ef"), reset(10)
    told = [(0, b"ab"), ("reset", STREAM, ERROR, 10)]
    result = seen(*frames)
    assert story(result) == [*told, ("gap", 2, 2, "close"), (4, b"ef"), ("gap", 6, 4, "close"), "eof"]
    assert result.count("quic_stream", "gaps") == 2
    late = seen(*frames, b"\x01", seconds=(0, 1, 2, 33))
    assert story(late) == [*told, ("gap", 2, 2, "timeout"), (4, b"ef"), ("gap", 6, 4, "timeout"), "timeout"]


def test_a_stream_of_which_nothing_else_was_seen() -> None:
    assert story(seen(reset(7))) == [("reset", STREAM, ERROR, 7), ("gap", 0, 7, "close"), "eof"]
    assert story(seen(reset(0))) == [("reset", STREAM, ERROR, 0), "eof"]


@pytest.mark.parametrize("size", [1 << 20, (1 << 62) - 1])
def test_sizes_that_no_memory_would_hold(size: int) -> None:
    assert story(seen(data(0, b"a"), reset(size)))[2:] == [("gap", 1, size - 1, "close"), "eof"]


def test_a_size_within_what_was_delivered_ends_nothing() -> None:
    """It is an error of the sender (RFC 9000, 4.5; see test_final_size.py)."""
    frames = data(0, b"abc"), reset(1), data(3, b"d")
    assert story(seen(*frames)) == [(0, b"abc"), (3, b"d"), "eof"]


def test_after_its_end_a_stream_cannot_be_given_up() -> None:
    """All of it has come; the reset changes nothing (RFC 9000, 3.2), nor does one that is sent again."""
    assert story(seen(data(0, b"abc", fin=True), reset(3))) == [(0, b"abc"), "eof"]
    assert story(seen(data(0, b"a"), reset(1), reset(1))) == [(0, b"a"), ("reset", STREAM, ERROR, 1), "eof"]


def test_only_this_stream_ends() -> None:
    frames = data(0, b"ab"), reset(0, STREAM + 4), data(2, b"c", fin=True)
    result = seen(*frames)
    assert story(result)[:3] == [(0, b"ab"), ("reset", STREAM + 4, ERROR, 0), (2, b"c")]
    assert result.count("quic_stream", "instances") == 2


def test_stop_sending_is_no_end() -> None:
    """It comes from the receiver; the sender goes on until it has given up itself."""
    result = seen(data(0, b"ab"), STOP, data(2, b"c"), reset(4), data(3, b"d"), seconds=(0, 1, 60, 61, 62))
    assert story(result) == [(0, b"ab"), (2, b"c"), ("reset", STREAM, ERROR, 4), (3, b"d"), "eof"]
    assert result.count("quic_stream", "packets") == 4
    assert result.count("quic_frame", "packets") == 5
