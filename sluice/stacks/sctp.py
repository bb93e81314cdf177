"""SCTP over IPv4 and IPv6 on Ethernet, and within UDP (RFC 6951): the paper's SCTP stack."""

from sluice.lang import Pred, Stack, one_of
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.ipv6 import ipv6_parser
from sluice.protocols.sctp import CHUNK, PORT, PROTOCOL, sctp_bare_parser, sctp_layers
from sluice.protocols.udp import udp_parser


def sctp() -> Stack:
    s = Stack("sctp")
    s.eth = ethernet_parser()
    s.ipv4 = ipv4_parser()
    s.ipv6 = ipv6_parser()
    s.udp = udp_parser()
    s += sctp_layers()
    s.sctp_bare = sctp_bare_parser()
    s += (s.sctp_packet >> s.sctp_bare) + Pred(s.sctp_packet.payload_len < CHUNK, before=s.sctp)
    ip = s.ipv4 | s.ipv6
    s += (s.eth >> s.ipv4) + Pred(s.eth.header.type == 0x0800)
    s += (s.eth >> s.ipv6) + Pred(s.eth.header.type == 0x86DD)
    s += (ip >> s.udp) + Pred(ip.offers.protocol == 17)
    s += (ip >> s.sctp_packet) + Pred(ip.offers.protocol == PROTOCOL)
    s += (s.udp >> s.sctp_packet) + Pred(one_of(PORT, s.udp.header.sport, s.udp.header.dport))
    return s
