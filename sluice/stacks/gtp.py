"""GTP: TCP over IPv4 in mobile networks' tunnels over UDP and IPv4 (the paper's stack)."""

from sluice.lang import Pred, Stack, one_of
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.gtp import gtp_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.tcp import tcp_parser
from sluice.protocols.udp import udp_parser


def gtp() -> Stack:
    s = Stack("gtp", depth=16)
    s.eth = ethernet_parser()
    s.ipv4 = ipv4_parser()
    s.udp = udp_parser()
    s.gtp = gtp_parser()
    s.inner = ipv4_parser()
    s.tcp = tcp_parser()
    s += (s.eth >> s.ipv4) + Pred(s.eth.header.type == 0x0800)
    s += (s.ipv4 >> s.udp) + Pred(s.ipv4.header.protocol == 17)
    s += (s.udp >> s.gtp) + Pred(one_of(2152, s.udp.header.sport, s.udp.header.dport))
    s += (s.gtp >> s.inner) + Pred(s.gtp.header.MT == 255)
    s += (s.inner >> s.tcp) + Pred(s.inner.header.protocol == 6)
    return s
