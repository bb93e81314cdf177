"""Packets that a function holds until it has decided: released in order, discarded, and both at their bounds."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.c_function import read_c_function
from tests.support.capture import read_packets
from tests.support.connection import Host, handshake, pair
from tests.support.small_stacks import small_stack

MILLISECOND = 10**6

INSPECT = """
#include "sluice.h"
SLUICE_INLINE
struct flow { bool stopped; };
SLUICE_STATE(struct flow)

static bool has_attack(sl_bytes bytes) {
    for (uint32_t at = 0; at + 6 <= bytes.captured; at++)
        if (memcmp(bytes.at + at, "attack", 6) == 0)
            return true;
    return false;
}
SLUICE_ON(tcp, packet) {
    if (SLUICE_STATE_OF(event)->stopped)
        SLUICE_DROP(event->box);
    else if (event->unit.length > (uint32_t)(event->unit.at[12] >> 4) * 4)
        SLUICE_HOLD(event);
}
SLUICE_ON(tcp, data) {
    if (has_attack(data->bytes)) {
        SLUICE_STATE_OF(event)->stopped = true;
        SLUICE_DISCARD(event);
        SLUICE_DROP(event->box);
    } else {
        SLUICE_RELEASE(event);
    }
}
"""
"""Nothing of a stream leaves before it was searched. (A match that begins in an earlier event is not found: for that,
a function remembers the end of the last one.)"""

COMMANDS = """
#include "sluice.h"
SLUICE_INLINE
SLUICE_ON(tcp, packet) {
    uint32_t header = (uint32_t)(event->unit.at[12] >> 4) * 4;
    switch (event->unit.captured > header ? event->unit.at[header] : 0) {
    case 'd': SLUICE_HOLD(event); SLUICE_DROP(event->box); break;
    case 'r': SLUICE_HOLD(event); SLUICE_RELEASE(event); break;
    case 'n': SLUICE_RELEASE(event); SLUICE_DISCARD(event); break;
    case 'x': SLUICE_DISCARD(event); break;
    case 'h': SLUICE_HOLD(event); break;
    case 'c': SLUICE_HOLD(event); SLUICE_REWRITE(event->box, event->unit.at + header, "H", 1); break;
    case 's': SLUICE_SEND(event->box, sl_packet_frame(event)->at, 54); SLUICE_RELEASE(event); break;
    }
}
"""


@cache
def compiled(text: str) -> CompiledStack:
    return compile_stack(small_stack(), (read_c_function("held", text, "held.c"),))


def left(
    text: str, packets: list[bytes], folder: Path, settings: Settings | None = None, step: int = MILLISECOND
) -> tuple[list[bytes], dict[str, int]]:
    """The packets that leave, with `step` nanoseconds between two of those that came, and the reports."""
    out = folder / "out.pcap"
    with Box(compiled(text), settings or Settings(max_instances=1 << 8), output=out) as box:
        for number, packet in enumerate(packets):
            box.packet(packet, 10**18 + number * step)
        box.finish()
        assert box.failure() is None
        reports = box.reports()
    ends = ("held_released", "held_discarded", "held_expired", "held_at_end")
    assert reports.get("packets_held", 0) == sum(reports.get(name, 0) for name in ends)
    return [packet.data for packet in read_packets(compiled(text).compiled.path, out)], reports


def segments(*payloads: bytes) -> list[bytes]:
    """A handshake of three packets, and then the segments."""
    client, server = pair()
    return [*handshake(client, server), *(client.data(payload) for payload in payloads)]


def test_segments_out_of_order_leave_once_their_bytes_were_seen(tmp_path: Path) -> None:
    *opening, first, second, third = segments(b"one", b"two", b"three")
    found, reports = left(INSPECT, [*opening, third, second, first], tmp_path)
    assert found == [*opening, third, second, first]
    assert (reports["packets_held"], reports["held_released"]) == (2, 2), "the one in order was not copied"


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 2, 0), (2, 1, 0)])
def test_no_byte_from_the_match_on_leaves_in_any_order(tmp_path: Path, order: tuple[int, ...]) -> None:
    """The segment that completes the match is stopped, and those that came before it and belong after it."""
    *opening, one, two, three = segments(b"harmless ", b"an attack", b" and more")
    parts = (one, two, three)
    found, _ = left(INSPECT, [*opening, *(parts[number] for number in order), two, three], tmp_path)
    assert found[:3] == opening and set(found[3:]) <= {one}
    assert (one in found) == (order[0] == 0)


@pytest.mark.parametrize("passes", [False, True])
def test_at_the_bound_in_time_packets_pass_or_are_dropped(tmp_path: Path, passes: bool) -> None:
    *opening, one, two = segments(b"h1", b"h2")
    settings = Settings(max_instances=1 << 8, held_seconds=0.0025, held_open=passes)
    found, reports = left(COMMANDS, [*opening, one, opening[1], opening[1], opening[1], two], tmp_path, settings)
    before = [*opening, opening[1], opening[1]]
    assert found == ([*before, one, opening[1], two] if passes else [*before, opening[1]])
    assert (reports["held_expired"], reports["held_at_end"]) == (1, 1)


@pytest.mark.parametrize("passes", [False, True])
def test_at_the_bound_in_bytes_a_packet_is_not_held(tmp_path: Path, passes: bool) -> None:
    """Each takes 256 bytes of the 1024."""
    *opening, one, two, three, four, five, last = segments(*([b"h" * 20] * 5), b"r")
    settings = Settings(max_instances=1 << 8, held_bytes=1024, held_open=passes)
    found, reports = left(COMMANDS, [*opening, one, two, three, four, five, last], tmp_path, settings)
    assert found == [*opening, *([five] if passes else []), one, two, three, four, last]
    assert (reports["held_no_room"], reports["packets_held"]) == (1, 4)
    assert reports["packets_dropped"] == (0 if passes else 1)


def test_a_held_packet_leaves_as_it_was_changed(tmp_path: Path) -> None:
    *opening, one, last = segments(b"change", b"r")
    found, _ = left(COMMANDS, [*opening, one, last], tmp_path)
    assert found[3][54:] == b"Hhange" and found[4] == last


def test_a_passive_box_holds_nothing() -> None:
    with Box(compiled(COMMANDS), Settings(max_instances=1 << 8)) as box:
        for packet in segments(b"h", b"x"):
            box.packet(packet)
        box.finish()
        assert "packets_held" not in box.reports()


@dataclass
class Model:
    """What leaves, said as plainly as possible."""

    out: list[bytes] = field(default_factory=lambda: [])
    held: list[tuple[int, bytes]] = field(default_factory=lambda: [])

    def packet(self, flow: int, command: str, packet: bytes) -> None:
        mine = [each for number, each in self.held if number == flow]
        match command:
            case "h":
                self.held.append((flow, packet))
            case "r" | "s":
                self.out += mine
                self.out.append(packet)
                self.out += [packet[:54]] if command == "s" else []
            case "n" | "x":
                self.out.append(packet)
            case "d":
                pass
            case _:
                self.out.append(packet)
        if command in "rsnx":
            self.held = [(number, each) for number, each in self.held if number != flow]


@pytest.mark.parametrize("seed", range(4))
def test_random_decisions_over_several_connections(tmp_path: Path, seed: int) -> None:
    """The ring wraps many times; entries are freed in any order."""
    choose = random.Random(seed)
    ends: list[tuple[Host, Host]] = [pair(port=40000 + number) for number in range(5)]
    model, packets = Model(), list[bytes]()
    for client, server in ends:
        packets += handshake(client, server)
    model.out += packets
    for _ in range(1500):
        flow = choose.randrange(5)
        command = choose.choice("hhhhhhrnxds.")
        packet = ends[flow][0].data(command.encode() * choose.choice([1, 20, 300, 1300]))
        if len(model.held) < 60 or command != "h":
            packets.append(packet)
            model.packet(flow, command, packet)
    model.out += [packet for _, packet in model.held]
    settings = Settings(max_instances=1 << 8, held_bytes=1 << 17, held_seconds=1e6, held_open=True)
    found, reports = left(COMMANDS, packets, tmp_path, settings)
    assert reports["held_no_room"] == 0
    assert found == model.out


@pytest.mark.parametrize("passes", [False, True])
def test_a_ring_that_is_emptied_where_it_wraps_begins_anew(tmp_path: Path, passes: bool) -> None:
    """Two packets at a time are held and released, in a ring of which the end often has no room for one more."""
    draw = random.Random(5)
    payloads = [letter + bytes(draw.randrange(300)) for _ in range(60) for letter in (b"h", b"h", b"r")]
    settings = Settings(max_instances=1 << 8, held_bytes=1024, held_seconds=0.0025, held_open=passes)
    packets = segments(*payloads)
    found, reports = left(COMMANDS, packets, tmp_path, settings)
    assert found == packets
    assert [reports[f"held_{name}"] for name in ("released", "expired", "no_room")] == [120, 0, 0]
