"""QUIC's streams: RFC 9000, 2 and 19.8; and the handshake's bytes, which each encryption level orders separately
(19.6).

An instance is one direction of a stream of a connection: its key is the connection's number and attempt, the stream's
id, and the sender (0 the active side). A stream ends when all its bytes up to the FIN have arrived, or with
RESET_STREAM (19.4), by which its sender abandons it; its instance remains for delayed packets. STOP_SENDING, a
receiver's request for a reset, does not end it. Event `data` delivers the bytes in order; `reset` has the error code
and the final size. Bytes missing below that size are a gap when the instance ends.

The final size does not change (4.5). A frame that violates this is malformed, counted as `final size`, and ignored:
one with bytes after the end, with another end, or with an end before bytes that have arrived.

Limits: of contradicting frames the first one counts, whether or not the receiver got it.

Needs a lower layer that offers connection, attempt, sender and, for CRYPTO, level; a packet is the frame.
"""

from sluice.lang import (
    PSM,
    Assemble,
    Assign,
    Bit,
    Callback,
    Connectionless,
    If,
    Pred,
    PSMState,
    Sequence,
    UInt,
    Varint,
    layout,
)
from sluice.protocols.quic_frame import quic_stream_id, quic_stream_length, quic_stream_offset


class quic_stream_type(layout):
    mark = Bit(5)  # 0 with OFF is RESET_STREAM
    OFF = Bit(1)
    LEN = Bit(1)
    FIN = Bit(1)


class quic_stream_end(layout):
    error = Varint()
    final_size = Varint()


class quic_stream_perm(layout):
    size = UInt(64)  # of the data so far; after the end, the final size
    ended = Bit(1)


class quic_stream_temp(layout):
    end = UInt(64)
    fits = Bit(1)


class quic_reset(layout):
    stream = UInt(62)
    error = UInt(62)
    final_size = UInt(62)


class quic_crypto_hdr(layout):
    type = Bit(8, const=6)
    offset = Varint()
    length = Varint()


def quic_stream_parser() -> Connectionless:
    stream = Connectionless("quic_stream")
    reset = quic_stream_type.mark == 0
    stream.header = quic_stream_type + quic_stream_id
    stream.header += If(~reset & quic_stream_type.OFF) >> quic_stream_offset
    stream.header += If(quic_stream_type.LEN == 1) >> quic_stream_length
    stream.header += If(reset) >> quic_stream_end
    below = stream.below
    stream.selector = [below.connection, below.attempt, stream.header.stream, below.sender]
    offset = stream.header.offset + stream.header.final_size
    last = stream.header.FIN | reset
    stream.perm, stream.temp = quic_stream_perm, quic_stream_temp
    perm, temp = stream.perm, stream.temp
    within = ~perm.ended | (temp.end <= perm.size)
    after_all = ~last | (temp.end >= perm.size)
    stream.prep = Assign(temp.end, offset + stream.payload_len)
    stream.prep += Assign(temp.fits, within & after_all)
    stream.prep += If(temp.fits & (temp.end > perm.size)) >> Assign(perm.size, temp.end)
    stream.prep += If(temp.fits & last) >> Assign(perm.ended, 1)
    stream.require(temp.fits, "final size")
    stream.seq = Sequence(
        meta=offset,
        data=stream.payload,
        data_len=stream.payload_len + last,
    )
    OPEN, DONE, RESET = PSMState(start=True), PSMState(closed=True), PSMState(closed=True)
    stream.psm = PSM(OPEN, DONE, RESET)
    stream.psm.end = (OPEN >> DONE) + Pred(stream.v.header.FIN == 1)
    stream.psm.end.timeout = 30
    stream.psm.reset = (OPEN >> RESET) + Pred(reset)
    stream.psm.reset.timeout = 30
    stream.event.asm = Assemble()
    stream.event.reset = If(stream.psm.reset) >> (
        Assign(quic_reset.stream, stream.header.stream)
        + Assign(quic_reset.error, stream.header.error)
        + Assign(quic_reset.final_size, stream.header.final_size)
        + Callback(quic_reset)
    )
    stream.timeout = 120
    return stream


def quic_crypto_parser() -> Connectionless:
    crypto = Connectionless("quic_crypto")
    crypto.header = quic_crypto_hdr
    below = crypto.below
    crypto.selector = [below.connection, below.attempt, below.level, below.sender]
    crypto.seq = Sequence(meta=crypto.header.offset, data=crypto.payload, limit=1 << 17)
    crypto.event.asm = Assemble()
    crypto.timeout = 60
    return crypto
