"""`require` also applies while a message is framed: an invalid header promises nothing."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.engine.box import Settings
from sluice.lang import Assemble, Assign, Bit, Bytes, Callback, Connectionless, Length, Pred, Sequence, Stack, layout
from sluice.lang.events import LOSS_CAUSES
from tests.differential.both import Compared, Packet, assert_same, compiled, run_compiled
from tests.support.unoptimised import unoptimised

SETTINGS = Settings(memory=1 << 22, max_instances=16, seed=1)


class stream_hdr(layout):
    key = Bit(8)
    number = Bit(16, serial=True)


class message_hdr(layout):
    version = Bit(8)
    length = Bit(16)


class got(layout):
    body = Bytes()


def describe(resync: bool) -> Stack:
    s: Any = Connectionless("stream")
    s.header = stream_hdr
    s.selector = [s.header.key]
    s.seq = Sequence(meta=s.header.number, data=s.payload, zero_based=False)
    s.event.asm = Assemble()
    m: Any = Connectionless("message")
    m.header = message_hdr
    m.require(m.header.version == 1, "version")
    m.require(m.payload[:1].length == 1, "empty")
    m.message = Length(m.header.length, resync=(m.header.version == 1) if resync else None)
    m.event.whole = Assign(got.body, m.payload) + Callback(got)
    stack = Stack("framed")
    stack.stream, stack.message = s, m
    stack += (stack.stream >> stack.message) + Pred(1)
    return stack


@pytest.fixture(scope="module")
def resyncing() -> Compared:
    with unoptimised():
        return compiled(describe(resync=True))


@pytest.fixture(scope="module")
def stopping() -> Compared:
    with unoptimised():
        return compiled(describe(resync=False))


def message(body: bytes, version: int = 1, length: int | None = None) -> bytes:
    return bytes([version]) + (len(body) + 3 if length is None else length).to_bytes(2, "big") + body


def results(made: Compared, stream: bytes, parts: int) -> tuple[list[bytes], list[str], dict[str, int]]:
    """Bodies of messages, causes of losses, counters, of a stream in parts of this size; the same in both."""
    places = range(0, len(stream), parts)
    packets = [Packet(b"\1" + at.to_bytes(2, "big") + stream[at : at + parts], at) for at in places]
    assert_same(made, packets, SETTINGS)
    events, counters = run_compiled(made, packets, SETTINGS)
    bodies = [values[0] for _, name, *_, values in events if name == "whole"]
    causes = [LOSS_CAUSES[values[2]] for _, name, *_, values in events if name == "lost"]
    return bodies, causes, counters["message"]


@pytest.mark.parametrize("parts", [1, 4, 1000])
def test_require_applies_while_a_message_is_framed(resyncing: Compared, parts: int) -> None:
    """A message of another version claims 60,000 bytes that never come: the messages after it are found."""
    stream = message(b"one") + message(b"", version=9, length=60000) + message(b"two") + message(b"three")
    bodies, causes, counters = results(resyncing, stream, parts)
    assert bodies == [b"one", b"two", b"three"]
    assert causes == ["malformed"]
    assert counters["lost:malformed"] == counters["lost:malformed (version)"] == 1


@pytest.mark.parametrize("parts", [1, 1000])
def test_without_resync_the_side_is_not_parsed_further(stopping: Compared, parts: int) -> None:
    bodies, causes, counters = results(stopping, message(b"one") + message(b"x", version=2) + message(b"two"), parts)
    assert (bodies, causes, counters["lost:malformed (version)"]) == ([b"one"], ["malformed"], 1)


def test_what_needs_more_than_the_header_is_required_of_the_whole_message(resyncing: Compared) -> None:
    bodies, causes, counters = results(resyncing, message(b"") + message(b"one"), 2)
    assert (bodies, causes, counters["malformed:empty"]) == ([b"one"], [], 1)
