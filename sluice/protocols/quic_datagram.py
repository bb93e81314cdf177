"""UDP datagrams that may be QUIC: RFC 8999, 5, decided by the beginning of the datagram.

A datagram may be QUIC if it begins with a long header of a known version, of a version of the form reserved for
negotiation (0x?a?a?a?a), or of version 0, or with a short header and has 21 bytes or more (`deciphered`: five, as
there is no authentication tag). A connection begins with a long header that has the fixed bit, except with version 0,
and with 0x?a?a?a?a in a datagram of less than 1200 bytes. All other datagrams belong to an existing connection,
greased or not (RFC 9287), or to none. Offers is_quic and begins. Limits: many UDP payloads resemble a short header;
the layer above, which knows the connections, decides.
"""

from sluice.lang import Connectionless, If, UInt, layout, one_of
from sluice.protocols.quic import VERSION_2, VERSION_2_DRAFT, quic_first

SHORTEST, TAG, LEAST_INITIAL = 21, 16, 1200
"""Bytes: of a packet with a short header (RFC 9000, 10.3), of what authenticates it (RFC 9001, 5.3), and of a datagram
with an Initial packet (RFC 9000, 14.1).
"""
OTHERS = 0xFF0000, 0xFACEB0, 0x513035, 0x543035
"""The beginnings of other version numbers: drafts, mvfst, and Google's Q05x and T05x."""


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
