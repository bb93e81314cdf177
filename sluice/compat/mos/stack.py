"""The stack below mOS's monitoring sockets: TCP over IPv4, as the interface has it, from the usual link layers.

By option also over IPv6, and in tunnels. TCP is the project's own: numbers, windows, acceptance and which bytes were
received are its. Event `segment` gives them to the library, before the segment is in the sequence.
"""

from sluice.lang import (
    AnyLayer,
    Assign,
    Bit,
    Block,
    Callback,
    Connectionless,
    ConnectionOriented,
    Else,
    If,
    Pred,
    Stack,
    layout,
    one_of,
)
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.geneve import geneve_parser
from sluice.protocols.gre import gre_parser
from sluice.protocols.gtp import gtp_parser, pdu_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.ipv6 import ipv6_parser
from sluice.protocols.ipv6_extension import EXTENSIONS, ipv6_extension_parser
from sluice.protocols.ipv6_fragment import ipv6_fragment_parser
from sluice.protocols.mpls import mpls_parser, mpls_payload_parser
from sluice.protocols.null import null_parser
from sluice.protocols.raw import raw_parser
from sluice.protocols.sll import sll_parser
from sluice.protocols.sll2 import sll2_parser
from sluice.protocols.tcp import tcp_parser
from sluice.protocols.tcp_layouts import tcp_side
from sluice.protocols.udp import udp_hdr
from sluice.protocols.vlan import vlan_parser
from sluice.protocols.vxlan import vxlan_parser

TCP, UDP, IPV4, IPV6 = 6, 17, 0x0800, 0x86DD
IPV4_IN_IP, IPV6_IN_IP, GRE, MPLS_IN_IP, FRAGMENT = 4, 41, 47, 137, 44
FOREVER = 1e9
"""Seconds: the library ends flows."""
EXTENTS = 256
"""Pieces of a side out of order at most; beyond them the first hole is skipped."""
UNLIMITED = (1 << 31) - 1
"""Bytes out of order: they are not stored."""
PDU_SESSION = 0x85
"""The extension header of GTP that 5G has (TS 38.415)."""


class mos_ipv6(layout):  # noqa: N801
    next = Bit(8)


class mos_segment(layout):  # noqa: N801
    """A segment before it is in the sequence: of its sender, of its receiver, and TCP's decision."""

    base = Bit(32)
    end = Bit(32)
    high = Bit(32)  # the number after the receiver's window
    its_base = Bit(32)
    its_end = Bit(32)
    fin = Bit(1)
    its_fin = Bit(1)
    bounded = Bit(1)  # `high` is known
    outside = Bit(1)  # it belongs to no stream of the connection
    reset = Bit(1)  # a reset that counts


def mos_tcp_parser() -> ConnectionOriented:
    """The project's TCP, with mOS's connections: a SYN without ACK begins one, and the library's clock ends it.

    The first packet of a side numbers its stream, as a monitor reads received bytes at once; nothing is dropped
    because it was acknowledged. At most EXTENTS pieces are out of order on a side; their bytes are the library's.
    """
    tcp = tcp_parser(
        limit=UNLIMITED, limit_pieces=EXTENTS, grace=None, pick_up=False, linger=FOREVER, byte_0="first", reuse="closed"
    )
    header, perm, temp, out = tcp.header, tcp.perm, tcp.temp, mos_segment
    tcp.creates = header.syn & ~header.ack & ~header.rst
    tcp.buffer_data = False
    tcp.timeout = FOREVER
    for transition in (tcp.psm.hs1, tcp.psm.hs1_missed, tcp.psm.hs2, tcp.psm.hs2_before):
        transition.timeout = FOREVER

    def ends(own: str, other: str) -> Block:
        mine, its = ({name: getattr(perm, f"{side}_{name}") for name in tcp_side.fields} for side in (own, other))
        return (
            Assign(out.base, mine["base"])
            + Assign(out.end, mine["end"])
            + Assign(out.fin, mine["fin"])
            + Assign(out.its_base, its["base"])
            + Assign(out.its_end, its["end"])
            + Assign(out.its_fin, its["fin"])
            + Assign(out.bounded, its["acked"])
        )

    both = If(tcp.to_passive == 1) >> ends("active", "passive") >> Else() >> ends("passive", "active")
    decided = Assign(out.high, temp.high) + Assign(out.outside, temp.outside) + Assign(out.reset, temp.reset)
    tcp.event.segment = both + decided + Callback(mos_segment)
    tcp.event_relation += tcp.event.sent >> tcp.event.segment
    return tcp


def datagram_parser() -> Connectionless:
    """UDP without flows: the carrier of tunnels."""
    udp = Connectionless("udp")
    udp.header = udp_hdr
    return udp


def mos(ipv6: bool = False, tunnels: bool = False) -> Stack:
    """The stack. ipv6: TCP over IPv6, too. tunnels: also packets in GRE, IP in IP, VXLAN, Geneve, GTP and MPLS."""
    s = Stack("sluice_mos", depth=16 if tunnels else 8)
    s.eth = ethernet_parser()
    s.vlan = vlan_parser()
    s.sll = sll_parser()
    s.sll2 = sll2_parser()
    s.null = null_parser()
    s.raw = raw_parser()
    s.ipv4 = ipv4_parser()
    s.tcp = mos_tcp_parser()
    typed: AnyLayer = s.eth | s.vlan | s.sll | s.sll2
    if tunnels:
        s.gre = gre_parser()
        s.geneve = geneve_parser()
        typed = typed | s.gre | s.geneve
    s += (typed >> s.ipv4) + Pred(typed.offers.ethertype == IPV4)
    s += (typed >> s.vlan) + Pred(one_of(typed.offers.ethertype, 0x8100, 0x88A8, 0x9100, 0x9200))
    s += (s.null >> s.ipv4) + Pred(s.null.temp.family == 2)
    s += (s.raw >> s.ipv4) + Pred(s.raw.header.version == 4)
    ip: AnyLayer = s.ipv4
    if ipv6:
        ip = over_ipv6(s, typed)
    s += (ip >> s.tcp) + Pred(ip.offers.protocol == TCP)
    if tunnels:
        in_tunnels(s, ip, typed, ipv6)
    return s


def over_ipv6(s: Stack, typed: AnyLayer) -> AnyLayer:
    """IPv6 with its extension headers and fragments; the layers right below the payload of IP of either version."""
    six = ipv6_parser()
    six.event.arrived = Assign(mos_ipv6.next, six.header.next) + Callback(mos_ipv6)
    s.ipv6 = six
    s.ext = ipv6_extension_parser()
    s.frag = ipv6_fragment_parser()
    s += (typed >> s.ipv6) + Pred(typed.offers.ethertype == IPV6)
    s += (s.null >> s.ipv6) + Pred(one_of(s.null.temp.family, 10, 24, 28, 30))
    s += (s.raw >> s.ipv6) + Pred(s.raw.header.version == 6)
    over6 = s.ipv6 | s.ext | s.frag
    s += (over6 >> s.frag) + Pred(over6.offers.protocol == FRAGMENT)
    s += (over6 >> s.ext) + Pred(one_of(over6.offers.protocol, *EXTENSIONS))
    return s.ipv4 | over6


def in_tunnels(s: Stack, ip: AnyLayer, typed: AnyLayer, ipv6: bool) -> None:
    """The layers that carry whole IP packets or frames."""
    s.udp = datagram_parser()
    s.vxlan = vxlan_parser()
    s.gtp = gtp_parser()
    s.pdu = pdu_parser()
    s.mpls = mpls_parser()
    s.label_end = mpls_payload_parser()
    numbers = {IPV4_IN_IP: s.ipv4, GRE: s.gre, MPLS_IN_IP: s.mpls, UDP: s.udp}
    if ipv6:
        numbers[IPV6_IN_IP] = s.ipv6
    for number, layer in numbers.items():
        s += (ip >> layer) + Pred(ip.offers.protocol == number)
    s += (typed >> s.mpls) + Pred(one_of(typed.offers.ethertype, 0x8847, 0x8848))
    sport, dport = s.udp.header.sport, s.udp.header.dport
    s += (s.udp >> s.gtp) + Pred(one_of(2152, sport, dport))
    s += (s.udp >> s.vxlan) + Pred(one_of(dport, 4789, 8472))
    s += (s.udp >> s.geneve) + Pred(dport == 6081)
    s += (s.udp >> s.mpls) + Pred(dport == 6635)
    s += (s.vxlan >> s.eth) + Pred(1)
    carries = s.gtp.header.MT == 255
    s += (s.gtp >> s.pdu) + Pred(carries & (s.gtp.header.session_type == PDU_SESSION))
    s += (s.gtp >> s.raw) + Pred(carries)
    s += (s.pdu >> s.ipv4) + Pred(s.pdu.header.version == 4)
    s += (s.mpls >> s.mpls) + Pred(s.mpls.header.bottom == 0)
    s += (s.mpls >> s.label_end) + Pred(1)
    s += (s.label_end >> s.ipv4) + Pred(s.label_end.offers.is_ipv4)
    s += (s.label_end >> s.eth) + Pred(s.label_end.offers.is_ethernet)
    s += (typed >> s.eth) + Pred(typed.offers.ethertype == 0x6558)  # transparent Ethernet bridging
    if ipv6:
        s += (s.pdu >> s.ipv6) + Pred(s.pdu.header.version == 6)
        s += (s.label_end >> s.ipv6) + Pred(s.label_end.offers.is_ipv6)
