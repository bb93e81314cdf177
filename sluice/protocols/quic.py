"""QUIC packets: RFC 8999 (what all versions share), RFC 9000 (version 1), RFC 9369 (version 2), drafts from 29 on.

The packets of a datagram are parsed one after the other. A connection is found by its ends (addresses and ports); if
these have changed, by the connection ids that its sides have announced; and then by the ends between which packets
with such ids were seen, because packets to a side without an id carry none. `temp.kind` is the packet type, of either
version: 0 Initial, 1 0-RTT, 2 Handshake, 3 Retry, 4 with a short header, 5 Version Negotiation.

quic_protection.py decrypts packets. One that cannot be decrypted counts for its connection and is dropped, with the
reason. With `deciphered` packets are parsed as plain text: neither header nor payload is protected, and no
authentication tag follows (for traces that were generated so, as for the paper's section 7.2).

A short header does not contain the length of its connection id. The id is looked up by its first 8 bytes, for ids of 8
to 20 bytes, then by its first 4, for those of 4 to 7. Limits: shorter ids are not looked up, because one in 2^24, or
more, of all unrelated packets begins with such an id by chance. New ends of a connection whose sides both have no id,
or shorter ones, are therefore not found; if one side has an id, they are found from the first packet to this side. Of
ids with the same beginning the last one counts. Packets that cannot be decrypted announce no ids.

Needs a lower layer that offers src, sport, dst, dport and begins. Offers connection, sender, receiver (0 the active
side, 1 the passive one), level (0 Initial, 1 0-RTT, 2 Handshake, 3 1-RTT), attempt (that of a handshake that is
repeated, as after a Retry), zeros (how many of the frames' last bytes are 0).
"""

from sluice.lang import (
    AddAlias,
    Assign,
    Bit,
    Block,
    ConnectionOriented,
    Else,
    Expression,
    If,
    Length,
    UInt,
    Varint,
    layout,
    one_of,
)
from sluice.protocols.quic_protection import NO_KEY, opened

INITIAL, EARLY, HANDSHAKE, RETRY, SHORT, NEGOTIATION = range(6)
VERSION_2, VERSION_2_DRAFT = 0x6B3343CF, 0x709A50C4


class quic_first(layout):
    long = Bit(1)
    fixed = Bit(1)
    type = Bit(2)
    reserved = Bit(2)
    number_length = Bit(2)


class quic_long_hdr(layout):
    version = UInt(32)
    dcid_length = UInt(8)
    dcid = Bit(dcid_length << 3)
    scid_length = UInt(8)


class quic_scid(layout):
    scid_start = UInt(64)
    scid_rest = Bit((quic_long_hdr.scid_length - 8) << 3)


class quic_middle_scid(layout):
    scid_4 = UInt(32)
    scid_after_4 = Bit((quic_long_hdr.scid_length - 4) << 3)


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


def kind_of() -> Expression:
    """The packet type, as the numbers above; version 2 has the long ones in another order (RFC 9369, 3.2)."""
    turned = one_of(quic_long_hdr.version, VERSION_2, VERSION_2_DRAFT)
    of_long = ((quic_first.type + 3 * turned) & 3) * (quic_long_hdr.version != 0)
    of_long += (quic_long_hdr.version == 0) * NEGOTIATION
    return (quic_first.long == 1) * of_long + (quic_first.long == 0) * SHORT


def quic_parser(deciphered: bool = False) -> ConnectionOriented:
    quic = ConnectionOriented("quic")
    kind = kind_of()
    quic.header = quic_first
    quic.header += If(quic_first.long == 1) >> quic_long_hdr >> Else() >> quic_short_hdr
    scid = If(quic_long_hdr.scid_length >= 4) >> quic_middle_scid >> Else() >> quic_short_scid
    quic.header += If(quic_long_hdr.scid_length >= 8) >> quic_scid >> Else() >> scid
    quic.header += If(kind == INITIAL) >> quic_token
    quic.header += If(kind < RETRY) >> quic_length
    quic.message = Length(quic.cursor + quic.header.length + quic.payload_len * (kind >= RETRY), bundled=True)

    some = quic_first.fixed | quic_first.type | quic_first.reserved | quic_first.number_length
    quic.require((kind != SHORT) | (some != 0) | (quic.header.dcid_start != 0), "padding after the last packet")

    below = quic.below
    quic.selector = [below.src, below.sport], [below.dst, below.dport]
    quic.creates = below.begins
    ids = [quic.header.dcid_start], [quic.header.dcid_start >> 32]
    quic.alias = If(quic.header.long == 0) >> (*ids, quic.selector)
    quic.perm = quic_perm
    quic.temp = quic_temp
    quic.timeout = 120
    id_length = quic.perm.active_id_length * quic.to_active + quic.perm.passive_id_length * quic.to_passive
    quic.prep = Assign(quic.temp.kind, kind)
    quic.prep += Assign(quic.temp.number_at, quic.cursor)
    quic.prep += If(quic.temp.kind == SHORT) >> Assign(quic.temp.number_at, 1 + id_length)

    carries = (quic.temp.kind != RETRY) & (quic.temp.kind != NEGOTIATION)
    if deciphered:
        after_number = quic.temp.number_at + quic.header.number_length + 1
        clear = quic.unit[after_number * (quic.instance != 0) :]
        quic.sdu = If(carries & (quic.instance != 0)) >> clear >> Else() >> quic.payload[:0]
        believed = carries
        followed = believed
    else:
        authenticated = quic.temp.kind != NEGOTIATION
        quic.sdu = If(authenticated) >> opened(quic, quic.temp.kind, quic.temp.number_at) >> Else() >> quic.payload[:0]
        believed = carries & (quic.refused == 0)
        followed = believed | (quic.refused == NO_KEY)
    quic.event.ids = If(believed & (quic.header.long == 1)) >> sender_is_called(quic)
    # Packets to a side without an id are found by their ends only (RFC 9000, 5.1, 5.2); if these change (9), by those
    # of a packet in the opposite direction, which has an id. It must have been decrypted; without keys the id suffices.
    # A forged packet (9.3.1), or a copy sent from elsewhere (9.3.2, 9.3.3), has no lasting effect: it delivers no byte,
    # as packets between these ends must be decrypted, too; the ends with which a connection began and all ids have
    # precedence, and the next packet with an id restores its ends; and such ends are in a separate table, where the
    # oldest ones are evicted.
    quic.event.path = If(followed) >> AddAlias(quic, quic.selector)
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
    """Its connection id: the length of the ids of packets to it, and a key by which it is found."""
    length = quic.header.scid_length
    known = Assign(quic.perm.version, quic.header.version)
    known += If(quic.to_passive == 1) >> Assign(quic.perm.active_id_length, length)
    known += If(quic.to_active == 1) >> Assign(quic.perm.passive_id_length, length)
    return known + (If(length >= 4) >> AddAlias(quic, [quic.header.scid_start + quic.header.scid_4], to_sender=True))
