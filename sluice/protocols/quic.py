"""QUIC packets: RFC 8999 (what all versions share), RFC 9000 (version 1), RFC 9369 (version 2), drafts from 29 on.

`quic_datagram_parser` tells QUIC from what else UDP carries: a datagram may be QUIC when it begins with a long header
(RFC 8999, 5.1) of a version that is known, of the form that is kept for negotiation (0x?a?a?a?a), or of version 0, or
with a short header and has 21 bytes or more. A connection begins with a long header that has the fixed bit, but for
version 0, and 0x?a?a?a?a in a datagram of less than 1200 bytes. All others find one, greased or not (RFC 9287), or
are nobody's: dropped as of no connection.

`quic_parser` takes the packets of a datagram one by one. A connection is found by addresses and ports, and, when
these have changed, by the connection ids that its sides have said they are to be called by. `temp.kind` is the packet
type, of either version: 0 Initial, 1 0-RTT, 2 Handshake, 3 Retry, 4 with a short header, 5 Version Negotiation.

Initial packets are opened with the keys that follow from the connection id, the others with the secrets of a key log
(option keylog, in the format of SSLKEYLOGFILE), where it has them, by OpenSSL's libcrypto: AES-128-GCM, AES-256-GCM,
ChaCha20-Poly1305, key updates. A packet that cannot be opened counts as one of its connection and is dropped, by its
reason. With `deciphered` packets are read as they were before their protection: neither header nor payload is hidden,
and no authentication tag follows (a trace that was made so, as for the paper's section 7.2).

Limits: connection ids of less than 8 bytes are not followed to other addresses, nor packets to a side without one; of
what is not opened no id is learnt. Offers connection, sender, receiver (0 the active side, 1 the passive one), level
(0 Initial, 1 0-RTT, 2 Handshake, 3 1-RTT), attempt (that of a handshake which begins anew, as behind a Retry), zeros
(how many of the frames' last bytes are 0).
"""

from sluice.lang import (
    AddAlias,
    Assign,
    Bit,
    Block,
    Connectionless,
    ConnectionOriented,
    Else,
    Expression,
    If,
    Length,
    Native,
    UInt,
    Varint,
    layout,
    one_of,
)

INITIAL, EARLY, HANDSHAKE, RETRY, SHORT, NEGOTIATION = range(6)
VERSION_2, VERSION_2_DRAFT = 0x6B3343CF, 0x709A50C4
SHORTEST, LEAST_INITIAL = 21, 1200
"""Bytes: of a packet with a short header (RFC 9000, 10.3), and of a datagram with an Initial packet (14.1)."""
OTHERS = 0xFF0000, 0xFACEB0, 0x513035, 0x543035
"""What numbers of other versions begin with: drafts, mvfst, and Google's Q05x and T05x."""

protection = Native("quic_protection.c", option="keylog")
open_packet = protection.function(
    "open_quic_packet",
    reasons=[
        "no connection",
        "no key",
        "not authentic",
        "too short",
        "cut by the snap length",
        "reserved bits",
        "unknown version",
        "no libcrypto",
    ],
    limit=65536,
)
learn_random = protection.function("learn_quic_random", reasons=["no connection", "not 32 bytes"])


class quic_first(layout):
    long = Bit(1)
    fixed = Bit(1)
    type = Bit(2)
    reserved = Bit(2)
    number_length = Bit(2)


class quic_version(layout):
    some_version = UInt(32)


class quic_long_hdr(layout):
    version = UInt(32)
    dcid_length = UInt(8)
    dcid = Bit(dcid_length << 3)
    scid_length = UInt(8)


class quic_scid(layout):
    scid_start = UInt(64)
    scid_rest = Bit((quic_long_hdr.scid_length - 8) << 3)


class quic_short_scid(layout):
    scid = Bit(quic_long_hdr.scid_length << 3)


class quic_token(layout):
    token_length = Varint()
    token = Bit(token_length << 3)


class quic_length(layout):
    length = Varint()


class quic_short_hdr(layout):
    dcid_start = UInt(64)


class quic_temp(layout):
    kind = UInt(8)
    number_at = UInt(16)
    packet_number = UInt(62)
    zeros = UInt(16)
    attempt = UInt(8)


class quic_perm(layout):
    version = UInt(32)
    active_id_length = UInt(8)
    passive_id_length = UInt(8)


def quic_datagram_parser() -> Connectionless:
    quic = Connectionless("quic_datagram")
    quic.header = quic_first + (If(quic_first.long == 1) >> quic_version)
    version, long = quic.header.some_version, quic.header.long
    negotiated = (version & 0x0F0F0F0F) == 0x0A0A0A0A
    known = negotiated | one_of(version, 1, VERSION_2, VERSION_2_DRAFT) | one_of(version >> 8, *OTHERS)
    quic.sdu = quic.unit
    quic.offer(
        is_quic=(long == 0) * (quic.unit.length >= SHORTEST) | (long == 1) * ((version == 0) | known),
        begins=(version != 0) & (quic.header.fixed == 1) & (~negotiated | (quic.unit.length >= LEAST_INITIAL)),
    )
    return quic


def kind_of() -> Expression:
    """The packet type, as the numbers above; version 2 has the long ones in another order (RFC 9369, 3.2)."""
    turned = one_of(quic_long_hdr.version, VERSION_2, VERSION_2_DRAFT)
    of_long = ((quic_first.type + 3 * turned) & 3) * (quic_long_hdr.version != 0)
    return (quic_first.long == 1) * (of_long + (quic_long_hdr.version == 0) * NEGOTIATION) + (
        quic_first.long == 0
    ) * SHORT


def quic_parser(deciphered: bool = False) -> ConnectionOriented:
    quic = ConnectionOriented("quic")
    kind = kind_of()
    quic.header = quic_first
    quic.header += If(quic_first.long == 1) >> quic_long_hdr >> Else() >> quic_short_hdr
    quic.header += If(quic_long_hdr.scid_length >= 8) >> quic_scid >> Else() >> quic_short_scid
    quic.header += If(kind == INITIAL) >> quic_token
    quic.header += If(kind < RETRY) >> quic_length
    quic.message = Length(quic.cursor + quic.header.length + quic.payload_len * (kind >= RETRY))

    some = quic_first.fixed | quic_first.type | quic_first.reserved | quic_first.number_length
    quic.require((kind != SHORT) | (some != 0) | (quic.header.dcid_start != 0), "padding behind the last packet")

    below = quic.below
    quic.selector = [below.src, below.sport], [below.dst, below.dport]
    quic.creates = below.begins
    quic.alias = If(quic.header.long == 0) >> [quic.header.dcid_start]
    quic.perm = quic_perm
    quic.temp = quic_temp
    quic.timeout = 120
    id_length = quic.perm.active_id_length * quic.to_active + quic.perm.passive_id_length * quic.to_passive
    quic.prep = Assign(quic.temp.kind, kind)
    quic.prep += Assign(quic.temp.number_at, quic.cursor)
    quic.prep += If(quic.temp.kind == SHORT) >> Assign(quic.temp.number_at, 1 + id_length)

    carries = (quic.temp.kind != RETRY) & (quic.temp.kind != NEGOTIATION)
    if deciphered:
        behind_number = quic.temp.number_at + quic.header.number_length + 1
        clear = quic.unit[behind_number * (quic.instance != 0) :]
        quic.sdu = If(carries & (quic.instance != 0)) >> clear >> Else() >> quic.payload[:0]
        believed = carries
    else:
        opened = open_packet(
            quic.to_active,
            quic.header.version,
            quic.temp.kind,
            quic.temp.number_at,
            quic.unit,
            quic.header.dcid,
            into=[quic.temp.packet_number, quic.temp.zeros, quic.temp.attempt],
        )
        quic.sdu = If(carries) >> opened >> Else() >> quic.payload[:0]
        believed = carries & (quic.refused == 0)
    quic.event.ids = If(believed & (quic.header.long == 1)) >> sender_is_called(quic)
    quic.offer(
        connection=quic.instance,
        sender=quic.to_active,
        receiver=quic.to_passive,
        level=quic.temp.kind - (quic.temp.kind == SHORT),
        zeros=quic.temp.zeros,
        attempt=quic.temp.attempt,
    )
    return quic


def sender_is_called(quic: ConnectionOriented) -> Block:
    """Its connection id is how long those of packets to it are, and how it may be found."""
    length = quic.header.scid_length
    known = Assign(quic.perm.version, quic.header.version)
    known += If(quic.to_passive == 1) >> Assign(quic.perm.active_id_length, length)
    known += If(quic.to_active == 1) >> Assign(quic.perm.passive_id_length, length)
    return known + (If(length >= 8) >> AddAlias(quic, [quic.header.scid_start], to_sender=True))
