"""SCTP over IPv4 and IPv6 on Ethernet, and within UDP: the paper's SCTP stack."""

from collections.abc import Iterable

from sluice.lang import Expression, Pred, Stack, one_of
from sluice.lang.stack import Layer
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.ipv6 import ipv6_parser
from sluice.protocols.sctp import PORT, PROTOCOL, sctp_message_parser, sctp_packet_parser, sctp_parser
from sluice.protocols.udp import udp_parser


def sctp() -> Stack:
    s = Stack("sctp")
    s.eth = ethernet_parser()
    s.ipv4 = ipv4_parser()
    s.ipv6 = ipv6_parser()  # more: IPv6
    s.udp = udp_parser()  # more: SCTP in UDP
    s += (s.eth >> s.ipv4) + Pred(s.eth.header.type == 0x0800)
    s += (s.eth >> s.ipv6) + Pred(s.eth.header.type == 0x86DD)  # more: IPv6
    s += (s.ipv4 >> s.udp) + Pred(s.ipv4.header.protocol == 17)  # more: SCTP in UDP
    s += (s.ipv6 >> s.udp) + Pred(s.ipv6.header.next == 17)  # more: SCTP in UDP
    over(s, [(s.ipv4, s.ipv4.header.protocol), (s.ipv6, s.ipv6.header.next)])
    return s


def over(s: Stack, lower: Iterable[tuple[Layer, Expression]]) -> None:
    """SCTP over layers `lower`, each with the protocol number, and in UDP (RFC 6951)."""
    s.sctp_packet = sctp_packet_parser()
    s.sctp = sctp_parser()
    s.sctp_message = sctp_message_parser()
    for layer, protocol in lower:
        s += (layer >> s.sctp_packet) + Pred(protocol == PROTOCOL)
    s += (s.udp >> s.sctp_packet) + Pred(one_of(PORT, s.udp.header.sport, s.udp.header.dport))  # more: SCTP in UDP
    s += (s.sctp_packet >> s.sctp) + Pred(1)
    s += (s.sctp >> s.sctp_message) + Pred(1)
