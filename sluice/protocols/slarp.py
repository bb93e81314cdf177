"""SLARP, the serial line address resolution protocol of Cisco HDLC (LINKTYPE_C_HDLC), number 0x8035; no standard.

A request asks for the address and mask of the other end of the line; a reply contains them. A keepalive contains its
sequence number and the last one received from the other end, so that each end knows that its keepalives arrive. Data
that follows, such as the sender's uptime in some keepalives, is not parsed.

Limits: packets are not related to each other: that an end declares the line down after three lost keepalives is not
reported.
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
