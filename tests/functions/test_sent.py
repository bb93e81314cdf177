"""Event `sent`: after what a packet says of its sender, before anything of it reaches the other side."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.c_function import read_c_function
from sluice.ir.instruction import Dropped
from sluice.lower.build import build
from tests.functions.test_output import processed
from tests.support.connection import handshake, pair
from tests.support.stacks import small_ip

TEXT = """#include "sluice.h"
SLUICE_INLINE
SLUICE_PARAMETER(first, number, 0, "drops each segment that is the first with bytes, when it is sent")
SLUICE_PARAMETER(later, number, 0, "drops it after its steps")
SLUICE_PARAMETER(all, number, 0, "drops all that is sent")
SLUICE_PARAMETER(below, number, 0, "drops all in the layer below")
SLUICE_COUNTER(sent, "events sent")
SLUICE_COUNTER(packet, "events packet")
SLUICE_COUNTER(bytes, "bytes delivered")
SLUICE_COUNTER(steps, "steps of the machine")
SLUICE_COUNTER(ended, "instances that ended")
SLUICE_COUNTER(wrong, "events in the wrong order")
SLUICE_COUNTER(with_bytes, "segments with bytes")
SLUICE_ON(ipv4, packet) { if (SLUICE_PARAMETER_OF(event->box, below)) SLUICE_DROP(event->box); }
SLUICE_ON(tcp, sent) {
    const bool first = data->length && !SLUICE_COUNTER_OF(event->box, with_bytes);
    SLUICE_COUNTER_OF(event->box, with_bytes) += data->length != 0;
    SLUICE_COUNTER_OF(event->box, wrong) += SLUICE_COUNTER_OF(event->box, sent) < SLUICE_COUNTER_OF(event->box, packet);
    SLUICE_COUNTER_OF(event->box, sent)++;
    if (SLUICE_PARAMETER_OF(event->box, all) || (first && SLUICE_PARAMETER_OF(event->box, first)))
        SLUICE_DROP(event->box);
}
SLUICE_ON(tcp, packet) {
    SLUICE_COUNTER_OF(event->box, packet)++;
    if (SLUICE_COUNTER_OF(event->box, with_bytes) == 1 && data->length && SLUICE_PARAMETER_OF(event->box, later))
        SLUICE_DROP(event->box);
}
SLUICE_ON(tcp, data) { SLUICE_COUNTER_OF(event->box, bytes) += data->bytes.length; }
SLUICE_ON(tcp, state) { SLUICE_COUNTER_OF(event->box, steps)++; }
SLUICE_ON(tcp, end) { SLUICE_COUNTER_OF(event->box, ended)++; }
"""


@cache
def stack() -> CompiledStack:
    return compile_stack(small_ip(), (read_c_function("sent", TEXT, "sent.c"),))


def seen(tmp_path: Path, options: str) -> tuple[int, dict[str, int]]:
    """How many packets leave of a connection whose first bytes are sent twice, and the counters."""
    client, server = pair()
    packets = [*handshake(client, server), client.at(0, b"abc"), client.at(3, b"defg"), client.at(0, b"abc")]
    packets.append(server.send("A"))
    path, settings = tmp_path / "out.pcap", Settings(max_instances=1 << 8, memory=1 << 24)
    box = Box(stack(), settings, function_options=[options], output=path)
    sent, found = processed(box, packets, path)
    return len(sent), found


def test_each_packet_is_sent_before_its_steps(tmp_path: Path) -> None:
    there, found = seen(tmp_path, "")
    assert there == found["sent"] == found["packet"] == 7 and found["wrong"] == 0 and found["bytes"] == 7


def test_bytes_of_a_packet_that_is_dropped_then_do_not_count(tmp_path: Path) -> None:
    """They are part of the stream when they come again. Dropped after its steps, they are part of it all the same."""
    there, found = seen(tmp_path, "first=1")
    assert there == 6 and found["sent"] == 7 and found["packet"] == 6 and found["bytes"] == 7
    assert found["packets_dropped"] == 1
    there, later = seen(tmp_path, "later=1")
    assert there == 6 and later["packet"] == 7 and later["bytes"] == 7


def test_the_machine_makes_no_step_for_what_is_dropped(tmp_path: Path) -> None:
    """Nor does an instance remain that only such packets know: it ends as others do."""
    there, found = seen(tmp_path, "all=1")
    assert there == 0 and found["sent"] == 7 and found["packet"] == found["steps"] == found["bytes"] == 0
    assert found["ended"] == 1


def test_a_drop_in_a_layer_below_changes_nothing(tmp_path: Path) -> None:
    there, found = seen(tmp_path, "below=1")
    assert there == 0 and found["packet"] == 7 and found["bytes"] == 7


def test_without_a_subscriber_it_costs_nothing() -> None:
    for layer in build(small_ip()).layers.values():
        blocks = layer.main.blocks.values()
        assert not any(isinstance(i, Dropped) for block in blocks for i in block.instructions)
