"""Cisco HDLC, link type 104 (LINKTYPE_C_HDLC; no standard): address, control, and a protocol that is an EtherType.

Protocol 0x8035, elsewhere RARP, is SLARP here. Limits: a frame check sequence, which captures usually omit, is not
recognised.
"""

from sluice.lang import Bit, Connectionless, UInt, layout


class chdlc_hdr(layout):
    address = Bit(8)
    control = Bit(8)
    protocol = UInt(16)


def chdlc_parser() -> Connectionless:
    chdlc = Connectionless("chdlc", link_types=(104,))
    chdlc.header = chdlc_hdr
    chdlc.offer(ethertype=chdlc.header.protocol)
    return chdlc
