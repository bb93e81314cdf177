"""QUIC frames: RFC 9000, 19, and DATAGRAM of RFC 9221; the frames of a packet one by one.

A STREAM, RESET_STREAM or CRYPTO frame is delivered whole to quic_stream.py, which orders the data. Packets to the
sender of a NEW_CONNECTION_ID may have the new id from then on. PADDING up to the end of a packet counts as one frame. A
frame of an unknown type, or of one that such a packet may not have (12.4), ends its packet, and is malformed: anyone
can make Initial packets.

Needs a lower layer that offers zeros and level (`quic`, the parser of packets). Limits: a type has one byte (RFC 9000,
12.4, requires the shortest form, and no type above 0x3f is known here).
"""

from sluice.lang import (
    AddAlias,
    AnyUntil,
    Bit,
    Connectionless,
    ConnectionOriented,
    Else,
    If,
    Length,
    UInt,
    Varint,
    layout,
    one_of,
)

PADDING, PING, ACK, ACK_ECN, RESET_STREAM, STOP_SENDING, CRYPTO, NEW_TOKEN, STREAM = range(9)
MAX_DATA, MAX_STREAM_DATA, MAX_STREAMS, MAX_STREAMS_UNI, DATA_BLOCKED, STREAM_DATA_BLOCKED = range(0x10, 0x16)
STREAMS_BLOCKED, STREAMS_BLOCKED_UNI, NEW_CONNECTION_ID, RETIRE_CONNECTION_ID, PATH_CHALLENGE = range(0x16, 0x1B)
PATH_RESPONSE, CONNECTION_CLOSE, CONNECTION_CLOSE_APPLICATION, HANDSHAKE_DONE = range(0x1B, 0x1F)
DATAGRAM, DATAGRAM_LENGTH = 0x30, 0x31
INITIAL, EARLY, HANDSHAKE = range(3)
"""Levels below the last one."""
INITIAL_RANGES = 32
"""Ranges that an ACK frame of an Initial packet has at most, as anyone can make such packets."""


class quic_frame_hdr(layout):
    unnamed = Bit(2)
    class_ = Bit(3)
    OFF = Bit(1)
    LEN = Bit(1)
    FIN = Bit(1)


class quic_stream_id(layout):
    stream = Varint()


class quic_stream_offset(layout):
    offset = Varint()


class quic_stream_length(layout):
    length = Varint()


class quic_ack(layout):
    largest = Varint()
    delay = Varint()
    range_count = Varint()
    first_range = Varint()


class quic_ack_range(layout):
    gap = Varint()
    range_length = Varint()


class quic_ecn_counts(layout):
    ect_0 = Varint()
    ect_1 = Varint()
    ce = Varint()


class quic_reset_stream(layout):
    reset_error = Varint()
    final_size = Varint()


class quic_stop_sending(layout):
    stopped_stream = Varint()
    stop_error = Varint()


class quic_new_token(layout):
    token_length = Varint()
    token = Bit(token_length << 3)


class quic_maximum(layout):
    maximum = Varint()


class quic_stream_maximum(layout):
    limited_stream = Varint()
    stream_maximum = Varint()


class quic_new_id(layout):
    sequence_number = Varint()
    retire_prior_to = Varint()
    id_length = UInt(8)


class quic_id(layout):
    id_start = UInt(64)
    id_rest = Bit((quic_new_id.id_length - 8) << 3)


class quic_middle_id(layout):
    id_4 = UInt(32)
    id_after_4 = Bit((quic_new_id.id_length - 4) << 3)


class quic_short_id(layout):
    short_id = Bit(quic_new_id.id_length << 3)


class quic_reset_token(layout):
    reset_token = Bit(128)


class quic_retire_id(layout):
    retired_number = Varint()


class quic_path_data(layout):
    data = Bit(64)


class quic_close(layout):
    error_code = Varint()


class quic_close_type(layout):
    frame_type = Varint()


class quic_reason(layout):
    reason_length = Varint()
    reason = Bit(reason_length << 3)


def quic_frame_parser(quic: ConnectionOriented, deciphered: bool = False) -> Connectionless:
    """`deciphered`: packets were decrypted by others, so that each may have all frames."""
    frame = Connectionless("quic_frame")
    hdr = quic_frame_hdr
    type = (hdr.class_ << 3) + (hdr.OFF << 2) + (hdr.LEN << 1) + hdr.FIN
    stream = hdr.class_ == 1
    datagram = (type | 1) == DATAGRAM_LENGTH
    frame.header = hdr
    of_stream = stream | (type == RESET_STREAM)
    frame.header += If(of_stream) >> quic_stream_id
    frame.header += If((stream & hdr.OFF) | (type == CRYPTO)) >> quic_stream_offset
    frame.header += If((stream & hdr.LEN) | (type == CRYPTO) | (type == DATAGRAM_LENGTH)) >> quic_stream_length
    ranges = quic_ack.range_count
    if not deciphered:
        ranges *= (frame.below.level != INITIAL) | (quic_ack.range_count <= INITIAL_RANGES)
    acknowledges = quic_ack + AnyUntil([quic_ack_range], count=ranges)
    frame.header += If((type | 1) == ACK_ECN) >> acknowledges
    frame.header += If(type == ACK_ECN) >> quic_ecn_counts
    frame.header += If(type == RESET_STREAM) >> quic_reset_stream
    frame.header += If(type == STOP_SENDING) >> quic_stop_sending
    frame.header += If(type == NEW_TOKEN) >> quic_new_token
    limits = one_of(type, MAX_DATA, MAX_STREAMS, MAX_STREAMS_UNI, DATA_BLOCKED, STREAMS_BLOCKED, STREAMS_BLOCKED_UNI)
    frame.header += If(limits) >> quic_maximum
    frame.header += If(one_of(type, MAX_STREAM_DATA, STREAM_DATA_BLOCKED)) >> quic_stream_maximum
    id_part = If(quic_new_id.id_length >= 4) >> quic_middle_id >> Else() >> quic_short_id
    id_part = If(quic_new_id.id_length >= 8) >> quic_id >> Else() >> id_part
    frame.header += If(type == NEW_CONNECTION_ID) >> (quic_new_id + id_part + quic_reset_token)
    frame.header += If(type == RETIRE_CONNECTION_ID) >> quic_retire_id
    frame.header += If(one_of(type, PATH_CHALLENGE, PATH_RESPONSE)) >> quic_path_data
    frame.header += If((type | 1) == CONNECTION_CLOSE_APPLICATION) >> quic_close
    frame.header += If(type == CONNECTION_CLOSE) >> quic_close_type
    frame.header += If((type | 1) == CONNECTION_CLOSE_APPLICATION) >> quic_reason

    to_the_end = (stream & ~hdr.LEN) | (type == DATAGRAM)
    padded = (type == PADDING) & (frame.payload_len <= frame.below.zeros)
    known = (type <= HANDSHAKE_DONE) | datagram
    frame.require(known & (hdr.unnamed == 0), "frame type")
    ends = to_the_end | padded | ~known
    if not deciphered:
        level = frame.below.level
        of_handshake = (type <= ACK_ECN) | one_of(type, CRYPTO, CONNECTION_CLOSE)
        needs_keys = one_of(type, ACK, ACK_ECN, CRYPTO, NEW_TOKEN, RETIRE_CONNECTION_ID, PATH_RESPONSE, HANDSHAKE_DONE)
        allowed = (of_handshake | ~one_of(level, INITIAL, HANDSHAKE)) & ~((level == EARLY) & needs_keys)
        frame.require(allowed, "frame type in such a packet")
        few = (level != INITIAL) | (frame.header.range_count <= INITIAL_RANGES)
        frame.require(few, "too many ranges")
        ends |= ~allowed | ~few
    rest = frame.payload_len * (ends | (hdr.unnamed != 0))
    frame.message = Length(frame.cursor + frame.header.length + rest, begins=True)
    frame.sdu = frame.unit
    frame.event.new_id = If((type == NEW_CONNECTION_ID) & (frame.header.id_length >= 4)) >> AddAlias(
        quic, [frame.header.id_start + frame.header.id_4], to_sender=True
    )
    frame.offer(type=type, of_stream=of_stream)
    return frame
