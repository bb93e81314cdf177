"""QUIC's streams: RFC 9000, 2 and 19.8; and the handshake's bytes, which each encryption level orders by itself (19.6).

An instance is one direction of a stream of a connection: its key is the connection's number and attempt, the stream's
id, and the sender (0 the active side). A stream is over when all its bytes up to the FIN have come, and is kept for a
while for what comes late. Event `data` delivers the bytes in order. Limits: RESET_STREAM ends none.

Sits on a layer that offers connection, attempt, sender and, for CRYPTO, level; a packet is the frame.
"""

from sluice.lang import PSM, Assemble, Bit, Connectionless, If, Pred, PSMState, Sequence, Varint, layout
from sluice.protocols.quic_frame import quic_stream_id, quic_stream_length, quic_stream_offset


class quic_stream_type(layout):
    mark = Bit(5, const=1)
    OFF = Bit(1)
    LEN = Bit(1)
    FIN = Bit(1)


class quic_crypto_hdr(layout):
    type = Bit(8, const=6)
    offset = Varint()
    length = Varint()


def quic_stream_parser() -> Connectionless:
    stream = Connectionless("quic_stream")
    stream.header = quic_stream_type + quic_stream_id
    stream.header += If(quic_stream_type.OFF == 1) >> quic_stream_offset
    stream.header += If(quic_stream_type.LEN == 1) >> quic_stream_length
    below = stream.below
    stream.selector = [below.connection, below.attempt, stream.header.stream, below.sender]
    stream.seq = Sequence(
        meta=stream.header.offset,
        data=stream.payload,
        data_len=stream.payload_len + stream.header.FIN,
    )
    OPEN, DONE = PSMState(start=True), PSMState(closed=True)
    stream.psm = PSM(OPEN, DONE)
    stream.psm.end = (OPEN >> DONE) + Pred(stream.v.header.FIN == 1)
    stream.psm.end.timeout = 30
    stream.event.asm = Assemble()
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
