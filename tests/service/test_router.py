"""The paper's Memcached router: interpreted, and compiled, over channels in memory."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.service.programs import command, router
from tests.service.trial import Compiled, interpreted

COUNTS = {"backends": 3}
keys = st.binary(max_size=40)
commands = st.builds(command, keys, st.binary(max_size=200), st.binary(max_size=8), st.integers(0, 255))


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    return Compiled(router())


@given(st.lists(commands, max_size=12), st.integers(1, 300), st.integers(72, 512))
@settings(max_examples=60)
def test_every_cut_of_the_stream_sends_the_same_bytes(
    compiled: Compiled, messages: list[bytes], budget: int, size: int
) -> None:
    given = {("client", 0): b"".join(messages)}
    once = compiled.run(given, COUNTS, buffer_size=4096)
    cut = compiled.run(given, COUNTS, buffer_size=size, budget=budget)
    assert once == cut == interpreted(compiled.service, given, COUNTS)
    sent = [once.sent["backends", i] for i in range(3)]
    assert sorted(b"".join(sent)) == sorted(b"".join(messages))
    assert all(any(message in each for each in sent) for message in messages)


@given(st.lists(commands, max_size=8), st.integers(1, 100))
@settings(max_examples=50)
def test_answers_come_back_as_they_were(compiled: Compiled, messages: list[bytes], budget: int) -> None:
    given = {("backends", i): b"".join(messages[i::3]) for i in range(3)}
    outcome = compiled.run(given, COUNTS, budget=budget)
    answers = outcome.sent["client", 0]
    assert len(answers) == sum(map(len, messages))
    for message in messages:
        assert message in answers


def test_a_message_larger_than_a_buffer_passes(compiled: Compiled) -> None:
    large = command(b"key", bytes(range(256)) * 2000)
    outcome = compiled.run({("client", 0): large}, COUNTS, buffer_size=256, budget=100)
    assert outcome.ended
    assert b"".join(outcome.sent.values()) == large


def test_a_key_larger_than_a_buffer_is_a_fault(compiled: Compiled) -> None:
    assert compiled.run({("client", 0): command(b"k" * 300)}, COUNTS, buffer_size=256).fault == "TOO_LARGE"


@pytest.mark.parametrize("length", [1, 23, 24, 26])
def test_a_stream_that_ends_within_a_message_is_a_fault(compiled: Compiled, length: int) -> None:
    given = {("client", 0): command(b"key", b"value")[:length]}
    assert compiled.run(given, COUNTS).fault == interpreted(router(), given, COUNTS).fault == "TRUNCATED"


def test_a_length_below_zero_is_malformed(compiled: Compiled) -> None:
    bad = bytearray(command(b"key", b"value"))
    bad[8:12] = (2).to_bytes(4, "big")  # less than the key alone
    given = {("client", 0): bytes(bad)}
    assert compiled.run(given, COUNTS).fault == interpreted(router(), given, COUNTS).fault == "BAD_MESSAGE"


@given(st.binary(max_size=200), st.integers(1, 50))
@settings(max_examples=60)
def test_any_bytes_end_the_same(compiled: Compiled, data: bytes, budget: int) -> None:
    given = {("client", 0): data}
    outcome = compiled.run(given, COUNTS, budget=budget)
    assert outcome.ended or outcome.fault
    wanted = interpreted(compiled.service, given, COUNTS)
    assert bool(outcome.fault) == bool(wanted.fault)
