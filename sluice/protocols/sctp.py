"""SCTP (RFC 9260), over IP or UDP (RFC 6951), in three layers.

`sctp_packet` is the common header. `sctp` is an association; each chunk of a packet is one of its messages, and it
orders DATA and I-DATA chunks by their transmission sequence numbers. `sctp_message` is a user message, made of one
such chunk or of fragments. The layer above gets whole messages; stream, ssn, ppid and unordered are offered.

The states follow from what both ends send:

| state             | seen so far                                    |
|-------------------|------------------------------------------------|
| CLOSED            | nothing                                        |
| COOKIE_WAIT       | INIT or INIT ACK                               |
| COOKIE_ECHOED     | COOKIE ECHO                                    |
| ESTABLISHED       | COOKIE ACK, SACK, or picked up in its middle   |
| SHUTDOWN_SENT     | SHUTDOWN                                       |
| SHUTDOWN_ACK_SENT | SHUTDOWN ACK                                   |
| TERMINATED        | SHUTDOWN COMPLETE; lingers                     |
| ABORTED           | ABORT; lingers                                 |

An association begins with the numbers in INIT and INIT ACK or, if it is picked up in its middle, with the first
DATA chunk of each side. An INIT with another initiate tag begins a new association. Packets between other
addresses belong to it by verification tag and ports (multi-homing). Chunks with a tag other than the negotiated
one are ignored (8.5).

A sender numbers fragments and messages of a stream consecutively (6.9), so that messages in the order of their
numbers are in the order of each stream; unordered ones are in the order of transmission. Fragments in I-DATA
chunks (RFC 8260) may alternate with those of other messages: stream, U bit and message identifier (`ssn`) relate
them, and they have numbers within the message. Numbers that FORWARD TSN and I-FORWARD-TSN skip (RFC 3758) are a
gap at once, and fragments of a skipped message are dropped; those in I-DATA chunks after five minutes without
another fragment.

Limits: a message is delivered when no number before it is missing; an association has either DATA or I-DATA
chunks, as its ends negotiate (RFC 8260, 2.1); 4,096 messages may be incomplete at once (`messages`); AUTH chunks
(RFC 4895) are skipped; chunks of a packet after one with a wrong length are lost; packets without a chunk are
separate conversations (`sctp_bare`). The CRC-32C is verified only with option `checksums`.
"""

from typing import Any

from sluice.lang import (
    PSM,
    AddAlias,
    Assemble,
    Assign,
    Bit,
    Block,
    Callback,
    Chain,
    Connectionless,
    ConnectionOriented,
    Else,
    If,
    Length,
    Pred,
    PSMState,
    Sequence,
    UInt,
    crc32c,
    layout,
    make_psm_state,
    one_of,
)

PROTOCOL = 132
PORT = 9899
"""Of SCTP in UDP."""

DATA, INIT, INIT_ACK, SACK = 0, 1, 2, 3
ABORT, SHUTDOWN, SHUTDOWN_ACK = 6, 7, 8
COOKIE_ECHO, COOKIE_ACK, SHUTDOWN_COMPLETE = 10, 11, 14
FORWARD_TSN = 192
I_DATA, I_FORWARD_TSN = 64, 194
CHUNK = 4
"""Bytes of the header of a chunk."""
HANDSHAKE, IDLE, LINGER = 60.0, 300.0, 10.0


class sctp_hdr(layout):
    sport = UInt(16)
    dport = UInt(16)
    tag = UInt(32)
    checksum = UInt(32, order="little")


class sctp_chunk(layout):
    type = UInt(8)
    reserved = Bit(4)
    immediate = Bit(1)
    unordered = Bit(1)
    begin = Bit(1)
    end = Bit(1)
    length = UInt(16)


class sctp_data(layout):
    tsn = UInt(32, serial=True)
    stream = UInt(16)


class sctp_plain(layout):
    ssn = UInt(16)
    ppid = UInt(32)


class sctp_interleaved(layout):
    unused = UInt(16)
    mid = UInt(32)
    ppid_or_fsn = UInt(32)  # the first fragment's number is 0


class sctp_init(layout):
    initiate_tag = UInt(32)
    window = UInt(32)
    out_streams = UInt(16)
    in_streams = UInt(16)
    initial_tsn = UInt(32, serial=True)


class sctp_forward(layout):
    cumulative_tsn = UInt(32, serial=True)


class sctp_perm(layout):
    active_tag = UInt(32)
    passive_tag = UInt(32)
    active_known = Bit(1)
    passive_known = Bit(1)
    echoed = Bit(1)
    interleaved = Bit(1)


class sctp_temp(layout):
    tsn = UInt(32, serial=True)
    begins = Bit(1)
    reused = Bit(1)
    believed = Bit(1)


class sctp_message_perm(layout):
    next = UInt(32, serial=True)
    length = UInt(32)
    ppid = UInt(32)


class sctp_message_temp(layout):
    offset = UInt(32)
    follows = Bit(1)


class sctp_message(layout):
    association = UInt(64)
    to_active = Bit(1)
    unordered = Bit(1)
    stream = UInt(16)
    ssn = UInt(32)
    ppid = UInt(32)
    data = Bit(1 << 20)


def sctp_layers() -> Chain:
    """All three, one above the other."""
    return sctp_packet_parser() >> sctp_parser() >> sctp_message_parser()


def sctp_bare_parser() -> ConnectionOriented:
    """Packets without a chunk (`CHUNK` bytes): a conversation is two addresses and ports, as there is no other key."""
    bare = ConnectionOriented("sctp")
    bare.selector = [bare.below.src, bare.below.sport], [bare.below.dst, bare.below.dport]
    bare.timeout = IDLE
    return bare


def sctp_packet_parser() -> Connectionless:
    packet = Connectionless("sctp_packet")
    packet.header = sctp_hdr
    checksum = crc32c(packet.unit, blank=(8, 12))
    packet.require((checksum == packet.header.checksum) | (checksum == 0), "checksum", option="checksums")
    packet.offer(sport=packet.header.sport, dport=packet.header.dport, tag=packet.header.tag)
    return packet


def sctp_parser(limit: int = 1 << 20, limit_chunks: int = 4096) -> ConnectionOriented:
    """An association. `limit`, `limit_chunks`: bytes, and DATA chunks, held out of order per side."""
    sctp = ConnectionOriented("sctp")
    sctp.header = sctp_chunk
    init = (sctp.header.type == INIT) | (sctp.header.type == INIT_ACK)
    interleaved = sctp.header.type == I_DATA
    carries = (sctp.header.type == DATA) | interleaved
    forward = one_of(sctp.header.type, FORWARD_TSN, I_FORWARD_TSN)
    sctp.header += If(carries) >> sctp_data
    sctp.header += If(sctp.header.type == DATA) >> sctp_plain
    sctp.header += If(interleaved) >> sctp_interleaved
    sctp.header += If(init) >> sctp_init
    sctp.header += If(forward) >> sctp_forward
    header = sctp.header

    # Chunks begin at multiples of four; the padding of the last chunk of a packet may be missing.
    padded = (header.length + 3) & 0xFFFFFFFC
    there = sctp.cursor + sctp.payload_len
    length = padded - (padded - there) * ((header.length <= there) & (padded > there))
    sctp.message = Length(length * (header.length >= sctp.cursor), limit=1 << 17, bundled=True, half=True)

    sctp.selector = [sctp.below.src, sctp.below.sport], [sctp.below.dst, sctp.below.dport]
    sctp.alias = If(sctp.below.tag != 0) >> [sctp.below.tag, sctp.below.sport, sctp.below.dport]
    sctp.perm = sctp_perm
    sctp.temp = sctp_temp
    perm, temp = sctp.perm, sctp.temp

    def sent_by(own: str, other: str) -> Block:
        """The state changes by a chunk from one side."""
        tag, known = getattr(perm, own + "_tag"), getattr(perm, own + "_known")
        its_tag, its_known = getattr(perm, other + "_tag"), getattr(perm, other + "_known")
        x = Assign(temp.reused, (header.type == INIT) & ~sctp.created & (known | perm.echoed))
        x += Assign(temp.reused, temp.reused & (~known | (header.initiate_tag != tag)))
        # 8.5.1: ABORT and SHUTDOWN COMPLETE may reflect the sender's own tag (the T bit).
        reflected = (sctp.below.tag == tag) & known & header.end
        reflected = reflected & ((header.type == ABORT) | (header.type == SHUTDOWN_COMPLETE))
        x += Assign(temp.believed, ~its_known | (sctp.below.tag == its_tag) | reflected)
        x += Assign(temp.begins, (header.type == INIT) | (init & temp.believed & ~perm.echoed))
        y = Assign(tag, header.initiate_tag) + Assign(known, 1) + Assign(temp.tsn, header.initial_tsn)
        y += AddAlias(sctp, [header.initiate_tag, sctp.below.sport, sctp.below.dport])
        y += AddAlias(sctp, [header.initiate_tag, sctp.below.dport, sctp.below.sport], to_sender=True)
        return x + (If(temp.begins & ~temp.reused) >> y)

    sctp.prep = Assign(temp.tsn, header.tsn)
    sctp.prep += If(forward) >> Assign(temp.tsn, header.cumulative_tsn + 1)
    sctp.prep += If(sctp.to_passive == 1) >> sent_by("active", "passive") >> Else() >> sent_by("passive", "active")
    agreed = (header.type == COOKIE_ECHO) | carries
    sctp.prep += If(agreed & temp.believed) >> Assign(perm.echoed, 1)
    sctp.prep += If(interleaved & temp.believed) >> Assign(perm.interleaved, 1)

    data = carries & temp.believed
    skips = forward & temp.believed
    sctp.seq = If(data | temp.begins | skips) >> Sequence(
        meta=temp.tsn,
        data=sctp.unit[: header.length],
        data_len=data,
        zero_based=False,
        start=temp.begins,
        skip=skips,
        limit=limit,
        limit_pieces=limit_chunks,
        units=True,
        head=16 + (perm.interleaved << 2),
    )

    CLOSED = PSMState(start=True)
    COOKIE_WAIT, COOKIE_ECHOED, ESTABLISHED, SHUTDOWN_SENT, SHUTDOWN_ACK_SENT = make_psm_state(5)
    TERMINATED, ABORTED = PSMState(closed=True), PSMState(closed=True)
    opening = [CLOSED, COOKIE_WAIT, COOKIE_ECHOED]
    open = [*opening, ESTABLISHED, SHUTDOWN_SENT, SHUTDOWN_ACK_SENT]
    sctp.psm = PSM(*open, TERMINATED, ABORTED)

    def goes(name: str, sources: list[PSMState], target: PSMState, condition: Any, timeout: float = IDLE) -> None:
        """Transitions of one name from several states."""
        for source in sources:
            setattr(sctp.psm, f"{name}_{source.name}", (source >> target) + Pred(condition))
            getattr(sctp.psm, f"{name}_{source.name}").timeout = timeout

    for state in [*open, TERMINATED, ABORTED]:
        setattr(sctp.psm, f"reuse_{state.name}", (state >> CLOSED) + Pred(temp.reused))
        getattr(sctp.psm, f"reuse_{state.name}").restart = True
    believed = temp.believed
    goes("abort", open, ABORTED, believed & (header.type == ABORT), LINGER)
    goes("complete", open, TERMINATED, believed & (header.type == SHUTDOWN_COMPLETE), LINGER)
    goes("acked", open[:-1], SHUTDOWN_ACK_SENT, believed & (header.type == SHUTDOWN_ACK))
    goes("shutdown", open[:-2], SHUTDOWN_SENT, believed & (header.type == SHUTDOWN))
    goes("init", [CLOSED], COOKIE_WAIT, init, HANDSHAKE)
    goes("echo", opening[:2], COOKIE_ECHOED, believed & (header.type == COOKIE_ECHO))
    goes("answered", opening[1:], ESTABLISHED, believed & ((header.type == COOKIE_ACK) | (header.type == SACK)))
    goes("pick_up", [CLOSED], ESTABLISHED, 1)

    sctp.offer(association=sctp.instance, to_active=sctp.to_active)
    sctp.event.asm = If(carries) >> Assemble()
    sctp.timeout = IDLE
    return sctp


def sctp_message_parser(limit: int = 1 << 17, messages: int = 1 << 12) -> Connectionless:
    """User messages. `limit`: bytes of a fragmented message; a longer one is dropped. `messages`: that may be
    incomplete at once, at most; at the bound, one that would soon time out is evicted.
    """
    message = Connectionless("sctp_message")
    interleaved = sctp_chunk.type == I_DATA
    message.header = sctp_chunk + sctp_data
    message.header += If(interleaved) >> sctp_interleaved >> Else() >> sctp_plain
    header = message.header
    fragment = (header.begin & header.end) == 0
    # An association without I-DATA has fragments of one message at a time: its place is 0.
    place = ((header.stream << 33) | (header.unordered << 32) | header.mid) * interleaved
    message.selector = If(fragment) >> [message.below.association, message.below.to_active, place]
    message.perm = sctp_message_perm
    message.temp = sctp_message_temp
    perm, temp = message.perm, message.temp
    fsn = header.ppid_or_fsn * ~header.begin
    number = (header.tsn * ~interleaved) | (fsn * interleaved)
    message.prep = Assign(temp.follows, header.begin | (~message.created & (number == perm.next)))
    message.prep += Assign(temp.offset, perm.length)
    message.prep += Assign(perm.length, perm.length + message.payload_len)
    message.prep += Assign(perm.next, number + 1)
    ppid = header.ppid | header.ppid_or_fsn
    message.prep += If(header.begin) >> Assign(perm.ppid, ppid)
    message.seq = If(fragment & temp.follows) >> Sequence(
        meta=temp.offset,
        data=message.payload,
        whole=True,
        limit=limit,
    )

    WHOLE = PSMState(start=True, accept=True)
    PART = PSMState()
    message.psm = PSM(WHOLE, PART)
    message.psm.again = (PART >> WHOLE) + Pred(header.begin)
    message.psm.again.restart = True
    message.psm.whole = (WHOLE >> WHOLE) + Pred(~fragment)
    message.psm.first = (WHOLE >> PART) + Pred(fragment & header.begin)
    message.psm.stray = (PART >> WHOLE) + Pred(~temp.follows)
    message.psm.last = (PART >> WHOLE) + Pred(message.v.header.end == 1)
    message.timeout = IDLE
    message.max_instances = messages

    message.offer(stream=header.stream, ssn=header.ssn | header.mid, ppid=perm.ppid, unordered=header.unordered)
    message.event.asm = If(message.psm.whole | message.psm.last) >> Assemble()
    message.event.message = If(message.psm.whole | message.psm.last) >> (
        Assign(sctp_message.association, message.below.association)
        + Assign(sctp_message.to_active, message.below.to_active)
        + Assign(sctp_message.unordered, header.unordered)
        + Assign(sctp_message.stream, header.stream)
        + Assign(sctp_message.ssn, header.ssn | header.mid)
        + Assign(sctp_message.ppid, perm.ppid)
        + Assign(sctp_message.data, message.sdu)
        + Callback(sctp_message)
    )
    message.event_relation += message.event.asm, message.event.message
    return message
