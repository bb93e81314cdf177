"""Every protocol and the TCP/IP stack build, and what is built passes the verifier."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sluice.ir.hook import Hook
from sluice.ir.verify import verify
from sluice.lang import Bit, Connectionless, Pred, Stack, layout
from sluice.lower.build import build
from sluice.protocols import (
    ah,
    arp,
    ethernet,
    icmp,
    icmp6,
    ipv4,
    ipv6,
    ipv6_extension,
    ipv6_fragment,
    llc,
    null,
    other_ip,
    raw,
    sll,
    sll2,
    snap,
    udp,
    vlan,
)
from sluice.stacks.tcp_ip import tcp_ip

PARSERS: list[Callable[[], Any]] = [
    ethernet.ethernet_parser,
    vlan.vlan_parser,
    llc.llc_parser,
    snap.snap_parser,
    arp.arp_parser,
    sll.sll_parser,
    sll2.sll2_parser,
    null.null_parser,
    raw.raw_parser,
    ipv4.ipv4_parser,
    ipv6.ipv6_parser,
    ipv6_extension.ipv6_extension_parser,
    ipv6_fragment.ipv6_fragment_parser,
    ah.ah_parser,
    icmp.icmp_parser,
    icmp6.icmp6_parser,
    udp.udp_parser,
    other_ip.other_ip_parser,
]
EVENTS = ("created", "packet", "data", "rexmit", "gap", "end")
ALL_HOOKS = frozenset(Hook("*", event) for event in EVENTS)


class fake_hdr(layout):
    src = Bit(128)
    dst = Bit(128)
    protocol = Bit(8)


def fake_parser() -> Connectionless:
    fake = Connectionless("fake")
    fake.header = fake_hdr  # pyright: ignore[reportAttributeAccessIssue]
    fake.offer(src=fake.header.src, dst=fake.header.dst, protocol=fake.header.protocol, unmeasured=0)
    return fake


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.__module__.rpartition(".")[2])
def test_protocol_builds(parser: Callable[[], Any]) -> None:
    stack = Stack()
    stack.fake = fake_parser()
    stack.upper = parser()
    stack += (stack.fake >> stack.upper) + Pred(1)
    for hooks in (frozenset[Hook](), ALL_HOOKS):
        verify(build(stack, hooks, frozenset({"checksums"})))
    source = Path(parser.__code__.co_filename).read_text()
    lines = [line for line in source.partition('"""\n\n')[2].splitlines() if line.strip()]
    print(f"{Path(parser.__code__.co_filename).name}: {len(lines)} lines")
    assert source.startswith('"""') and len(lines) < 120


@pytest.mark.parametrize("hooks", [frozenset[Hook](), ALL_HOOKS], ids=["no hooks", "all hooks"])
@pytest.mark.parametrize("options", [frozenset[str](), frozenset({"checksums"})], ids=["plain", "checksums"])
def test_tcp_ip_builds(hooks: frozenset[Hook], options: frozenset[str]) -> None:
    program = build(tcp_ip(), hooks, options)
    verify(program)
    assert dict(program.roots) == {
        1: "eth", 113: "sll", 276: "sll2", 0: "null", 108: "null",
        101: "raw", 12: "raw", 14: "raw", 228: "raw", 229: "raw", 11: "llc", 100: "llc",
    }  # fmt: skip
