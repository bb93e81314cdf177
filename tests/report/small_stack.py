"""Ethernet, IPv4, TCP and UDP: the smallest stack that carries all logs of the example."""

from sluice.lang import Pred, Stack
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.tcp import tcp_parser
from sluice.protocols.udp import udp_parser

stack = Stack("small")
stack.eth, stack.ipv4, stack.tcp, stack.udp = ethernet_parser(), ipv4_parser(), tcp_parser(), udp_parser()
stack += (stack.eth >> stack.ipv4) + Pred(stack.eth.header.type == 0x0800)
stack += (stack.ipv4 >> stack.tcp) + Pred(stack.ipv4.header.protocol == 6)
stack += (stack.ipv4 >> stack.udp) + Pred(stack.ipv4.header.protocol == 17)
