"""L2TP version 3, data messages: RFC 3931, over IP (protocol 115), and over UDP after l2tp.py; Ethernet within.

The length of the cookie (0, 4 or 8 bytes) and whether a sublayer of 4 bytes follows (RFC 4719) are negotiated by the
two ends and are not in the packet: the first offset at which an Ethernet frame would have a known EtherType or a
length is used. Offers tunnel (the session). Limits: session 0, the control channel, is not parsed further, and neither
are frames other than Ethernet.
"""

from sluice.lang import Connectionless, Expression, If, UInt, layout, one_of

KNOWN = 0x0800, 0x86DD, 0x0806, 0x8100, 0x88A8, 0x8847, 0x8848, 0x8863, 0x8864
PLACES = 0, 4, 8, 12
"""Bytes of cookie and sublayer."""


class l2tp3_hdr(layout):
    session = UInt(32)


class l2tp3_frame(layout):
    addresses = UInt(64)
    addresses_end = UInt(32)
    type_0 = UInt(16)
    first_0 = UInt(16)
    type_4 = UInt(16)
    first_4 = UInt(16)
    type_8 = UInt(16)
    first_8 = UInt(16)
    type_12 = UInt(16)


def ethernet_type(value: Expression) -> Expression:
    """Whether a number is an EtherType that is common within tunnels."""
    return one_of(value, *KNOWN)


def l2tp3_parser() -> Connectionless:
    l2tp3 = Connectionless("l2tp3")
    l2tp3.header = l2tp3_hdr + (If(l2tp3.unit.length >= 30) >> l2tp3_frame)
    header = l2tp3.header
    is_0, is_4, is_8, is_12 = (ethernet_type(getattr(header, f"type_{place}")) for place in PLACES)
    skipped = 4 * (~is_0 & is_4) + 8 * (~is_0 & ~is_4 & is_8) + 12 * (~is_0 & ~is_4 & ~is_8 & is_12)
    l2tp3.sdu = l2tp3.unit[skipped + 4 :]
    l2tp3.offer(tunnel=header.session, is_ethernet=(header.session != 0) & (is_0 | is_4 | is_8 | is_12))
    return l2tp3
