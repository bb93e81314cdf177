"""The order of a flow's events at every function, and what verdicts do to them."""

from __future__ import annotations

from pathlib import Path

from sluice.chain.description import function
from tests.chain.functions import Put
from tests.chain.running import checked, run, talk

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
    assert last == [row for row in first if row[2] % 3 or (row[1] in ("end", "created") and row in last)]
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
