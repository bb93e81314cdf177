"""PPP over Ethernet: RFC 2516, link type 51, EtherTypes 0x8864 (sessions: code 0 carries PPP) and 0x8863 (discovery).

Tags of discovery are parsed. The length ends the packet. Limits: sessions are not related to their discovery.
"""

from sluice.lang import AnyUntil, Bit, Connectionless, If, UInt, layout


class pppoe_hdr(layout):
    version = Bit(4)
    type = Bit(4)
    code = Bit(8)
    session = UInt(16)
    length = UInt(16)


class pppoe_tag(layout):
    tag = UInt(16)
    tag_length = UInt(16)
    tag_value = Bit(tag_length << 3)


TAGS = 64
"""Tags of a discovery packet that are read; RFC 2516 defines nine. More are counted as `list too long`."""


def pppoe_parser() -> Connectionless:
    pppoe = Connectionless("pppoe", link_types=(51,))
    end = pppoe_hdr.length + 6
    tags = AnyUntil([pppoe_tag], pppoe.cursor < end, end=end, limit=TAGS)
    pppoe.header = pppoe_hdr + (If((pppoe_hdr.code != 0) & (pppoe_hdr.length > 0)) >> tags)
    pppoe.require((pppoe.header.version == 1) & (pppoe.header.type == 1), "version")
    pppoe.sdu = pppoe.unit[pppoe.cursor : end]
    return pppoe
