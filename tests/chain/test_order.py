"""The order of a flow's events at every function, and what verdicts do to them."""

from __future__ import annotations

from pathlib import Path

from sluice.chain.description import function
from tests.chain.functions import Put
from tests.chain.running import checked, run, talk
from tests.support.connection import handshake, pair

EVENTS = ("created", "packet", "data", "end")
ROWS = """
from sluice.functions import on

rows = []

def saw(event):
    rows.append((event.instance, event.name, event.packet, event.side))

""" + "\n".join(f'on("tcp", "{name}")(saw)' for name in EVENTS)
PUBLISH = """
SLUICE_INLINE
SLUICE_PUBLISH(blocked, { uint64_t number; })
SLUICE_ON(tcp, packet) {
    if (sl_packet_number(event) % 3)
        return;
    SLUICE_DROP(event->box);
    SLUICE_EMIT(event, blocked, .number = sl_packet_number(event));
}
"""
COUNT = """
SLUICE_COUNTER(blocked, "published")
SLUICE_COUNTER(packets, "seen")
SLUICE_COUNTER(ended, "instances")
SLUICE_ON(chain, blocked) { SLUICE_COUNTER_OF(event->box, blocked)++; }
SLUICE_ON(tcp, packet) { SLUICE_COUNTER_OF(event->box, packets)++; }
SLUICE_ON(tcp, end) { SLUICE_COUNTER_OF(event->box, ended)++; }
"""


def test_a_flows_events_have_the_order_of_the_stack_at_every_function(put: Put, tmp_path: Path) -> None:
    """Two functions at different places of a chain see the same events in the same order; one after a drop sees a
    part of them, in that order.
    """
    rows, c = put("rows.py", ROWS), put("publish.c", PUBLISH)
    plan = checked(function(rows, "first") >> (function(rows, "beside") | function(c)) >> function(rows, "last"))
    first, beside, last = (python.handlers[0][2].__globals__["rows"] for python in plan.python())  # type: ignore[attr-defined]
    run(plan, tmp_path / "out")
    assert len(first) > 3 * len(EVENTS)
    assert beside == first
    assert last == [
        row for row in first if row[2] % 3 or row[1] == "data" or (row[1] in ("end", "created") and row in last)
    ]
    assert len(last) < len(first)
    for flow in {row[0] for row in first}:
        names = [row[1] for row in first if row[0] == flow]
        assert names[0] == "created" and names[-1] == "end"


def test_published_events_and_ends_pass_a_drop(put: Put, tmp_path: Path) -> None:
    """A function after a firewall does not see the packets that it drops, but what it says of them, and all ends."""
    came = run(checked(function(put("publish.c", PUBLISH)) >> function(put("count.c", COUNT))), tmp_path / "out")
    blocked = len(talk()) // 3
    assert came.reports["count.blocked"] == came.reports["packets_dropped"] == blocked
    assert came.reports["count.packets"] == len(talk()) - blocked
    assert came.reports["count.ended"] == 4
    assert came.left == [packet for number, packet in enumerate(talk(), 1) if number % 3]


SEGMENT = """
SLUICE_INLINE
SLUICE_ON(tcp, packet) {
    if (sl_packet_number(event) == 5)
        SLUICE_DROP(event->box);
}
"""
BYTES = """
SLUICE_COUNTER(bytes, "delivered")
SLUICE_COUNTER(packets, "seen")
SLUICE_EVENT(tcp, some, data) { return data->bytes.length > 0; }
SLUICE_ON(tcp, packet) { SLUICE_COUNTER_OF(event->box, packets)++; }
SLUICE_ON(tcp, some) { SLUICE_COUNTER_OF(event->box, bytes) += data->bytes.length; }
"""
BYTES_IN_PYTHON = """
from sluice.functions import counter, on
bytes_, packets = counter("delivered"), counter("seen")

@on("tcp", "packet")
def packet(event):
    packets.add()

@on("tcp", "data")
def data(event):
    bytes_.add(len(event.bytes))
"""


def test_a_dropped_packet_leaves_no_hole_in_the_stream_of_others(put: Put, tmp_path: Path) -> None:
    """Segment 2 passes and is held; segment 1, which is dropped, delivers both."""
    client, server = pair()
    opening = handshake(client, server)
    first, second = client.data(b"a" * 10), client.data(b"evil")
    packets = (*opening, second, first, client.data(b"b" * 5))
    chain = (
        function(put("segment.c", SEGMENT))
        >> function(put("bytes.c", BYTES))
        >> function(put("rows.py", BYTES_IN_PYTHON))
    )
    came = run(checked(chain), tmp_path / "out", packets)
    assert came.left == [packet for number, packet in enumerate(packets, 1) if number != 5]
    assert came.reports["bytes.bytes"] == came.reports["rows.bytes_"] == 10 + 4 + 5
    assert came.reports["bytes.packets"] == came.reports["rows.packets"] == len(packets) - 1
