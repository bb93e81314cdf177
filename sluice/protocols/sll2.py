"""Linux cooked capture, version 2: link type 276 (LINKTYPE_LINUX_SLL2).

`protocol` is an EtherType, or 4 for LLC. Limits: payloads of its other meanings are not parsed, as in sll.py.
"""

from sluice.lang import Bit, Connectionless, UInt, layout


class sll2_hdr(layout):
    protocol = UInt(16)
    reserved = Bit(16)
    interface = UInt(32)
    hardware = UInt(16)
    packet_type = Bit(8)
    address_length = Bit(8)
    address = Bit(64)


def sll2_parser() -> Connectionless:
    sll2 = Connectionless("sll2", link_types=(276,))
    sll2.header = sll2_hdr
    sll2.offer(ethertype=sll2.header.protocol)
    return sll2
