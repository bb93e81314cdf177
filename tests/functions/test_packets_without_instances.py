"""The event `packet` of layers without instances: for functions that name the layer, in the order of packets."""

from __future__ import annotations

from pathlib import Path

from sluice.engine.box import Box, Settings, compile_stack
from sluice.engine.c_function import read_c_function
from sluice.lang import Pred, Stack
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.ipv4 import ipv4_parser
from tests.support.capture import pcap
from tests.support.packets import eth, ip4

NAMED = """#include "sluice.h"
SLUICE_COUNTER(named, "frames")
SLUICE_COUNTER(together, "frames whose number is that of the packet")
SLUICE_COUNTER(instances, "frames with an instance")
SLUICE_ON(eth, packet) {
    SLUICE_COUNTER_OF(event->box, named)++;
    SLUICE_COUNTER_OF(event->box, together) += sl_packet_number(event) == SLUICE_COUNTER_OF(event->box, named);
    SLUICE_COUNTER_OF(event->box, instances) += event->instance != NULL;
}
"""
ALL = """#include "sluice.h"
SLUICE_COUNTER(all, "packets of layers with instances")
SLUICE_ON(any, packet) { SLUICE_COUNTER_OF(event->box, all)++; }
"""


def test_a_function_that_names_the_layer_gets_its_packets(tmp_path: Path) -> None:
    stack = Stack("frames")
    stack.eth, stack.ipv4 = ethernet_parser(), ipv4_parser()
    stack += (stack.eth >> stack.ipv4) + Pred(stack.eth.header.type == 0x0800)
    functions = (read_c_function("named", NAMED, "named.c"), read_c_function("all", ALL, "all.c"))
    frames = [eth(ip4(b"x", 99)), bytes(12) + b"\x88\xcc" + bytes(20), eth(ip4(b"y", 99))] * 20
    (tmp_path / "in.pcap").write_bytes(pcap(frames))
    with Box(compile_stack(stack, functions), Settings(max_instances=1 << 8, memory=1 << 20), [], ["", ""]) as box:
        reports = box.run(tmp_path / "in.pcap").reports
    assert reports["named"] == reports["together"] == 60
    assert (reports["instances"], reports["all"]) == (0, 40)
