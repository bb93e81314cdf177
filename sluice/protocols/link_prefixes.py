"""Link types that are another link's frames after a header of fixed length, or with a tag in the frame.

A direction byte before PPP, Cisco HDLC and frame relay (link types 204, 205, 206); InfiniBand (242, RFC 4391: a global
route header, then an EtherType); SLIP (8: a direction and the compressed header, 16 bytes); FDDI (10) with LLC;
classical IP over ATM (106) with LLC or IP; SunATM (123); switch tags of DSA (284: Marvell, 285: with an EtherType, 281
and 282: Broadcom).
Limits: only what selects the next layer is parsed; source routes of token ring and LANE are not.
"""

from sluice.lang import Bit, Connectionless, Else, If, UInt, layout


class direction_hdr(layout):
    direction = Bit(8)


class ipoib_hdr(layout):
    route = Bit(320)
    type = UInt(16)
    reserved = Bit(16)


class slip_hdr(layout):
    direction = Bit(8)
    compressed = Bit(120)


class fddi_hdr(layout):
    frame_control = Bit(8)
    dst = Bit(48)
    src = Bit(48)


class sunatm_hdr(layout):
    flags = Bit(4)
    kind = Bit(4)  # 2 LLC
    vpi = Bit(8)
    vci = UInt(16)


class clip_hdr(layout):
    kind = Bit(4)
    rest = Bit(4)


class dsa_hdr(layout):
    dst = Bit(48)
    src = Bit(48)
    tag = Bit(32)
    type = UInt(16)


class edsa_hdr(layout):
    dst = Bit(48)
    src = Bit(48)
    announced = UInt(16)
    reserved = Bit(16)
    tag = Bit(32)
    type = UInt(16)


class broadcom_hdr(layout):
    tag = Bit(32)


def prefix(name: str, header: type[layout], *link_types: int) -> Connectionless:
    """A header without fields for the next layer."""
    parser = Connectionless(name, link_types=link_types)
    parser.header = header
    return parser


def typed_prefix(name: str, header: type[layout], *link_types: int) -> Connectionless:
    """A header that ends with an EtherType, or the length of an IEEE 802.3 frame, called `type`."""
    parser = prefix(name, header, *link_types)
    kind = parser.header.type
    parser.offer(ethertype=kind)
    parser.sdu = If(kind <= 1500) >> parser.payload[:kind] >> Else() >> parser.payload
    return parser


def ppp_direction_parser() -> Connectionless:
    return prefix("ppp_direction", direction_hdr, 204)


def chdlc_direction_parser() -> Connectionless:
    return prefix("chdlc_direction", direction_hdr, 205)


def fr_direction_parser() -> Connectionless:
    return prefix("fr_direction", direction_hdr, 206)


def ipoib_parser() -> Connectionless:
    ipoib = prefix("ipoib", ipoib_hdr, 242)
    ipoib.offer(ethertype=ipoib.header.type)
    return ipoib


def slip_parser() -> Connectionless:
    return prefix("slip", slip_hdr, 8)


def fddi_parser() -> Connectionless:
    return prefix("fddi", fddi_hdr, 10)


def sunatm_parser() -> Connectionless:
    return prefix("sunatm", sunatm_hdr, 123)


def clip_parser() -> Connectionless:
    """Classical IP over ATM carries IP, or LLC and IP; the first four bits decide. The payload is the whole packet."""
    clip = prefix("clip", clip_hdr, 106)
    clip.sdu = clip.unit
    return clip


def dsa_parser() -> Connectionless:
    return typed_prefix("dsa", dsa_hdr, 281, 284)


def edsa_parser() -> Connectionless:
    return typed_prefix("edsa", edsa_hdr, 285)


def broadcom_parser() -> Connectionless:
    return prefix("broadcom", broadcom_hdr, 282)
