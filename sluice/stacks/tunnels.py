"""The tunnels of stack `everything`, which carry whole packets or frames within IP and UDP; not a stack."""

from sluice.lang import AnyLayer, Expression, Pred, Stack, one_of
from sluice.lang.layer import Layer
from sluice.protocols import ip_tunnels, udp_tunnels
from sluice.protocols.capwap import capwap_frame_parser, capwap_parser
from sluice.protocols.erspan import erspan3_parser, erspan_parser
from sluice.protocols.geneve import geneve_parser
from sluice.protocols.gre import gre_parser
from sluice.protocols.gtp import gtp_parser, pdu_parser
from sluice.protocols.l2tp import l2tp_parser
from sluice.protocols.l2tp3 import l2tp3_parser
from sluice.protocols.teredo import teredo_authentication_parser, teredo_origin_parser, teredo_parser
from sluice.protocols.vxlan import vxlan_gpe_parser, vxlan_parser


def layers(s: Stack) -> None:
    """Their layers."""
    s.gre = gre_parser()
    s.erspan = erspan_parser()
    s.erspan3 = erspan3_parser()
    s.gtp = gtp_parser()
    s.pdu = pdu_parser()
    s.gtp0 = udp_tunnels.gtp0_parser()
    s.vxlan = vxlan_parser()
    s.vxlan_gpe = vxlan_gpe_parser()
    s.geneve = geneve_parser()
    s.l2tp = l2tp_parser()
    s.l2tp3 = l2tp3_parser()
    s.teredo = teredo_parser()
    s.teredo_authentication = teredo_authentication_parser()
    s.teredo_origin = teredo_origin_parser()
    s.capwap = capwap_parser()
    s.capwap_frame = capwap_frame_parser()
    s.gue = udp_tunnels.gue_parser()
    s.lisp = udp_tunnels.lisp_parser()
    s.tzsp = udp_tunnels.tzsp_parser()
    s.ayiya = udp_tunnels.ayiya_parser()
    s.etherip = ip_tunnels.etherip_parser()
    s.pim = ip_tunnels.pim_parser()
    s.wccp = ip_tunnels.wccp_parser()
    s.ipcomp = ip_tunnels.ipcomp_parser()


def over_ip(s: Stack, ip: AnyLayer) -> None:
    """By protocol number."""
    numbers: dict[int, Layer] = {
        47: s.gre,
        97: s.etherip,
        103: s.pim,
        108: s.ipcomp,
        115: s.l2tp3,
        137: s.mpls,
        143: s.eth,  # RFC 8986, 10.1: Ethernet, after the segments of SRv6
    }
    for number, layer in numbers.items():
        s += (ip >> layer) + Pred(ip.offers.protocol == number)
    s += (s.etherip >> s.eth) + Pred(1)
    s += (s.pim >> s.raw) + Pred((s.pim.header.type == ip_tunnels.REGISTER) & (s.pim.header.null_register == 0))
    s += (s.l2tp3 >> s.eth) + Pred(s.l2tp3.offers.is_ethernet)
    _in_gre(s)


def _in_gre(s: Stack) -> None:
    header = s.gre.header
    kind, plain = header.protocol, header.version == 0
    s += (s.gre >> s.ppp) + Pred((header.version == 1) & (header.S == 1))
    s += (s.gre >> s.erspan) + Pred((kind == 0x88BE) & (header.S == 1) & plain)
    s += (s.gre >> s.eth) + Pred((kind == 0x88BE) & plain)
    s += (s.gre >> s.erspan3) + Pred((kind == 0x22EB) & plain)
    s += (s.gre >> s.wlan) + Pred((((kind & 0xFF0F) == 0x8200) | (kind == 0)) & plain)  # Aruba's access points
    s += (s.gre >> s.wccp) + Pred((kind == 0x883E) & plain)
    s += (s.wccp >> s.ipv4) + Pred(1)
    s += (s.erspan >> s.eth) + Pred(1)
    s += (s.erspan3 >> s.raw) + Pred(s.erspan3.header.frame_type == 2)
    s += (s.erspan3 >> s.eth) + Pred(1)


def over_udp(s: Stack) -> None:
    """By port: of either end where both ends of a tunnel use it, else of the target."""
    sport, dport = s.udp.header.sport, s.udp.header.dport

    def either(number: int) -> Expression:
        return one_of(number, sport, dport)

    ports: dict[Layer, Expression] = {
        s.gtp: either(2152),
        s.gtp0: either(3386),
        s.vxlan: one_of(dport, 4789, 8472),
        s.vxlan_gpe: dport == 4790,
        s.geneve: dport == 6081,
        s.l2tp: either(1701),
        s.teredo: either(3544),
        s.mpls: dport == 6635,
        s.gre: dport == 4754,
        s.capwap: either(5247),
        s.gue: dport == 6080,
        s.lisp: dport == 4341,
        s.tzsp: dport == 37008,
        s.ayiya: either(5072),
    }
    for layer, condition in ports.items():
        s += (s.udp >> layer) + Pred(condition)
    _in_gtp(s)
    _in_vxlan(s)
    s += (s.l2tp >> s.l2tp3) + Pred(s.l2tp.header.version == 3)
    s += (s.l2tp >> s.ppp) + Pred(s.l2tp.header.T == 0)
    s += (s.teredo >> s.teredo_authentication) + Pred(s.teredo.header.kind == 1)
    s += (s.teredo >> s.teredo_origin) + Pred(s.teredo.header.kind == 0)
    s += (s.teredo >> s.ipv6) + Pred((s.teredo.header.kind >> 12) == 6)
    s += (s.teredo_authentication >> s.teredo) + Pred(1)
    s += (s.teredo_origin >> s.teredo) + Pred(1)
    _in_capwap(s)
    _others(s)


def _in_gtp(s: Stack) -> None:
    s += (s.gtp >> s.pdu) + Pred(s.gtp.header.MT == 255)
    s += (s.pdu >> s.ipv4) + Pred(s.pdu.header.version == 4)
    s += (s.pdu >> s.ipv6) + Pred(s.pdu.header.version == 6)
    s += (s.pdu >> s.eth) + Pred(1)
    s += (s.gtp0 >> s.raw) + Pred(s.gtp0.header.MT == 255)


def _in_vxlan(s: Stack) -> None:
    s += (s.vxlan >> s.eth) + Pred(1)
    following: dict[int, Layer] = {1: s.ipv4, 2: s.ipv6, 3: s.eth, 4: s.nsh, 5: s.mpls}
    for number, layer in following.items():
        s += (s.vxlan_gpe >> layer) + Pred(s.vxlan_gpe.header.next == number)


def _in_capwap(s: Stack) -> None:
    s += (s.capwap >> s.capwap_frame) + Pred((s.capwap.header.type == 0) & ~s.capwap.header.K)
    s += (s.capwap_frame >> s.wlan) + Pred(s.capwap_frame.offers.wlan)
    s += (s.capwap_frame >> s.wlan_swapped) + Pred(s.capwap_frame.offers.wlan_swapped)
    s += (s.capwap_frame >> s.eth) + Pred(s.capwap_frame.offers.ethernet)


def _others(s: Stack) -> None:
    protocol = s.gue.header.protocol
    version = s.gue.header.version
    data = (version == 0) & ~s.gue.header.control
    for number, layer in ((4, s.ipv4), (41, s.ipv6), (47, s.gre), (137, s.mpls), (143, s.eth)):
        s += (s.gue >> layer) + Pred(data & (protocol == number))
    s += (s.gue >> s.raw) + Pred(version == 1)
    s += (s.lisp >> s.raw) + Pred(1)
    frames: dict[int, Layer] = {1: s.eth, 18: s.wlan, 119: s.avs, 127: s.avs}
    for number, layer in frames.items():
        s += (s.tzsp >> layer) + Pred((s.tzsp.header.type <= 1) & (s.tzsp.header.protocol == number))
    forwards = s.ayiya.header.operation == 1
    s += (s.ayiya >> s.ipv4) + Pred(forwards & (s.ayiya.header.next == 4))
    s += (s.ayiya >> s.ipv6) + Pred(forwards & (s.ayiya.header.next == 41))
