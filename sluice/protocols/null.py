"""BSD loopback: link types 0 (LINKTYPE_NULL) and 108 (LINKTYPE_LOOP).

The header is an address family, in the capturing host's byte order or in that of the network; as families are small
numbers, the zero bytes show which. `temp.family` is the family in either: 2 for IPv4; for IPv6 10 (Linux), 24 (NetBSD,
OpenBSD), 28 (FreeBSD) or 30 (macOS). Limits: other families are not parsed further.
"""

from sluice.lang import Assign, Bit, Connectionless, Else, If, UInt, layout


class null_hdr(layout):
    family = UInt(32)


class null_temp(layout):
    family = Bit(32)


def null_parser() -> Connectionless:
    null = Connectionless("null", link_types=(0, 108))
    null.header = null_hdr
    null.temp = null_temp
    little = (null.header.family & 0xFFFFFF) == 0
    null.prep = (
        If(little)
        >> Assign(null.temp.family, null.header.family >> 24)
        >> Else()
        >> Assign(null.temp.family, null.header.family)
    )
    return null
