"""Every protocol that Sluice has, each tunnel leading to all inner protocols.

Links: Ethernet, 802.1Q and QinQ, LLC and SNAP, Linux cooked, BSD loopback, raw IP, Cisco HDLC with SLARP, frame relay,
PPP with its control protocols, PPPoE, 802.11 with radiotap. Between: ARP, IPv4, IPv6 with extension headers and
fragments, AH, ESP, IGMP, MPLS with pseudo-wires. Tunnels: IP in IP, GRE, PPTP's GRE, ERSPAN, GTP-U, VXLAN, VXLAN-GPE,
Geneve, L2TP, Teredo, MPLS in IP and UDP. Above: TCP, UDP, SCTP, ICMP, ICMPv6. Messages: SCTP's, DNS over UDP and TCP,
PPTP's control connection. And QUIC with its streams, on any port that nothing else is known by.
"""

from sluice.lang import AnyLayer, Expression, Pred, Stack, one_of
from sluice.protocols.chdlc import chdlc_parser
from sluice.protocols.dns import dns_parser, dns_question_parser, dns_record_parser, dns_stream_parser
from sluice.protocols.erspan import erspan3_parser, erspan_parser
from sluice.protocols.esp import esp_parser
from sluice.protocols.frame_relay import frame_relay_parser
from sluice.protocols.geneve import geneve_parser
from sluice.protocols.gre import gre_parser
from sluice.protocols.gtp import gtp_parser
from sluice.protocols.igmp import igmp_parser, igmp_record_parser
from sluice.protocols.l2tp import l2tp_parser
from sluice.protocols.mpls import mpls_parser, mpls_payload_parser
from sluice.protocols.ppp import ppp_parser
from sluice.protocols.ppp_control import (
    CCP,
    CHAP,
    IPCP,
    IPV6CP,
    LCP,
    PAP,
    ccp_parser,
    chap_parser,
    ipcp_parser,
    ipv6cp_parser,
    lcp_parser,
    pap_parser,
)
from sluice.protocols.pppoe import pppoe_parser
from sluice.protocols.pptp import pptp_parser
from sluice.protocols.sctp import PORT as SCTP_IN_UDP
from sluice.protocols.sctp import PROTOCOL as SCTP
from sluice.protocols.sctp import sctp_layers
from sluice.protocols.slarp import slarp_parser
from sluice.protocols.teredo import teredo_authentication_parser, teredo_origin_parser, teredo_parser
from sluice.protocols.vxlan import vxlan_gpe_parser, vxlan_parser
from sluice.protocols.wlan import PADDED, msdu_parser, radiotap_parser, wlan_parser
from sluice.stacks import quic, tcp_ip

DEPTH = 128


def everything() -> Stack:
    s = Stack("everything", depth=DEPTH)
    tcp_ip.layers(s)
    s.chdlc = chdlc_parser()
    s.slarp = slarp_parser()
    s.fr = frame_relay_parser()
    s.ppp = ppp_parser()
    s.lcp = lcp_parser()
    s.pap = pap_parser()
    s.chap = chap_parser()
    s.ipcp = ipcp_parser()
    s.ipv6cp = ipv6cp_parser()
    s.ccp = ccp_parser()
    s.pppoe = pppoe_parser()
    s.radiotap = radiotap_parser()
    s.wlan = wlan_parser()
    s.wlan_padded = wlan_parser(padded=True)
    s.msdu = msdu_parser()
    s += sctp_layers()
    s.igmp = igmp_parser()
    s.igmp_record = igmp_record_parser()
    s.esp = esp_parser()
    s.mpls = mpls_parser()
    s.mpls_payload = mpls_payload_parser()
    s.gre = gre_parser()
    s.erspan = erspan_parser()
    s.erspan3 = erspan3_parser()
    s.gtp = gtp_parser()
    s.vxlan = vxlan_parser()
    s.vxlan_gpe = vxlan_gpe_parser()
    s.geneve = geneve_parser()
    s.l2tp = l2tp_parser()
    s.teredo = teredo_parser()
    s.teredo_authentication = teredo_authentication_parser()
    s.teredo_origin = teredo_origin_parser()
    s.pptp = pptp_parser()
    s.dns = dns_parser()
    s.dns_stream = dns_stream_parser()
    s.dns_question = dns_question_parser()
    s.dns_record = dns_record_parser()

    ethertypes(s, tcp_ip.typed(s) | s.chdlc | s.fr | s.gre | s.geneve)
    tcp_ip.links(s)
    links(s)
    tcp_ip.network(s)
    network(s)
    tunnels(s)
    messages(s)
    quic.over_udp(s, s.udp)
    quic.learn_from_hello(s)
    tcp_ip.rest(s)
    return s


def ethertypes(s: Stack, typed: AnyLayer) -> None:
    """What an EtherType leads to."""
    tcp_ip.ethertypes(s, typed)
    s += (typed >> s.mpls) + Pred(one_of(typed.offers.ethertype, 0x8847, 0x8848))
    s += (typed >> s.pppoe) + Pred(one_of(typed.offers.ethertype, 0x8863, 0x8864))
    s += (typed >> s.ppp) + Pred(typed.offers.ethertype == 0x880B)
    s += (typed >> s.eth) + Pred(typed.offers.ethertype == 0x6558)


def links(s: Stack) -> None:
    """Links that tcp_ip does not have."""
    s += (s.chdlc >> s.slarp) + Pred(s.chdlc.header.protocol == 0x8035)
    s += (s.fr >> s.ipv4) + Pred(s.fr.header.type == 0x03CC)
    s += (s.fr >> s.ipv6) + Pred(s.fr.header.type == 0x038E)
    s += (s.fr >> s.snap) + Pred(s.fr.header.type == 0x0380)

    protocol = s.ppp.temp.protocol
    s += (s.ppp >> s.ipv4) + Pred(protocol == 0x0021)
    s += (s.ppp >> s.ipv6) + Pred(protocol == 0x0057)
    s += (s.ppp >> s.mpls) + Pred((protocol == 0x0281) | (protocol == 0x0283))
    controls = {LCP: s.lcp, PAP: s.pap, CHAP: s.chap, IPCP: s.ipcp, IPV6CP: s.ipv6cp, CCP: s.ccp}
    for number, layer in controls.items():
        s += (s.ppp >> layer) + Pred(protocol == number)
    s += (s.pppoe >> s.ppp) + Pred(s.pppoe.header.code == 0)

    s += (s.radiotap >> s.wlan_padded) + Pred((s.radiotap.header.flags & PADDED) != 0)
    s += (s.radiotap >> s.wlan) + Pred(1)
    for wlan in (s.wlan, s.wlan_padded):
        header = wlan.header
        clear = (header.type == 2) & ((header.subtype & 4) == 0) & ~header.protected
        whole = (header.fragment == 0) & ~header.more_frag
        s += (wlan >> s.msdu) + Pred(clear & whole & header.aggregate)
        s += (wlan >> s.llc) + Pred(clear & whole)
    s += (s.msdu >> s.llc) + Pred(1)

    s += (s.mpls >> s.mpls) + Pred(s.mpls.header.bottom == 0)
    s += (s.mpls >> s.mpls_payload) + Pred(1)
    s += (s.mpls_payload >> s.ipv4) + Pred(s.mpls_payload.header.kind == 4)
    s += (s.mpls_payload >> s.ipv6) + Pred(s.mpls_payload.header.kind == 6)
    s += (s.mpls_payload >> s.eth) + Pred(1)


def network(s: Stack) -> None:
    """What IP carries and tcp_ip does not tell from the rest."""
    over4, over6 = tcp_ip.over_ip(s)
    ip = over4 | over6
    s += (over4 >> s.igmp) + Pred(over4.offers.protocol == 2)
    s += (ip >> s.esp) + Pred(ip.offers.protocol == 50)
    s += (ip >> s.sctp_packet) + Pred(ip.offers.protocol == SCTP)
    s += (s.igmp >> s.igmp_record) + Pred(s.igmp.header.records != 0)
    s += (s.igmp_record >> s.igmp_record) + Pred(s.igmp_record.temp.records != 0)


def tunnels(s: Stack) -> None:
    """What carries whole packets or frames within IP and UDP."""
    over4, over6 = tcp_ip.over_ip(s)
    ip = over4 | over6
    s += (ip >> s.gre) + Pred(ip.offers.protocol == 47)
    s += (ip >> s.mpls) + Pred(ip.offers.protocol == 137)
    kind = s.gre.header.protocol
    erspan = (kind == 0x88BE) & (s.gre.header.S == 1)
    s += (s.gre >> s.ppp) + Pred((s.gre.header.version == 1) & (s.gre.header.S == 1))
    s += (s.gre >> s.erspan) + Pred(erspan & (s.gre.header.version == 0))
    s += (s.gre >> s.eth) + Pred((kind == 0x88BE) & (s.gre.header.version == 0))
    s += (s.gre >> s.erspan3) + Pred((kind == 0x22EB) & (s.gre.header.version == 0))
    s += (s.erspan >> s.eth) + Pred(1)
    s += (s.erspan3 >> s.raw) + Pred(s.erspan3.header.frame_type == 2)
    s += (s.erspan3 >> s.eth) + Pred(1)

    sport, dport = s.udp.header.sport, s.udp.header.dport

    def port(number: int) -> Expression:
        return (sport == number) | (dport == number)

    s += (s.udp >> s.gtp) + Pred(port(2152))
    s += (s.udp >> s.vxlan) + Pred((dport == 4789) | (dport == 8472))
    s += (s.udp >> s.vxlan_gpe) + Pred(dport == 4790)
    s += (s.udp >> s.geneve) + Pred(dport == 6081)
    s += (s.udp >> s.l2tp) + Pred(port(1701))
    s += (s.udp >> s.teredo) + Pred(port(3544))
    s += (s.udp >> s.mpls) + Pred(dport == 6635)
    s += (s.gtp >> s.raw) + Pred(s.gtp.header.MT == 255)
    s += (s.vxlan >> s.eth) + Pred(1)
    s += (s.vxlan_gpe >> s.ipv4) + Pred(s.vxlan_gpe.header.next == 1)
    s += (s.vxlan_gpe >> s.ipv6) + Pred(s.vxlan_gpe.header.next == 2)
    s += (s.vxlan_gpe >> s.eth) + Pred(s.vxlan_gpe.header.next == 3)
    s += (s.l2tp >> s.ppp) + Pred(s.l2tp.header.T == 0)
    s += (s.teredo >> s.teredo_authentication) + Pred(s.teredo.header.kind == 1)
    s += (s.teredo >> s.teredo_origin) + Pred(s.teredo.header.kind == 0)
    s += (s.teredo >> s.ipv6) + Pred((s.teredo.header.kind >> 12) == 6)
    s += (s.teredo_authentication >> s.teredo) + Pred(1)
    s += (s.teredo_origin >> s.teredo) + Pred(1)


def messages(s: Stack) -> None:
    """What TCP and UDP carry that is read message by message."""
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
