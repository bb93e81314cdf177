"""Stacks that compile fast. Commands that tests start import this module, so it imports nothing else of the tests."""

from __future__ import annotations

from typing import Any

from sluice.lang import Pred, Stack
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.ipv6 import ipv6_parser
from sluice.protocols.tcp import tcp_parser
from sluice.protocols.udp import udp_parser


def small_stack() -> Stack:
    """Ethernet, IPv4 and TCP."""
    stack = Stack("small")
    stack.eth, stack.ipv4, stack.tcp = ethernet_parser(), ipv4_parser(), tcp_parser()
    stack += (stack.eth >> stack.ipv4) + Pred(stack.eth.header.type == 0x0800)
    stack += (stack.ipv4 >> stack.tcp) + Pred(stack.ipv4.header.protocol == 6)
    return stack


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
