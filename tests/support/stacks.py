"""Stacks that several tests use, each optimised or compiled once per process."""

from __future__ import annotations

from functools import cache
from typing import Any

from sluice.engine.box import CompiledStack
from sluice.ir.graph import Program
from sluice.ir.hook import Hook
from sluice.lang import Pred, Stack
from sluice.lower.build import build
from sluice.passes.pipeline import run
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.ipv6 import ipv6_parser
from sluice.protocols.tcp import tcp_parser
from sluice.protocols.udp import udp_parser
from sluice.stacks.everything import everything
from sluice.stacks.find import find_stack
from sluice.stacks.tcp_ip import tcp_ip
from tests.support.run import watch_all


@cache
def optimised(stack: str, hooks: frozenset[Hook] = frozenset()) -> Program:
    """The program of a ready stack after all passes; not to be changed."""
    return run(build(find_stack(stack), hooks))


@cache
def whole(passes: str = "all") -> CompiledStack:
    """Stack tcp_ip."""
    return watch_all(tcp_ip(), passes=passes)


@cache
def checking() -> CompiledStack:
    """Stack tcp_ip with checksums verified."""
    return watch_all(tcp_ip(), options=["checksums"])


def small_tcp(**settings: Any) -> Stack:
    """Ethernet, IPv4, and TCP with settings of its parser: compiles in half the time of tcp_ip."""
    stack = Stack("plain_tcp")
    stack.eth, stack.ipv4, stack.tcp = ethernet_parser(), ipv4_parser(), tcp_parser(**settings)
    stack += (stack.eth >> stack.ipv4) + Pred(stack.eth.header.type == 0x0800)
    stack += (stack.ipv4 >> stack.tcp) + Pred(stack.ipv4.header.protocol == 6)
    return stack


def small_ip() -> Stack:
    """Ethernet, both versions of IP, TCP and UDP: compiles in half the time of tcp_ip."""
    s = Stack("small_ip")
    s.eth, s.ipv4, s.ipv6, s.udp, s.tcp = ethernet_parser(), ipv4_parser(), ipv6_parser(), udp_parser(), tcp_parser()
    s += (s.eth >> s.ipv4) + Pred(s.eth.header.type == 0x0800)
    s += (s.eth >> s.ipv6) + Pred(s.eth.header.type == 0x86DD)
    ip = s.ipv4 | s.ipv6
    s += (ip >> s.tcp) + Pred(ip.offers.protocol == 6)
    s += (ip >> s.udp) + Pred(ip.offers.protocol == 17)
    return s


MESSAGES = (
    *(("dns", "message"), ("dns_question", "asked"), ("dns_record", "answered"), ("dns_stream", "lost")),
    *(("igmp", "membership"), ("igmp_record", "membership"), ("msdu", "lost"), ("sctp_message", "message")),
)
"""The events of the stack `all_protocols` that are not built in."""


@cache
def all_protocols(*options: str) -> CompiledStack:
    """Stack everything, of which `run` gets all events. Its compilation takes long, so test files share it."""
    return watch_all(everything(), *MESSAGES, options=options)


@cache
def plain_tcp(**settings: Any) -> CompiledStack:
    """The stack small_tcp, of which `run` gets all events."""
    return watch_all(small_tcp(**settings))
