"""Linux cooked capture, version 1: link type 113 (LINKTYPE_LINUX_SLL).

`protocol` is an EtherType, or 4 for LLC. Limits: payloads of other meanings of `protocol` (1: Novell, and those that
depend on `hardware`, such as netlink) are not parsed.
"""

from sluice.lang import Bit, Connectionless, UInt, layout


class sll_hdr(layout):
    packet_type = UInt(16)
    hardware = UInt(16)
    address_length = UInt(16)
    address = Bit(64)
    protocol = UInt(16)


def sll_parser() -> Connectionless:
    sll = Connectionless("sll", link_types=(113,))
    sll.header = sll_hdr
    sll.offer(ethertype=sll.header.protocol)
    return sll
