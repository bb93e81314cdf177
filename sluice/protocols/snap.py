"""Subnetwork access protocol: IEEE 802, RFC 1042, the five bytes after LLC.

`temp.ethertype` is the type if the organisation is one whose types are EtherTypes (000000, or 0000f8 of IEEE 802.1H),
otherwise 0. The organisation 0080c2 (IEEE 802.1) has bridged frames: types 1 and 7 are Ethernet, with two bytes of
padding before it over ATM (RFC 2684) and none over frame relay (RFC 2427); a known EtherType decides which. Limits:
the payloads of other organisations are not parsed.
"""

from sluice.lang import Assign, Bit, Connectionless, Else, If, UInt, layout, one_of

BRIDGED = 0x0080C2
TYPES = 0x0800, 0x86DD, 0x0806, 0x8100, 0x88A8, 0x8847, 0x8848, 0x8863, 0x8864
"""EtherTypes that show where a bridged frame begins."""


class snap_hdr(layout):
    oui = Bit(24)
    type = UInt(16)


class snap_bridged(layout):
    addresses = Bit(96)
    bridged_type = UInt(16)
    bridged_type_padded = UInt(16)  # where two bytes of padding precede the frame


class snap_temp(layout):
    ethertype = Bit(16)


def snap_parser() -> Connectionless:
    snap = Connectionless("snap")
    bridged = (snap_hdr.oui == BRIDGED) & one_of(snap_hdr.type, 1, 7)
    snap.header = snap_hdr + (If(bridged & (snap.unit.length >= 21)) >> snap_bridged)
    snap.temp = snap_temp
    known = (snap.header.oui == 0) | (snap.header.oui == 0x0000F8)
    snap.prep = If(known) >> Assign(snap.temp.ethertype, snap.header.type)
    snap.offer(ethertype=snap.temp.ethertype)
    plain = one_of(snap.header.bridged_type, *TYPES)
    padded = ~plain & one_of(snap.header.bridged_type_padded, *TYPES)
    within = snap.header_contain(snap_bridged)
    snap.offer(is_ethernet=within)
    snap.sdu = If(within) >> snap.unit[5 + 2 * padded :] >> Else() >> snap.payload
    return snap
