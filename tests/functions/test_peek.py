"""Looking into a stream: what waits for other bytes, and what was delivered and is kept."""

from __future__ import annotations

from functools import cache

import pytest

from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.c_function import read_c_function
from tests.support.connection import handshake, pair
from tests.support.stacks import small_ip

SETTINGS = Settings(max_instances=1 << 8, memory=1 << 24)


@cache
def compiled(kept: int) -> CompiledStack:
    text = PEEK + (f"SLUICE_KEEP(tcp, {kept})\n" if kept else "")
    return compile_stack(small_ip(), (read_c_function("peek", text, "peek.c"),))


PEEK = """
#include "sluice.h"
SLUICE_PARAMETER(offset, number, 0, "where")
SLUICE_PARAMETER(size, number, 100, "how many")
SLUICE_PARAMETER(side, number, 0, "which")
SLUICE_COUNTER(count, "bytes there")
SLUICE_COUNTER(right, "of these, right ones")
SLUICE_COUNTER(delivered, "up to where")
SLUICE_COUNTER(held, "bytes held")
SLUICE_COUNTER(pieces, "in so many pieces")
SLUICE_ON(tcp, packet) {
    uint8_t bytes[100];
    uint64_t offset = SLUICE_PARAMETER_OF(event->box, offset);
    if (event->side != 1)
        return;
    unsigned side = (unsigned)SLUICE_PARAMETER_OF(event->box, side);
    uint32_t n = sl_peek(event, side, offset, bytes, (uint32_t)SLUICE_PARAMETER_OF(event->box, size));
    struct sl_stream_view view = sl_view(event, side);
    SLUICE_COUNTER_OF(event->box, count) = n;
    SLUICE_COUNTER_OF(event->box, right) = 0;
    for (uint32_t i = 0; i < n; i++)
        SLUICE_COUNTER_OF(event->box, right) += bytes[i] == (uint8_t)('a' + (offset + i) % 26);
    SLUICE_COUNTER_OF(event->box, delivered) = view.delivered;
    SLUICE_COUNTER_OF(event->box, held) = view.held;
    SLUICE_COUNTER_OF(event->box, pieces) = view.pieces;
}
"""


@pytest.mark.parametrize("kept", [0, 8])
@pytest.mark.parametrize(
    "offset, size, there",
    [
        (12, 100, 0),  # delivered, and missing after
        (4, 100, 8),  # so much of it is kept
        (6, 3, 3),
        (3, 100, 0),
        (15, 100, 0),  # the hole
        (20, 100, 20),  # two pieces that touch
        (25, 100, 15),
        (28, 4, 4),
        (40, 100, 0),
        (45, 100, 10),
        (55, 100, 0),
        (1 << 40, 100, 0),
    ],
)
def test_peek(offset: int, size: int, there: int, kept: int) -> None:
    """Bytes up to the first that is missing: [0, 12) was delivered, [20, 30), [30, 40) and [45, 55) wait."""
    stream = bytes(ord("a") + n % 26 for n in range(60))
    client, server = pair()
    packets = handshake(client, server)
    packets += [client.at(low, stream[low:high]) for low, high in ((0, 12), (30, 40), (20, 30), (45, 55))]
    packets.append(server.send("A"))
    options = [f"offset={offset},size={size}"]
    with Box(compiled(kept), SETTINGS, function_options=options) as box:
        for packet in packets:
            box.packet(packet)
        box.finish()
        found = box.reports()
    expected = there if kept or offset >= 12 else 0
    assert found["count"] == found["right"] == expected
    assert (found["delivered"], found["held"]) == (12, 30) and 2 <= found["pieces"] <= 3


LOOK = """
#include "sluice.h"
SLUICE_COUNTER(seen, "delivered, whenever a packet is told of")
SLUICE_ON(tcp, data) { (void)event; (void)data; }
SLUICE_ON(tcp, packet) {
    (void)data;
    SLUICE_COUNTER_OF(event->box, seen) += sl_view(event, event->side).delivered;
}
"""


@pytest.mark.parametrize("passes", ["none", "forwarding", "all"])
def test_what_is_seen_does_not_depend_on_passes(passes: str) -> None:
    """At `packet` its own bytes are still to be delivered, also where they could go by the sequence."""
    function = read_c_function("look", LOOK, "look.c")
    made = compile_stack(small_ip(), (function,), passes=passes)
    client, server = pair()
    packets = [*handshake(client, server), client.send("A", b"x" * 10), client.send("A", b"y" * 10)]
    with Box(made, SETTINGS) as box:
        for number, packet in enumerate(packets):
            box.packet(packet, number)
        box.finish()
        assert box.reports()["seen"] == 10


def test_nothing_where_there_is_nothing() -> None:
    """No such side, and a stream that holds nothing."""
    for side in (0, 1, 2, 7):
        client, server = pair()
        with Box(compiled(0), SETTINGS, function_options=[f"side={side}"]) as box:
            for packet in [*handshake(client, server), server.send("A")]:
                box.packet(packet)
            box.finish()
            assert box.reports()["count"] == 0
