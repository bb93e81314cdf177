"""A stack that compiles in half the time of tcp_ip, for tests that need some stack with TCP and UDP."""

from sluice.lang import Pred
from sluice.protocols.udp import udp_parser
from tests.support.stacks import small_tcp

stack = small_tcp()
stack.udp = udp_parser()
stack += (stack.ipv4 >> stack.udp) + Pred(stack.ipv4.header.protocol == 17)
