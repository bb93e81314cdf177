"""Datagrams and the tunnels of VXLAN: the smallest stack in which tunnels on other ports are searched for."""

from sluice.lang import Pred, Stack
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.udp import udp_parser
from sluice.protocols.vxlan import vxlan_parser

stack = Stack("vxlan", depth=8)
stack.eth, stack.ipv4, stack.udp, stack.vxlan = ethernet_parser(), ipv4_parser(), udp_parser(), vxlan_parser()
stack += (stack.eth >> stack.ipv4) + Pred(stack.eth.header.type == 0x0800)
stack += (stack.ipv4 >> stack.udp) + Pred(stack.ipv4.header.protocol == 17)
stack += (stack.udp >> stack.vxlan) + Pred(stack.udp.header.dport == 4789)
stack += (stack.vxlan >> stack.eth) + Pred(1)
