"""TCP/IP from the link layer to TCP, UDP and ICMP, with all layers between.

Link types 1 (Ethernet), 113 and 276 (Linux cooked), 0 and 108 (BSD loopback), 101, 12, 14, 228 and 229 (IP). Layers
between: VLAN tags, LLC and SNAP, IPv4 and IPv6 with fragments and extension headers, authentication headers, IP in IP.
Layer `other` is for all other protocols over IP. `ah6` is the authentication header among the extension headers of
IPv6.
"""

from sluice.lang import AnyLayer, Pred, Stack, one_of
from sluice.protocols.ah import ah_parser
from sluice.protocols.arp import arp_parser
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.icmp import icmp_parser
from sluice.protocols.icmp6 import icmp6_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.ipv6 import ipv6_parser
from sluice.protocols.ipv6_extension import EXTENSIONS, ipv6_extension_parser
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


def tcp_ip() -> Stack:
    s = Stack("tcp_ip", depth=16)
    layers(s)
    ethertypes(s, typed(s))
    links(s)
    network(s)
    rest(s)
    return s


def layers(s: Stack) -> None:
    """The layers of this stack, which other stacks have, too."""
    s.eth = ethernet_parser()
    s.vlan = vlan_parser()
    s.llc = llc_parser()
    s.snap = snap_parser()
    s.arp = arp_parser()
    s.sll = sll_parser()
    s.sll2 = sll2_parser()
    s.null = null_parser()
    s.raw = raw_parser()
    s.ipv4 = ipv4_parser()
    s.ipv6 = ipv6_parser()
    s.ext = ipv6_extension_parser()
    s.frag = ipv6_fragment_parser()
    s.ah = ah_parser()
    s.ah6 = ah_parser()
    s.icmp = icmp_parser()
    s.icmp6 = icmp6_parser()
    s.udp = udp_parser()
    s.tcp = tcp_parser()
    s.other = other_ip_parser()


def typed(s: Stack) -> AnyLayer:
    """The layers whose next layer an EtherType determines."""
    return s.eth | s.vlan | s.snap | s.sll | s.sll2


def ethertypes(s: Stack, typed: AnyLayer) -> None:
    """Next layers by EtherType."""
    s += (typed >> s.ipv4) + Pred(typed.offers.ethertype == 0x0800)
    s += (typed >> s.ipv6) + Pred(typed.offers.ethertype == 0x86DD)
    s += (typed >> s.arp) + Pred(typed.offers.ethertype == 0x0806)
    s += (typed >> s.vlan) + Pred(one_of(typed.offers.ethertype, 0x8100, 0x88A8, 0x9100, 0x9200))


def links(s: Stack) -> None:
    """Steps to IP without an EtherType."""
    s += (s.eth >> s.llc) + Pred(s.eth.header.type <= 1500)
    s += (s.vlan >> s.llc) + Pred(s.vlan.header.type <= 1500)
    s += (s.sll >> s.llc) + Pred(s.sll.header.protocol == 4)
    s += (s.sll2 >> s.llc) + Pred(s.sll2.header.protocol == 4)

    unnumbered = s.llc.header.control == 3
    s += (s.llc >> s.snap) + Pred((s.llc.header.dsap == 0xAA) & (s.llc.header.ssap == 0xAA) & unnumbered)
    s += (s.llc >> s.ipv4) + Pred((s.llc.header.dsap == 6) & (s.llc.header.ssap == 6) & unnumbered)

    s += (s.raw >> s.ipv4) + Pred(s.raw.header.version == 4)
    s += (s.raw >> s.ipv6) + Pred(s.raw.header.version == 6)
    family = s.null.temp.family
    s += (s.null >> s.ipv4) + Pred(family == 2)
    s += (s.null >> s.ipv6) + Pred(one_of(family, 10, 24, 28, 30))


def over_ip(s: Stack) -> tuple[AnyLayer, AnyLayer]:
    """The layers directly below the protocols over IP: those of IPv4, and of IPv6."""
    return s.ipv4 | s.ah, s.ipv6 | s.ext | s.frag | s.ah6


def network(s: Stack) -> None:
    """Next layers by protocol number."""
    over4, over6 = over_ip(s)
    ip = over4 | over6
    s += (ip >> s.tcp) + Pred(ip.offers.protocol == 6)
    s += (ip >> s.udp) + Pred(ip.offers.protocol == 17)
    s += (ip >> s.ipv4) + Pred(ip.offers.protocol == 4)
    s += (ip >> s.ipv6) + Pred(ip.offers.protocol == 41)
    s += (over4 >> s.icmp) + Pred(over4.offers.protocol == 1)
    s += (over4 >> s.ah) + Pred(over4.offers.protocol == 51)
    s += (over6 >> s.icmp6) + Pred(over6.offers.protocol == 58)
    s += (over6 >> s.ah6) + Pred(over6.offers.protocol == 51)
    s += (over6 >> s.frag) + Pred(over6.offers.protocol == 44)
    s += (over6 >> s.ext) + Pred(one_of(over6.offers.protocol, *EXTENSIONS))


def rest(s: Stack) -> None:
    """Layer `other` for packets for which no other step matches."""
    over4, over6 = over_ip(s)
    ip = over4 | over6
    s += (ip >> s.other) + Pred(ip.offers.protocol != 59, fallback=True)  # 59: nothing follows
