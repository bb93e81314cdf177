"""Every protocol that Sluice has; each tunnel may carry all inner protocols.

Links: Ethernet, 802.1Q and QinQ, LLC and SNAP, Linux cooked, BSD loopback, raw IP, Cisco HDLC with SLARP, frame relay,
PPP with its control protocols and multilink, PPPoE, 802.11 with radiotap, PPI, AVS and Prism, InfiniBand, FDDI, ATM,
SLIP, DSA and Juniper's; captures of NFLOG, PFLOG, ENC, PKTAP and IPNET. Tags: VN-Tag, TTag, HSR, TrustSec, MACsec
without encryption, PBB, FabricPath, NSH. Network: ARP, IPv4, IPv6 with extension headers and fragments, AH, ESP,
IPComp, IGMP, MPLS with pseudo-wires. Tunnels: IP in IP, EtherIP, GRE, PPTP's GRE, ERSPAN, WCCP, Aruba's GRE, PIM
registers, GTP-U and GTP version 0, VXLAN, VXLAN-GPE, Geneve, L2TP versions 2 and 3, CAPWAP, Teredo, AYIYA, GUE, LISP,
TZSP, MPLS in IP and UDP, GRE in UDP, Ethernet in SRv6. Transport: TCP, UDP, SCTP, ICMP, ICMPv6. Messages: SCTP's, DNS
over UDP and TCP, PPTP's control connection. QUIC with its streams, on any port without another protocol.
"""

from sluice.lang import Pred, Stack, one_of
from sluice.protocols.dns import dns_parser, dns_question_parser, dns_record_parser, dns_stream_parser
from sluice.protocols.esp import esp_parser
from sluice.protocols.igmp import igmp_parser, igmp_record_parser
from sluice.protocols.pptp import pptp_parser
from sluice.protocols.sctp import CHUNK, sctp_bare_parser, sctp_layers
from sluice.protocols.sctp import PORT as SCTP_IN_UDP
from sluice.protocols.sctp import PROTOCOL as SCTP
from sluice.stacks import links, quic, tcp_ip, tunnels

DEPTH = 28
"""Layers of a packet: so that no chain of tunnels or headers costs more than ten packets of its length."""
RECORDS = 20
"""Records besides: in all as many as fit into that, and more than an answer with the servers of the root zone and their
addresses has over UDP without a tunnel (RFC 8109): 41 with its question.
"""


def everything() -> Stack:
    s = Stack("everything", depth=DEPTH, records=RECORDS)
    tcp_ip.layers(s)
    links.layers(s)
    s += sctp_layers()
    s.sctp_bare = sctp_bare_parser()
    s += (s.sctp_packet >> s.sctp_bare) + Pred(s.sctp_packet.payload_len < CHUNK, before=s.sctp)
    s.igmp = igmp_parser()
    s.igmp_record = igmp_record_parser()
    s.esp = esp_parser()
    tunnels.layers(s)
    s.pptp = pptp_parser()
    s.dns = dns_parser()
    s.dns_stream = dns_stream_parser()
    s.dns_question = dns_question_parser()
    s.dns_record = dns_record_parser()

    typed = tcp_ip.typed(s) | links.typed(s) | s.gre | s.geneve
    tcp_ip.ethertypes(s, typed)
    links.ethertypes(s, typed)
    tcp_ip.links(s)
    links.steps(s)
    tcp_ip.network(s)
    network(s)
    tunnels.over_udp(s)
    messages(s)
    quic.over_udp(s, s.udp)
    quic.learn_from_hello(s)
    tcp_ip.rest(s)
    return s


def network(s: Stack) -> None:
    """Protocols over IP that are in layer `other` of tcp_ip."""
    over4, over6 = tcp_ip.over_ip(s)
    ip = over4 | over6
    s += (over4 >> s.igmp) + Pred(over4.offers.protocol == 2)
    s += (ip >> s.esp) + Pred(ip.offers.protocol == 50)
    s += (ip >> s.sctp_packet) + Pred(ip.offers.protocol == SCTP)
    s += (s.igmp >> s.igmp_record) + Pred(s.igmp.header.records != 0)
    s += (s.igmp_record >> s.igmp_record) + Pred(s.igmp_record.temp.records != 0)
    tunnels.over_ip(s, ip)


def messages(s: Stack) -> None:
    """Protocols over TCP and UDP that consist of messages."""
    tcp, udp = s.tcp.header, s.udp.header
    s += (s.udp >> s.sctp_packet) + Pred(one_of(SCTP_IN_UDP, udp.sport, udp.dport))
    s += (s.tcp >> s.pptp) + Pred(one_of(1723, tcp.sport, tcp.dport))
    s += (s.tcp >> s.dns_stream) + Pred(one_of(53, tcp.sport, tcp.dport))
    s += (s.udp >> s.dns) + Pred(one_of(53, udp.sport, udp.dport) | one_of(5353, udp.sport, udp.dport))
    s += (s.dns_stream >> s.dns) + Pred(1)
    s += (s.dns >> s.dns_question) + Pred(s.dns.header.questions != 0)
    s += (s.dns >> s.dns_record) + Pred(s.dns.temp.records != 0)
    s += (s.dns_question >> s.dns_question) + Pred(s.dns_question.temp.questions != 0)
    s += (s.dns_question >> s.dns_record) + Pred(s.dns.temp.records != 0)
    s += (s.dns_record >> s.dns_record) + Pred(s.dns_record.temp.records != 0)
