"""IPv6 fragment header: RFC 8200, 4.5, protocol number 44.

A complete datagram is delivered to the next layer, an atomic fragment (RFC 6946) at once. The fragment with
offset 0 determines the next header. Of overlapping fragments the first to arrive wins, or as `policy` says (RFC
5722 would drop the datagram); the first one without more_frag determines the datagram's end. An incomplete
datagram is discarded 60 s after its last fragment. Limits: a datagram of at most 128 KiB, and 65,536 incomplete
ones at once (`datagrams`; at the bound one that would soon time out is evicted, as in IPv4); whether all
fragments but the last are a multiple of 8 bytes is not checked. Needs a lower layer that offers src and dst;
offers protocol.
"""

from sluice.lang import (
    PSM,
    Assemble,
    Assign,
    Bit,
    Connectionless,
    If,
    Pred,
    PSMState,
    Sequence,
    UInt,
    layout,
)

NO_HEADER = 255
"""The fragment with offset 0 has not arrived. No header has this number: IANA reserves it."""

UNKNOWN = 0xFFFFFFFF
"""No fragment without more_frag has arrived, so the end of the datagram is unknown."""


class ipv6_fragment_hdr(layout):
    next = Bit(8)
    reserved = Bit(8)
    offset = Bit(13)
    reserved2 = Bit(2)
    more_frag = Bit(1)
    id = UInt(32)


class ipv6_fragment_temp(layout):
    position = Bit(32)


class ipv6_fragment_perm(layout):
    next = Bit(8, init=NO_HEADER)
    last = Bit(13)
    end = Bit(32, init=UNKNOWN)


def ipv6_fragment_parser(policy: str = "first", datagrams: int = 1 << 16) -> Connectionless:
    """`policy`: which copy of bytes in overlapping fragments wins, one of those of `Sequence`. `datagrams`: that may be
    incomplete at once, at most.
    """
    frag = Connectionless("frag")
    frag.header = ipv6_fragment_hdr

    fragment = (frag.header.more_frag == 1) | (frag.header.offset != 0)
    frag.selector = If(fragment) >> [frag.below.src, frag.below.dst, frag.header.id, frag.way]
    frag.lifetime = 60
    frag.max_instances = datagrams

    frag.temp = ipv6_fragment_temp
    frag.perm = ipv6_fragment_perm
    frag.offer(protocol=frag.perm.next)
    first = frag.header.offset == 0
    last = (frag.header.more_frag == 0) & (frag.header.offset != 0)
    frag.prep = (
        Assign(frag.temp.position, frag.header.offset << 3)
        + (If(first & (frag.perm.next == NO_HEADER)) >> Assign(frag.perm.next, frag.header.next))
        + (
            If(last & (frag.perm.end == UNKNOWN))
            >> Assign(frag.perm.last, frag.header.offset) + Assign(frag.perm.end, frag.temp.position + frag.payload_len)
        )
    )
    frag.seq = If(fragment) >> Sequence(
        meta=frag.temp.position,
        data=frag.payload[: frag.perm.end - frag.temp.position],
        whole=True,
        policy=policy,
        limit=1 << 17,
    )

    DUMP = PSMState(start=True, accept=True)
    FRAG = PSMState()
    frag.psm = PSM(DUMP, FRAG)
    frag.psm.dump = (DUMP >> DUMP) + Pred(~fragment)
    frag.psm.frag = (DUMP >> FRAG) + Pred(fragment)
    frag.psm.last = (FRAG >> DUMP) + Pred((frag.v.header.more_frag == 0) & (frag.v.header.offset == frag.perm.last))
    frag.event.asm = If(frag.psm.dump | frag.psm.last) >> Assemble()
    return frag
