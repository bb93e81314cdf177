"""PPP over Ethernet: RFC 2516, link type 51 and EtherType 0x8864. Code 0 carries PPP; discovery is not read."""

from sluice.lang import Bit, Connectionless, UInt, layout


class pppoe_hdr(layout):
    version = Bit(4)
    type = Bit(4)
    code = Bit(8)
    session = UInt(16)
    length = UInt(16)


def pppoe_parser() -> Connectionless:
    pppoe = Connectionless("pppoe", link_types=(51,))
    pppoe.header = pppoe_hdr
    pppoe.require((pppoe.header.version == 1) & (pppoe.header.type == 1), "version")
    pppoe.sdu = pppoe.payload[: pppoe.header.length]
    return pppoe
