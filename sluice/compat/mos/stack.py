"""The stack below mOS's monitoring sockets: TCP over IPv4, as the interface knows it, from the usual link layers.

What mOS says of the two ends of a connection is kept by the library beside the instance (tcp_end.h), so its TCP has no
machine and no sequence: it finds the flow of a segment, which only a SYN begins.
"""

from sluice.lang import ConnectionOriented, Pred, Stack, one_of
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.null import null_parser
from sluice.protocols.raw import raw_parser
from sluice.protocols.sll import sll_parser
from sluice.protocols.sll2 import sll2_parser
from sluice.protocols.tcp import tcp_hdr
from sluice.protocols.vlan import vlan_parser

TCP, IPV4 = 6, 0x0800


def mos_tcp_parser() -> ConnectionOriented:
    """TCP whose instances only a SYN without ACK begins."""
    tcp = ConnectionOriented("mos_tcp")
    tcp.header = tcp_hdr
    tcp.require(tcp.header.hdr_len >= 5, "header length")
    tcp.require(tcp.unit.length >= tcp.header.hdr_len << 2, "options too short")
    tcp.selector = ([tcp.below.src, tcp.header.sport], [tcp.below.dst, tcp.header.dport])
    tcp.creates = tcp.header.syn & ~tcp.header.ack & ~tcp.header.rst
    tcp.timeout = 1e9  # a flow ends by the library's own clock, and its instance with it
    return tcp


def mos() -> Stack:
    """The stack."""
    s = Stack("sluice_mos", depth=8)
    s.eth = ethernet_parser()
    s.vlan = vlan_parser()
    s.sll = sll_parser()
    s.sll2 = sll2_parser()
    s.null = null_parser()
    s.raw = raw_parser()
    s.ipv4 = ipv4_parser()
    s.tcp = mos_tcp_parser()
    typed = s.eth | s.vlan | s.sll | s.sll2
    s += (typed >> s.ipv4) + Pred(typed.offers.ethertype == IPV4)
    s += (typed >> s.vlan) + Pred(one_of(typed.offers.ethertype, 0x8100, 0x88A8, 0x9100, 0x9200))
    s += (s.null >> s.ipv4) + Pred(s.null.temp.family == 2)
    s += (s.raw >> s.ipv4) + Pred(s.raw.header.version == 4)
    s += (s.ipv4 >> s.tcp) + Pred(s.ipv4.offers.protocol == TCP)
    return s
