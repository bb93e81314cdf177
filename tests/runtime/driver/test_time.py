"""NAME_tick lets a box's time go on while no packet comes; NAME_finish_step ends the input in steps."""

from __future__ import annotations

import ctypes
from functools import cache

import pytest

from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.c_function import read_c_function
from tests.support.conserve import check_all_ended, check_conservation
from tests.support.packets import A4, B4, UDP, eth, ip4, udp
from tests.support.small_stacks import small_ip

SECOND = 10**9
START = 1_700_000_000 * SECOND
NEVER = 2**64 - 1

TIMER = """
#include "sluice.h"
SLUICE_COUNTER(fired, "timers that fired")
SLUICE_COUNTER(ended, "connections that ended")
SLUICE_TIMER(udp, soon) { SLUICE_COUNTER_OF(event->box, fired)++; }
SLUICE_TIMER(box, often) { SLUICE_COUNTER_OF(event->box, fired)++; SLUICE_ARM_BOX(event->box, often, 3600000000000); }
SLUICE_OPEN { SLUICE_ARM_BOX(box, often, 3600000000000); return 0; }
SLUICE_ON(udp, created) { SLUICE_ARM(event, udp, soon, 5000000000); }
SLUICE_ON(udp, end) { SLUICE_COUNTER_OF(event->box, ended)++; }
"""


@cache
def stack(text: str = "") -> CompiledStack:
    functions = (read_c_function("timed", text, "timed.c"),) if text else ()
    return compile_stack(small_ip(), functions)


def flow(port: int) -> bytes:
    return eth(ip4(udp(port, 9), UDP, A4, B4))


def ended(box: Box, reason: str = "timeout") -> int:
    return box.counters()["udp_over_ipv4"][f"ended:{reason}"]


def tick_until(box: Box, time: int) -> int:
    """Ticks for one time until there is no more to do for it; when it is due next."""
    for _ in range(10_000):
        due = box.tick(time)
        if due > time:
            return due
    raise AssertionError("there is always more to do")


def test_expired_instances_end_without_a_packet() -> None:
    with Box(stack(), Settings(seed=1, idle=10)) as box:
        for port in range(1, 5001):
            box.packet(flow(port), START)
        due = tick_until(box, START + 1)
        assert ended(box) == 0 and START + 1 < due <= START + 10 * SECOND
        tick_until(box, START + 9 * SECOND)
        assert ended(box) == 0
        tick_until(box, START + 10 * SECOND)
        assert ended(box) == 5000
        box.finish()
        assert ended(box, "eof") == 0
        check_conservation(box.stack.program, box.counters())
        check_all_ended(box.stack.program, box.counters())


def test_a_tick_does_a_bounded_amount() -> None:
    with Box(stack(), Settings(seed=1, idle=10)) as box:
        for port in range(1, 5001):
            box.packet(flow(port), START)
        box.tick(START + 20 * SECOND)
        assert 0 < ended(box) < 2500


def test_an_earlier_time_changes_nothing() -> None:
    with Box(stack(), Settings(seed=1, idle=10)) as box:
        box.packet(flow(1), START)
        tick_until(box, START + 5 * SECOND)
        box.tick(START - 3600 * SECOND)
        box.packet(flow(1), START + 6 * SECOND)  # within ten seconds: the same connection
        assert box.counters()["udp_over_ipv4"]["instances"] == 1 and ended(box) == 0


def test_nothing_is_due_where_nothing_waits() -> None:
    with Box(stack(), Settings(seed=1)) as box:
        assert box.tick(START) == NEVER
    with Box(stack(), Settings(seed=1, timeouts=False)) as box:
        box.packet(flow(1), START)
        assert tick_until(box, START + 10_000 * SECOND) == NEVER
        assert ended(box) == 0


def test_timers_fire_when_their_time_has_come() -> None:
    with Box(stack(TIMER), Settings(seed=1, timeouts=False)) as box:
        assert box.tick(START) == NEVER, "they count from the first packet on"
        box.packet(flow(1), START)
        assert tick_until(box, START + SECOND) == START + 5 * SECOND
        assert tick_until(box, START + 5 * SECOND) == START + 3600 * SECOND
        assert tick_until(box, START + 3600 * SECOND) == START + 7200 * SECOND
        box.finish()
        assert box.reports()["fired"] == 2


@pytest.mark.parametrize("slots", [1, 7, 1000, 1 << 30])
def test_the_end_in_steps_is_the_end_at_once(slots: int) -> None:
    settings = Settings(seed=1, timeouts=False)
    with Box(stack(TIMER), settings) as box, Box(stack(TIMER), settings) as other:
        for port in range(1, 400):
            box.packet(flow(port), START)
            other.packet(flow(port), START)
        other.finish()
        step = box._function("finish_step", ctypes.c_bool, ctypes.c_void_p, ctypes.c_uint32)  # pyright: ignore[reportPrivateUsage]
        steps = 1
        while step(box._box, slots):  # pyright: ignore[reportPrivateUsage]
            steps += 1
        assert not step(box._box, slots)  # pyright: ignore[reportPrivateUsage]
        assert steps > 399 // slots
        assert box.counters() == other.counters() and box.reports() == other.reports()
        assert box.reports()["ended"] == 399
