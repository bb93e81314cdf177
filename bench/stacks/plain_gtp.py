"""GTP as stack `gtp` has it, but over a UDP that keeps no conversations: what the tunnel's headers alone cost."""

from sluice.lang import Pred, Stack, one_of
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.gtp import gtp_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.tcp import tcp_parser
from sluice.protocols.udp import plain_udp_parser

stack = Stack("plain_gtp", depth=16)
stack.eth = ethernet_parser()
stack.ipv4 = ipv4_parser()
stack.udp = plain_udp_parser()
stack.gtp = gtp_parser()
stack.inner = ipv4_parser()
stack.tcp = tcp_parser()
stack += (stack.eth >> stack.ipv4) + Pred(stack.eth.header.type == 0x0800)
stack += (stack.ipv4 >> stack.udp) + Pred(stack.ipv4.header.protocol == 17)
stack += (stack.udp >> stack.gtp) + Pred(one_of(2152, stack.udp.header.sport, stack.udp.header.dport))
stack += (stack.gtp >> stack.inner) + Pred(stack.gtp.header.MT == 255)
stack += (stack.inner >> stack.tcp) + Pred(stack.inner.header.protocol == 6)
