"""The links of stack `everything` that tcp_ip does not have; not a stack."""

from sluice.lang import AnyLayer, Pred, Stack, one_of
from sluice.lang.layer import Layer
from sluice.protocols import capture_headers, juniper, link_prefixes, tags
from sluice.protocols.chdlc import chdlc_parser
from sluice.protocols.frame_relay import frame_relay_parser
from sluice.protocols.mac_in_mac import fabricpath_parser, pbb_parser
from sluice.protocols.mpls import mpls_parser, mpls_payload_parser
from sluice.protocols.nsh import nsh_parser
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
from sluice.protocols.ppp_multilink import multilink_fragment_parser, multilink_parser
from sluice.protocols.pppoe import pppoe_parser
from sluice.protocols.slarp import slarp_parser
from sluice.protocols.wlan import PADDED, msdu_parser, radiotap_parser, wlan_parser

MULTILINK = 0x003D
FAMILY_4, FAMILIES_6 = 2, (10, 24, 26, 28, 30)
"""Address families: of IPv4, and those of several systems for IPv6."""


def layers(s: Stack) -> None:
    """Their layers."""
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
    s.multilink = multilink_parser()
    s.multilink_fragment = multilink_fragment_parser()
    s.pppoe = pppoe_parser()
    s.radiotap = radiotap_parser()
    s.wlan = wlan_parser()
    s.wlan_padded = wlan_parser(padded=True)
    s.wlan_swapped = wlan_parser(swapped=True)
    s.msdu = msdu_parser()
    s.mpls = mpls_parser()
    s.mpls_payload = mpls_payload_parser()
    s.vntag = tags.vntag_parser()
    s.ttag = tags.ttag_parser()
    s.hsr = tags.hsr_parser()
    s.cmd = tags.cmd_parser()
    s.macsec = tags.macsec_parser()
    s.pbb = pbb_parser()
    s.fabricpath = fabricpath_parser()
    s.nsh = nsh_parser()
    s.nflog = capture_headers.nflog_parser()
    s.pflog = capture_headers.pflog_parser()
    s.enc = capture_headers.enc_parser()
    s.ppi = capture_headers.ppi_parser()
    s.pktap = capture_headers.pktap_parser()
    s.ipnet = capture_headers.ipnet_parser()
    s.avs = capture_headers.avs_parser()
    s.ppp_direction = link_prefixes.ppp_direction_parser()
    s.chdlc_direction = link_prefixes.chdlc_direction_parser()
    s.fr_direction = link_prefixes.fr_direction_parser()
    s.ipoib = link_prefixes.ipoib_parser()
    s.slip = link_prefixes.slip_parser()
    s.fddi = link_prefixes.fddi_parser()
    s.sunatm = link_prefixes.sunatm_parser()
    s.clip = link_prefixes.clip_parser()
    s.dsa = link_prefixes.dsa_parser()
    s.edsa = link_prefixes.edsa_parser()
    s.broadcom = link_prefixes.broadcom_parser()
    s.juniper_ethernet = juniper.juniper_parser()
    s.juniper_ppp = juniper.juniper_parser((179,))
    s.juniper_fr = juniper.juniper_parser((180,))
    s.juniper_chdlc = juniper.juniper_parser((181,))
    s.juniper_pppoe = juniper.juniper_pppoe_parser()
    s.juniper_atm1 = juniper.juniper_parser((137,), juniper.fixed(4))
    s.juniper_atm2 = juniper.juniper_atm2_parser()
    s.juniper_multilink = juniper.juniper_multilink_parser()
    s.juniper_ggsn = juniper.juniper_parser((133,), juniper.fixed(4))
    s.juniper_voice = juniper.juniper_parser((183,), juniper.fixed(18))
    s.juniper_services = juniper.juniper_services_parser()


def typed(s: Stack) -> AnyLayer:
    """The layers whose next layer an EtherType determines."""
    return s.chdlc | s.fr | s.vntag | s.ttag | s.hsr | s.cmd | s.macsec | s.ipoib | s.dsa | s.edsa


def ethertypes(s: Stack, typed: AnyLayer) -> None:
    """Next layers by EtherType, in addition to those of tcp_ip."""
    numbers: dict[Layer, tuple[int, ...]] = {
        s.mpls: (0x8847, 0x8848),
        s.pppoe: (0x8863, 0x8864),
        s.ppp: (0x880B,),
        s.eth: (0x6558,),
        s.vntag: (0x8926,),
        s.ttag: (0x8988,),
        s.hsr: (0x892F,),
        s.macsec: (0x88E5,),
        s.pbb: (0x88E7,),
        s.fabricpath: (0x8903,),
        s.nsh: (0x894F,),
    }
    for layer, those in numbers.items():
        s += (typed >> layer) + Pred(one_of(typed.offers.ethertype, *those))
    tagged = s.eth | s.vlan  # GRE has another header under this number
    s += (tagged >> s.cmd) + Pred(tagged.offers.ethertype == 0x8909)


def steps(s: Stack) -> None:
    """Next layers of these layers."""
    s += (s.chdlc >> s.slarp) + Pred(s.chdlc.header.protocol == 0x8035)
    nlpids: dict[int, Layer] = {0xCC: s.ipv4, 0x8E: s.ipv6, 0x80: s.snap, 0xCF: s.ppp}
    for number, layer in nlpids.items():
        s += (s.fr >> layer) + Pred(s.fr.temp.nlpid == number)
    s += (s.snap >> s.eth) + Pred(s.snap.offers.is_ethernet)
    for tag in (s.vntag, s.ttag, s.hsr, s.cmd, s.dsa, s.edsa):
        s += (tag >> s.llc) + Pred(tag.header.type <= 1500)
    _ppp(s)
    _wlan(s)
    s += (s.mpls >> s.mpls) + Pred(s.mpls.header.bottom == 0)
    s += (s.mpls >> s.mpls_payload) + Pred(1)
    s += (s.mpls_payload >> s.ipv4) + Pred(s.mpls_payload.offers.is_ipv4)
    s += (s.mpls_payload >> s.ipv6) + Pred(s.mpls_payload.offers.is_ipv6)
    s += (s.mpls_payload >> s.eth) + Pred(s.mpls_payload.offers.is_ethernet)
    s += (s.pbb >> s.eth) + Pred(1)
    s += (s.fabricpath >> s.eth) + Pred(1)
    following: dict[int, Layer] = {1: s.ipv4, 2: s.ipv6, 3: s.eth, 4: s.nsh, 5: s.mpls}
    for number, layer in following.items():
        s += (s.nsh >> layer) + Pred(s.nsh.header.next == number)
    _prefixes(s)
    _juniper(s)
    _families(s)
    for lower in (s.ppi, s.pktap):
        _by_link_type(s, lower)


def _ppp(s: Stack) -> None:
    protocol = s.ppp.temp.protocol
    controls = {LCP: s.lcp, PAP: s.pap, CHAP: s.chap, IPCP: s.ipcp, IPV6CP: s.ipv6cp, CCP: s.ccp}
    s += (s.ppp >> s.ipv4) + Pred(protocol == 0x0021)
    s += (s.ppp >> s.ipv6) + Pred(protocol == 0x0057)
    s += (s.ppp >> s.mpls) + Pred((protocol == 0x0281) | (protocol == 0x0283))
    s += (s.ppp >> s.multilink) + Pred(protocol == MULTILINK)
    for number, layer in controls.items():
        s += (s.ppp >> layer) + Pred(protocol == number)
    s += (s.ppp >> s.chdlc) + Pred(one_of(s.ppp.header.first, 0x0F, 0x8F))
    s += (s.multilink >> s.ppp) + Pred(s.multilink.header.begin & s.multilink.header.end)
    s += (s.multilink >> s.multilink_fragment) + Pred(1)
    s += (s.pppoe >> s.ppp) + Pred(s.pppoe.header.code == 0)


def _wlan(s: Stack) -> None:
    s += (s.radiotap >> s.wlan_padded) + Pred((s.radiotap.header.flags & PADDED) != 0)
    s += (s.radiotap >> s.wlan) + Pred(1)
    s += (s.avs >> s.wlan) + Pred(1)
    for wlan in (s.wlan, s.wlan_padded, s.wlan_swapped):
        header = wlan.header
        clear = (header.type == 2) & ((header.subtype & 4) == 0) & ~header.protected
        s += (wlan >> s.msdu) + Pred(clear & header.aggregate)
        s += (wlan >> s.llc) + Pred(clear)
    s += (s.msdu >> s.llc) + Pred(1)


def _prefixes(s: Stack) -> None:
    """Headers with always the same next layer."""
    following: dict[Layer, Layer] = {
        s.ppp_direction: s.ppp,
        s.chdlc_direction: s.chdlc,
        s.fr_direction: s.fr,
        s.slip: s.raw,
        s.fddi: s.llc,
        s.broadcom: s.eth,
    }
    for lower, upper in following.items():
        s += (lower >> upper) + Pred(1)
    s += (s.clip >> s.ipv4) + Pred(s.clip.header.kind == 4)
    s += (s.clip >> s.ipv6) + Pred(s.clip.header.kind == 6)
    s += (s.clip >> s.llc) + Pred(1)
    s += (s.sunatm >> s.llc) + Pred(s.sunatm.header.kind == 2)


def _juniper(s: Stack) -> None:
    """Juniper's link types: those of one kind of frame, and cards, whose frames differ."""
    frames: dict[Layer, Layer] = {
        s.juniper_ethernet: s.eth,
        s.juniper_ppp: s.ppp,
        s.juniper_fr: s.fr,
        s.juniper_chdlc: s.chdlc,
    }
    atm = (s.juniper_atm1, s.juniper_atm2)
    cards = (*atm, s.juniper_multilink, s.juniper_ggsn, s.juniper_voice, s.juniper_services)
    for layer in (*frames, s.juniper_pppoe, *cards):
        s += (layer >> s.raw) + Pred(layer.offers.is_bare)
    for layer, frame in frames.items():
        s += (layer >> frame) + Pred(1)
    s += (s.juniper_pppoe >> s.pppoe) + Pred(one_of(s.juniper_pppoe.offers.ethertype, 0x8863, 0x8864))
    for layer in atm:
        s += (layer >> s.llc) + Pred(layer.offers.is_llc)
    s += (s.juniper_atm2 >> s.eth) + Pred(s.juniper_atm2.offers.is_ethernet)
    for layer in cards:
        s += (layer >> s.raw) + Pred(layer.offers.is_ip)
    for layer in (*atm, s.juniper_multilink):
        s += (layer >> s.ppp) + Pred(layer.offers.is_ppp)


def _families(s: Stack) -> None:
    """Headers with an address family."""
    families = {
        s.nflog: s.nflog.header.family,
        s.pflog: s.pflog.header.family,
        s.enc: s.enc.offers.family,
        s.ipnet: s.ipnet.header.family,
    }
    for lower, family in families.items():
        s += (lower >> s.ipv4) + Pred(family == FAMILY_4)
        s += (lower >> s.ipv6) + Pred(one_of(family, *FAMILIES_6))


def _by_link_type(s: Stack, lower: Layer) -> None:
    """Any layer that a capture file could begin with."""
    for layer in list(s.layers.values()):
        link_types = layer.prototype.link_types
        if link_types and layer not in (s.ppi, s.pktap):
            s += (lower >> layer) + Pred(one_of(lower.offers.link_type, *link_types))
