"""SLARP, the serial line address resolution protocol of Cisco HDLC (LINKTYPE_C_HDLC), number 0x8035; no standard.

A request asks for the address and mask of the other end of the line, and a reply tells it; keepalives bear a number and
the last one that came from the other end, so that each end knows that its own arrive. What follows, as the time since
the sender started in some keepalives, is not read.

Limits: each packet stands for itself: an end gives the line up after three keepalives that came to nothing, which is
not told here.
"""

from sluice.lang import Bit, Connectionless, If, UInt, layout

KEEPALIVE = 2


class slarp_hdr(layout):
    type = UInt(32)  # 0 request, 1 reply


class slarp_address(layout):
    address = Bit(32)
    mask = Bit(32)


class slarp_keepalive(layout):
    number = UInt(32)
    returned = UInt(32)
    reliability = UInt(16)  # always 0xFFFF


def slarp_parser() -> Connectionless:
    slarp = Connectionless("slarp")
    slarp.header = slarp_hdr
    slarp.header += If(slarp_hdr.type < KEEPALIVE) >> slarp_address
    slarp.header += If(slarp_hdr.type == KEEPALIVE) >> slarp_keepalive
    slarp.require(slarp.header.type <= KEEPALIVE, "type")
    return slarp
