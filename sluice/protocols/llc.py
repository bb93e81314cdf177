"""Logical link control: IEEE 802.2.

Unnumbered frames have a control field of one byte, the others one of two. DSAP and SSAP 0xaa with control 3 announce
SNAP (snap.py), 6 with control 3 IPv4. Link types 100 and 11 (ATM, RFC 2684) begin with LLC. Limits: frames are not
related to each other; connections (type 2) are not tracked.
"""

from sluice.lang import Bit, Connectionless, If, layout


class llc_hdr(layout):
    dsap = Bit(8)
    ssap = Bit(8)
    control = Bit(8)


class llc_numbered(layout):
    control_high = Bit(8)


def llc_parser() -> Connectionless:
    llc = Connectionless("llc", link_types=(11, 100))
    llc.header = llc_hdr + (If((llc_hdr.control & 3) != 3) >> llc_numbered)
    return llc
