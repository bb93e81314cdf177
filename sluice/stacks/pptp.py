"""PPTP: the control connection, and the calls that GRE carries, with TCP over IPv4 within both (the paper's stack).

Ethernet; IPv4 with fragments; TCP, whose port 1723 is the control connection (`pptp`); GRE version 1, PPP, and within
that IPv4 again, to a depth of 16 layers.
"""

from sluice.lang import Pred, Stack, one_of
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.gre import gre_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.ppp import ppp_parser
from sluice.protocols.pptp import pptp_parser
from sluice.protocols.tcp import tcp_parser


def pptp() -> Stack:
    s = Stack("pptp", depth=16)
    s.eth = ethernet_parser()
    s.ipv4 = ipv4_parser()
    s.tcp = tcp_parser()
    s.pptp = pptp_parser()
    s.gre = gre_parser()
    s.ppp = ppp_parser()
    s += (s.eth >> s.ipv4) + Pred(s.eth.header.type == 0x0800)
    s += (s.ipv4 >> s.tcp) + Pred(s.ipv4.header.protocol == 6)
    s += (s.tcp >> s.pptp) + Pred(one_of(1723, s.tcp.header.sport, s.tcp.header.dport))
    s += (s.ipv4 >> s.gre) + Pred(s.ipv4.header.protocol == 47)
    s += (s.gre >> s.ppp) + Pred((s.gre.header.version == 1) & (s.gre.header.S == 1))
    s += (s.ppp >> s.ipv4) + Pred(s.ppp.temp.protocol == 0x0021)
    return s
