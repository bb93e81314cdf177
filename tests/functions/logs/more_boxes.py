"""Boxes with the logs of further protocols over a small stack with tunnels, compiled once, and their rows."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.functions import find_functions
from sluice.lang import Pred, Stack, one_of
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.gre import gre_parser
from sluice.protocols.gtp import gtp_parser
from sluice.protocols.icmp import icmp_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.tcp import tcp_parser
from sluice.protocols.udp import udp_parser
from sluice.protocols.vlan import vlan_parser
from sluice.protocols.vxlan import vxlan_parser
from tests.functions.logs.boxes import START

LOGS = ("icmplog", "dhcplog", "ntplog", "sshlog", "smtplog", "ftplog", "filelog", "gtplog")
Row = dict[str, Any]
Rows = dict[str, list[Row]]


def stack() -> Stack:
    """Ethernet, VLAN, IPv4 with TCP, UDP and ICMP, and the tunnels GTP, VXLAN and GRE."""
    s = Stack("logs", depth=12)
    s.eth, s.vlan, s.ipv4, s.tcp = ethernet_parser(), vlan_parser(), ipv4_parser(), tcp_parser()
    s.udp, s.icmp = udp_parser(), icmp_parser()
    s.gtp, s.vxlan, s.gre = gtp_parser(), vxlan_parser(), gre_parser()
    typed = s.eth | s.vlan
    s += (typed >> s.ipv4) + Pred(typed.offers.ethertype == 0x0800)
    s += (typed >> s.vlan) + Pred(typed.offers.ethertype == 0x8100)
    for number, layer in ((6, s.tcp), (17, s.udp), (1, s.icmp), (47, s.gre)):
        s += (s.ipv4 >> layer) + Pred(s.ipv4.header.protocol == number)
    s += (s.udp >> s.gtp) + Pred(one_of(2152, s.udp.header.sport, s.udp.header.dport))
    s += (s.udp >> s.vxlan) + Pred(s.udp.header.dport == 4789)
    s += (s.gtp >> s.ipv4) + Pred(s.gtp.header.MT == 255)
    s += (s.vxlan >> s.eth) + Pred(1)
    s += (s.gre >> s.ipv4) + Pred(s.gre.header.protocol == 0x0800)
    return s


@cache
def compiled() -> CompiledStack:
    """All these logs."""
    return compile_stack(stack(), tuple(find_functions(list(LOGS)).c))


def run(packets: Sequence[bytes], parameters: dict[str, str] | None = None) -> Rows:
    """The rows about packets that come a millisecond apart, and the counters of the logs as `counted`."""

    def feed(box: Box) -> None:
        for number, data in enumerate(packets):
            box.packet(data, START + number * 10**6, 1, len(data))

    return _run(feed, parameters)


def run_capture(path: Path) -> Rows:
    """The same about a capture file."""
    return _run(lambda box: box.run(path), None)


def _run(feed: Callable[[Box], object], parameters: dict[str, str] | None) -> Rows:
    with tempfile.TemporaryDirectory() as folder:
        options = [f"out={folder}/{log}{(parameters or {}).get(log, '')}" for log in LOGS]
        with Box(compiled(), Settings(seed=1, timeouts=False, max_instances=1 << 12), [], options) as box:
            feed(box)
            box.finish()
            assert box.failure() is None
            reports = {name: value for name, value in box.reports().items() if value}
        rows = {log: [json.loads(line) for line in Path(folder, log).read_text().splitlines()] for log in LOGS}
    return {**rows, "counted": [reports]}


def lasting(rows: Rows) -> Rows:
    """Rows without what depends on how, and when, their bytes came; ftplog's in the order of commands."""
    varying = ("ts", "last_ts", "delay", "layers", "flow", "data_flow", "extracted")
    found = {
        log: [{name: value for name, value in row.items() if name not in varying} for row in rows[log]] for log in LOGS
    }
    found["ftplog"].sort(key=lambda row: json.dumps(row, sort_keys=True))
    return found
