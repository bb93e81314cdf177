"""What UDP carries that may be QUIC: RFC 8999, 5, so far as it shows at the beginning of a datagram.

A datagram may be QUIC when it begins with a long header of a version that is known, of the form that is kept for
negotiation (0x?a?a?a?a), or of version 0, or with a short header and has 21 bytes or more (`deciphered` five, as the
tag that authenticates it is gone). A connection begins with a long header that has the fixed bit, but for version 0,
and 0x?a?a?a?a in a datagram of less than 1200 bytes. All others find one, greased or not (RFC 9287), or are nobody's.
Offers is_quic and begins. Limits: much that UDP carries looks like a short header; whether it is one is for the layer
above, which knows the connections.
"""

from sluice.lang import Connectionless, If, UInt, layout, one_of
from sluice.protocols.quic import VERSION_2, VERSION_2_DRAFT, quic_first

SHORTEST, TAG, LEAST_INITIAL = 21, 16, 1200
"""Bytes: of a packet with a short header (RFC 9000, 10.3), of what authenticates it (RFC 9001, 5.3), and of a datagram
with an Initial packet (RFC 9000, 14.1).
"""
OTHERS = 0xFF0000, 0xFACEB0, 0x513035, 0x543035
"""What numbers of other versions begin with: drafts, mvfst, and Google's Q05x and T05x."""


class quic_version(layout):
    some_version = UInt(32)


def quic_datagram_parser(deciphered: bool = False) -> Connectionless:
    quic = Connectionless("quic_datagram")
    quic.header = quic_first + (If(quic_first.long == 1) >> quic_version)
    version, long = quic.header.some_version, quic.header.long
    shortest = SHORTEST - TAG if deciphered else SHORTEST
    negotiated = (version & 0x0F0F0F0F) == 0x0A0A0A0A
    known = negotiated | one_of(version, 1, VERSION_2, VERSION_2_DRAFT) | one_of(version >> 8, *OTHERS)
    quic.sdu = quic.unit
    quic.offer(
        is_quic=(long == 0) * (quic.unit.length >= shortest) | (long == 1) * ((version == 0) | known),
        begins=(version != 0) & (quic.header.fixed == 1) & (~negotiated | (quic.unit.length >= LEAST_INITIAL)),
    )
    return quic
