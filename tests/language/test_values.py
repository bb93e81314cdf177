"""Values of expressions that belong to no field of a header: packet time, single bytes, and bytes in callbacks."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from sluice.engine.box import Settings
from sluice.lang import (
    Assign,
    Bit,
    Bytes,
    Callback,
    Connectionless,
    DescriptionError,
    DescriptionWarning,
    If,
    Pred,
    Stack,
    UInt,
    layout,
)
from sluice.lower.build import build
from tests.differential.both import Compared, Packet, assert_same, compiled, run_compiled
from tests.support.unoptimised import unoptimised

SECOND = 10**9
SETTINGS = Settings(timeouts=True, max_instances=16, seed=1)


class station_hdr(layout):
    id = Bit(8)
    length = Bit(8)


class station_memory(layout):
    last = UInt(64)
    reports = UInt(16)


class report(layout):
    pause = UInt(64)
    first = Bit(8)
    last = Bit(8)
    at = Bit(8)
    before = Bit(8)
    text = Bytes()
    end = Bytes()


class farewell(layout):
    silent = UInt(64)
    reports = UInt(16)


def station_parser() -> Any:
    """Reports of stations, whose last byte says how much padding is in front of it."""
    p: Any = Connectionless("station")
    p.header = station_hdr
    p.selector = [p.header.id]
    p.perm = station_memory
    p.timeout = 60
    p.sdu = p.payload[: p.payload_len - p.payload[-1]]
    p.event.report = (
        Assign(report.pause, (p.time - p.perm.last) * (p.perm.last != 0))
        + Assign(report.first, p.payload[0])
        + Assign(report.last, p.payload[-1])
        + Assign(report.at, p.payload[p.header.length])
        + Assign(report.before, p.payload[-2])
        + Assign(report.text, p.sdu)
        + Assign(report.end, p.payload[-3:-1])
        + Callback(report)
        + Assign(p.perm.last, p.time)
        + Assign(p.perm.reports, p.perm.reports + 1)
    )
    p.event.farewell = (
        Assign(farewell.silent, p.time - p.perm.last) + Assign(farewell.reports, p.perm.reports) + Callback(farewell)
    )
    p.event_relation += p.event.end >> p.event.farewell
    return p


@pytest.fixture(scope="module")
def stations() -> Compared:
    stack = Stack("stations")
    stack.station = station_parser()
    stack.slow = Connectionless("slow")
    stack += (stack.station >> stack.slow) + Pred(stack.station.time >= 100 * SECOND)
    with unoptimised():
        return compiled(stack)


def seen(made: Compared, packets: list[Packet], name: str) -> list[tuple[Any, ...]]:
    """The values of the events of a name, the same in the interpreter and in C."""
    assert_same(made, packets, SETTINGS)
    events, _ = run_compiled(made, packets, SETTINGS)
    return [values for _, event, _, _, values in events if event == name]


def test_packet_time_in_expressions(stations: Compared) -> None:
    packets = [Packet(b"\1\0x\0", second * SECOND) for second in (5, 7, 6, 20)]
    assert [values[0] for values in seen(stations, packets, "report")] == [0, 2 * SECOND, 0, 13 * SECOND]


def test_packet_time_in_steps_to_the_next_layer(stations: Compared) -> None:
    packets = [Packet(b"\1\0x\0", second * SECOND) for second in (99, 100, 101)]
    _, counters = run_compiled(stations, packets, SETTINGS)
    assert counters["slow"]["packets"] == 2


def test_packet_time_when_an_instance_ends(stations: Compared) -> None:
    packets = [Packet(b"\1\0x\0", SECOND), Packet(b"\2\0x\0", 100 * SECOND)]
    assert seen(stations, packets, "farewell") == [(99 * SECOND, 1), (0, 1)]


def test_a_byte_counted_from_the_end(stations: Compared) -> None:
    packets = [Packet(b"\1\2abcde\2", 0), Packet(b"\1\4abcd\0", 0), Packet(b"\1\0", 0), Packet(b"\1\0\7", 0)]
    values = seen(stations, packets, "report")
    assert [(first, last, at, before) for _, first, last, at, before, *_ in values] == [
        (ord("a"), 2, ord("c"), ord("e")),
        (ord("a"), 0, 0, ord("d")),
        (0, 0, 0, 0),
        (7, 7, 7, 0),
    ]
    assert [text for *_, text, _ in values] == [b"abcd", b"abcd\0", b"", b"\7"]


def test_bytes_counted_from_the_end(stations: Compared) -> None:
    packets = [Packet(b"\1\2abcde\2", 0), Packet(b"\1\0x\0", 0), Packet(b"\1\0", 0)]
    assert [values[-1] for values in seen(stations, packets, "report")] == [b"de", b"x", b""]


def test_a_byte_that_was_not_captured_is_0(stations: Compared) -> None:
    (values,) = seen(stations, [Packet(b"\1\5abc", 0, 1, 20)], "report")
    assert values[1:4] == (ord("a"), 0, 0)


def test_bytes_as_a_named_type_have_no_place_in_headers_and_perm() -> None:
    class loose(layout):
        rest = Bytes()

    p: Any = Connectionless("p")
    with pytest.raises(DescriptionError, match="Bytes\\(\\) in layout 'loose' of a header"):
        p.header = loose
    with pytest.raises(DescriptionError, match="more than 64 bits in perm"):
        p.perm = loose


def test_a_warning_for_header_fields_that_are_0_at_end() -> None:
    class last_words(layout):
        id = Bit(8)
        text = Bytes()

    p: Any = Connectionless("p")
    p.header = station_hdr
    p.selector = [p.header.id]
    p.event.over = If(p.header.id != 3) >> (
        Assign(last_words.id, p.header.id) + Assign(last_words.text, p.payload) + Callback(last_words)
    )
    p.event_relation += p.event.end >> p.event.over
    stack = Stack("ends")
    stack.p = p
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        build(stack)
    told = [str(item.message) for item in caught if issubclass(item.category, DescriptionWarning)]
    assert any(
        "'header.id' is 0 in event 'end', which has no packet; keep the value in a field of p.perm." in t for t in told
    )
    assert any("'payload' is empty in event 'end'" in t for t in told)
