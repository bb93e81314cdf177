"""What is required of a packet: by its header before anything else, by what its instance knows after prep."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.engine.box import Settings
from sluice.lang import (
    PSM,
    Assemble,
    Assign,
    Callback,
    Connectionless,
    If,
    Pred,
    PSMState,
    Sequence,
    Stack,
    UInt,
    layout,
)
from tests.differential.both import Packet, assert_same, compiled
from tests.support.run import Result, run, watch_all

SECOND = 10**9


class step(layout):
    key = UInt(8)
    number = UInt(8)
    offset = UInt(8)


class memory(layout):
    last = UInt(8)
    packets = UInt(8)


class scratch(layout):
    wanted = UInt(8)


class told(layout):
    packets = UInt(8)


def rising() -> Any:
    """Numbers must rise within an instance; what does not is malformed."""
    p: Any = Connectionless("p")
    p.header = step
    p.selector = [p.header.key]
    p.perm, p.temp = memory, scratch
    p.prep = Assign(p.temp.wanted, p.perm.last + 1)
    p.prep += If(p.header.number >= p.temp.wanted) >> Assign(p.perm.last, p.header.number)
    p.require(p.perm.last == p.header.number, "order")
    p.prep += Assign(p.perm.packets, p.perm.packets + 1)
    p.seq = Sequence(meta=p.header.offset, data=p.payload)
    p.event.asm = Assemble()
    p.event.counted = Assign(told.packets, p.perm.packets) + Callback(told)
    p.timeout = 10
    return p


def seen(p: Any, *packets: bytes, times: list[int] | None = None) -> Result:
    """What interpreter and C, which agree, make of them."""
    stack = Stack("requirements")
    stack.p = p
    times = times or list(range(len(packets)))
    given = [Packet(data, at * SECOND) for data, at in zip(packets, times, strict=True)]
    assert_same(compiled(stack), given, Settings(seed=1, max_instances=64))
    return run(watch_all(stack, ("*", "counted")), packets, times)


def delivered(result: Result) -> bytes:
    return b"".join(event.bytes for event in result.named("data"))


def test_a_packet_that_its_instance_contradicts_is_malformed() -> None:
    """Its bytes go nowhere, its events do not happen; what prep did stays."""
    result = seen(rising(), b"\1\5\0ab", b"\1\4\2XX", b"\1\6\2cd")
    assert result.count("p", "malformed:order") == 1
    assert delivered(result) == b"abcd"
    assert [event.packets for event in result.named("counted")] == [1, 3]
    assert len(result.named("packet")) == 2


def test_another_instance_does_not_mind() -> None:
    result = seen(rising(), b"\1\5\0ab", b"\2\4\0cd")
    assert result.count("p", "malformed:order") == 0


def test_it_does_not_keep_its_instance_alive() -> None:
    result = seen(rising(), b"\1\5\0ab", b"\1\4\0", b"\1\4\0", b"\1\1\0ab", times=[0, 5, 9, 11])
    assert result.count("p", "malformed:order") == 2
    assert result.count("p", "ended:timeout") == 1


def test_an_instance_that_was_made_for_one_begins_and_ends() -> None:
    p = rising()
    p.require(p.created == 0, "unknown")
    result = seen(p, b"\1\5\0ab", b"\1\6\0cd", b"\2\5\0ab", times=[0, 1, 30])
    assert (result.count("p", "malformed:unknown"), result.count("p", "ended")) == (2, 1)
    assert (len(result.named("created")), len(result.named("end"))) == (2, 2)
    assert result.count("p", "ended:timeout") == 1


def test_one_that_is_not_stored_ends_with_its_packet() -> None:
    p = rising()
    p.selector = If(p.header.key != 7) >> [p.header.key]
    p.require(p.created == 0, "unknown")
    result = seen(p, b"\7\5\0ab", b"\7\6\0ab")
    assert result.count("p", "malformed:unknown") == 2
    assert result.count("p", "instances") == 0


@pytest.mark.parametrize("accepts", [False, True])
def test_a_machine_makes_no_step(accepts: bool) -> None:
    """Nor does a restart: the packet is looked at before."""
    p = rising()
    START, NEXT = PSMState(start=True, accept=accepts), PSMState()
    p.psm = PSM(START, NEXT)
    p.psm.next = (START >> NEXT) + Pred(1)
    p.psm.again = (NEXT >> START) + Pred(p.header.number == 9)
    p.psm.again.restart = True
    p.require(p.header.key != 9, "key")
    p.require((p.header.number != 9) | (p.header.offset == 0), "offset")
    p.require(p.temp.wanted != 200, "two hundred")
    p.require((p.created == 0) | (p.header.offset == 0), "middle")
    result = seen(p, b"\1\5\0ab", b"\1\5\0", b"\1\4\0", b"\3\4\1", b"\1\x09\0ab", b"\1\x09\1ab")
    assert result.count("p", "malformed:order") == 1
    assert result.count("p", "malformed:middle") == 1
    assert result.count("p", "malformed:offset") == 1
    assert result.count("p", "ended:reused") == 1
    assert result.count("p", "ended:accept") == int(accepts)


def test_what_asks_for_temp_alone_needs_no_instance() -> None:
    p: Any = Connectionless("p")
    p.header, p.temp = step, scratch
    p.prep = Assign(p.temp.wanted, p.header.number + 1)
    p.require(p.temp.wanted == p.header.offset, "offset")
    result = seen(p, b"\1\5\6", b"\1\5\5")
    assert (result.count("p", "ended"), result.count("p", "malformed:offset")) == (1, 1)
