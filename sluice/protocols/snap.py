"""Subnetwork access protocol: IEEE 802, RFC 1042, the five bytes behind LLC.

`temp.ethertype` is the type where the organisation says that it is an EtherType (000000, or 0000f8 of IEEE 802.1H),
otherwise 0. Limits: what follows is then the organisation's own, and is not read.
"""

from sluice.lang import Assign, Bit, Connectionless, If, UInt, layout


class snap_hdr(layout):
    oui = Bit(24)
    type = UInt(16)


class snap_temp(layout):
    ethertype = Bit(16)


def snap_parser() -> Connectionless:
    snap = Connectionless("snap")
    snap.header = snap_hdr
    snap.temp = snap_temp
    known = (snap.header.oui == 0) | (snap.header.oui == 0x0000F8)
    snap.prep = If(known) >> Assign(snap.temp.ethertype, snap.header.type)
    snap.offer(ethertype=snap.temp.ethertype)
    return snap
