"""TCP/IP from the link layer to TCP, UDP and ICMP, with all that lies between.

Enters by link types 1 (Ethernet), 113 and 276 (Linux cooked), 0 and 108 (BSD loopback), 101, 12, 14, 228 and
229 (IP). Between: VLAN tags, LLC and SNAP, IPv4 and IPv6 with fragments and extension headers, authentication
headers, IP in IP. Layer `other` takes what else IP carries. `ah6` is the authentication header among the
extension headers of IPv6.
"""

from collections.abc import Callable

from sluice.lang import Expression, Pred, Stack
from sluice.lang.stack import Layer
from sluice.protocols.ah import ah_parser
from sluice.protocols.arp import arp_parser
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.icmp import icmp_parser
from sluice.protocols.icmp6 import icmp6_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.ipv6 import ipv6_parser
from sluice.protocols.ipv6_extension import ipv6_extension_parser
from sluice.protocols.ipv6_fragment import ipv6_fragment_parser
from sluice.protocols.llc import llc_parser
from sluice.protocols.null import null_parser
from sluice.protocols.other_ip import other_ip_parser
from sluice.protocols.raw import raw_parser
from sluice.protocols.sll import sll_parser
from sluice.protocols.sll2 import sll2_parser
from sluice.protocols.snap import snap_parser
from sluice.protocols.tcp import tcp_parser
from sluice.protocols.udp import udp_parser
from sluice.protocols.vlan import vlan_parser

Over = tuple[Layer, Expression]  # more: IPv6


def tcp_ip() -> Stack:
    s = Stack("tcp_ip", depth=16)
    layers(s)  # more: pieces that everything shares
    links(s, ethertypes)  # more: pieces that everything shares
    network(s)  # more: pieces that everything shares
    rest(s)  # more: other protocols
    return s


def layers(s: Stack) -> None:
    """The layers of this stack; others that hold them, too, begin so."""
    s.eth = ethernet_parser()
    s.vlan = vlan_parser()  # more: other links
    s.llc = llc_parser()  # more: other links
    s.snap = snap_parser()  # more: other links
    s.arp = arp_parser()  # more: other links
    s.sll = sll_parser()  # more: other links
    s.sll2 = sll2_parser()  # more: other links
    s.null = null_parser()  # more: other links
    s.raw = raw_parser()  # more: other links
    s.ipv4 = ipv4_parser()
    s.ipv6 = ipv6_parser()  # more: IPv6
    s.ext = ipv6_extension_parser()  # more: IPv6
    s.frag = ipv6_fragment_parser()  # more: IPv6
    s.ah = ah_parser()  # more: AH
    s.ah6 = ah_parser()  # more: AH
    s.icmp = icmp_parser()  # more: ICMP
    s.icmp6 = icmp6_parser()  # more: ICMP
    s.udp = udp_parser()
    s.tcp = tcp_parser()
    s.other = other_ip_parser()  # more: other protocols


def ethertypes(s: Stack, lower: Layer, ethertype: Expression) -> None:
    """What an EtherType leads to."""
    s += (lower >> s.ipv4) + Pred(ethertype == 0x0800)
    s += (lower >> s.ipv6) + Pred(ethertype == 0x86DD)  # more: IPv6
    s += (lower >> s.arp) + Pred(ethertype == 0x0806)  # more: other links
    tagged = (
        (ethertype == 0x8100) | (ethertype == 0x88A8) | (ethertype == 0x9100) | (ethertype == 0x9200)
    )  # more: other links
    s += (lower >> s.vlan) + Pred(tagged)  # more: other links


def links(s: Stack, known: Callable[[Stack, Layer, Expression], None]) -> None:
    """From the link layer to IP; `known` says what an EtherType leads to."""
    known(s, s.eth, s.eth.header.type)
    known(s, s.vlan, s.vlan.header.type)  # more: other links
    known(s, s.snap, s.snap.temp.ethertype)  # more: other links
    known(s, s.sll, s.sll.header.protocol)  # more: other links
    known(s, s.sll2, s.sll2.header.protocol)  # more: other links
    s += (s.eth >> s.llc) + Pred(s.eth.header.type <= 1500)  # more: other links
    s += (s.vlan >> s.llc) + Pred(s.vlan.header.type <= 1500)  # more: other links
    s += (s.sll >> s.llc) + Pred(s.sll.header.protocol == 4)  # more: other links
    s += (s.sll2 >> s.llc) + Pred(s.sll2.header.protocol == 4)  # more: other links

    unnumbered = s.llc.header.control == 3  # more: other links
    s += (s.llc >> s.snap) + Pred(
        (s.llc.header.dsap == 0xAA) & (s.llc.header.ssap == 0xAA) & unnumbered
    )  # more: other links
    s += (s.llc >> s.ipv4) + Pred((s.llc.header.dsap == 6) & (s.llc.header.ssap == 6) & unnumbered)  # more: other links

    s += (s.raw >> s.ipv4) + Pred(s.raw.header.version == 4)  # more: other links
    s += (s.raw >> s.ipv6) + Pred(s.raw.header.version == 6)  # more: other links
    family = s.null.temp.family  # more: other links
    s += (s.null >> s.ipv4) + Pred(family == 2)  # more: other links
    s += (s.null >> s.ipv6) + Pred(
        (family == 10) | (family == 24) | (family == 28) | (family == 30)
    )  # more: other links


def over_ip(s: Stack) -> tuple[list[Over], list[Over]]:  # more: IPv6, AH
    """Layers that lie right below what IP carries, each with the protocol number, of IPv4 and of IPv6."""
    four = [(s.ipv4, s.ipv4.header.protocol), (s.ah, s.ah.header.next)]
    six = [
        (s.ipv6, s.ipv6.header.next),
        (s.ext, s.ext.header.next),
        (s.frag, s.frag.perm.next),
        (s.ah6, s.ah6.header.next),
    ]
    return four, six


def network(s: Stack) -> None:
    """What IP carries."""
    over4, over6 = over_ip(s)  # more: IPv6, AH
    for lower, protocol in (*over4, *over6):
        s += (lower >> s.tcp) + Pred(protocol == 6)
        s += (lower >> s.udp) + Pred(protocol == 17)
        s += (lower >> s.ipv4) + Pred(protocol == 4)  # more: IP in IP
        s += (lower >> s.ipv6) + Pred(protocol == 41)  # more: IP in IP
    for lower, protocol in over4:  # more: ICMP, AH
        s += (lower >> s.icmp) + Pred(protocol == 1)
        s += (lower >> s.ah) + Pred(protocol == 51)
    for lower, protocol in over6:  # more: IPv6
        s += (lower >> s.icmp6) + Pred(protocol == 58)
        s += (lower >> s.ah6) + Pred(protocol == 51)
        s += (lower >> s.frag) + Pred(protocol == 44)
        options = (protocol == 0) | (protocol == 43) | (protocol == 60)
        s += (lower >> s.ext) + Pred(options | (protocol == 135) | (protocol == 139) | (protocol == 140))


def rest(s: Stack) -> None:  # more: other protocols
    """Layer `other` takes what no step before leads to."""
    over4, over6 = over_ip(s)  # more: IPv6, AH
    for lower, protocol in (*over4, *over6):
        s += (lower >> s.other) + Pred(protocol != 59)  # 59: nothing follows
