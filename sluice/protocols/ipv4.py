"""IPv4: RFC 791, with options (as bytes) and reassembly of fragments.

A total length of 0 (segmentation offload) means the whole frame; one beyond the frame is reduced to the frame. Only
fragments have instances; a complete datagram is delivered to the next layer. The path of layers is part of the key:
copies inside and outside a tunnel are separate datagrams. Of overlapping fragments the first to arrive wins, or as
`policy` says; the first one without more_frag determines the datagram's end. An incomplete datagram is discarded 30 s
after its last fragment. Limits: a datagram of at most 128 KiB, and 65,536 incomplete ones (`datagrams`); options are
not parsed; the header checksum is verified only with option `checksums`. Offers src, dst, protocol.

At that bound, as at that of any table, an instance that would soon time out is evicted: a flood of 2,200 fragments per
second, none of which completes a datagram, can evict good datagrams whose fragments are far apart. A larger bound
avoids this, but then each fragment costs more, as less of the held data is in the cache.
"""

from sluice.lang import (
    PSM,
    AnyUntil,
    Assemble,
    Assign,
    Bit,
    Connectionless,
    If,
    Pred,
    PSMState,
    Sequence,
    UInt,
    internet_checksum,
    layout,
)

UNKNOWN = 0xFFFFFFFF
"""No fragment without more_frag has arrived, so the end of the datagram is unknown."""


class ipv4_hdr(layout):
    version = Bit(4)
    ihl = Bit(4)
    tos = Bit(8)
    total_length = UInt(16)
    id = UInt(16)
    reserved = Bit(1)
    dont_frag = Bit(1)
    more_frag = Bit(1)
    offset = Bit(13)
    ttl = Bit(8)
    protocol = Bit(8)
    checksum = Bit(16)
    src = Bit(32)
    dst = Bit(32)


class ipv4_end(layout):
    end_of_options = Bit(8, const=0)


class ipv4_no_operation(layout):
    no_operation = Bit(8, const=1)


class ipv4_loose_route(layout):
    loose_type = Bit(8, const=131)
    loose_size = Bit(8)
    loose_pointer = Bit(8)
    loose_passed = Bit((loose_size - 7) << 3)
    loose_last = Bit(32)


class ipv4_strict_route(layout):
    strict_type = Bit(8, const=137)
    strict_size = Bit(8)
    strict_pointer = Bit(8)
    strict_passed = Bit((strict_size - 7) << 3)
    strict_last = Bit(32)


class ipv4_option(layout):
    option = Bit(8)
    option_size = Bit(8)
    option_data = Bit((option_size - 2) << 3)


class ipv4_temp(layout):
    position = Bit(32)
    length = Bit(32)


class ipv4_perm(layout):
    last = Bit(13)
    end = Bit(32, init=UNKNOWN)


def ipv4_parser(
    policy: str = "first",
    datagrams: int = 1 << 16,
) -> Connectionless:
    """`policy`: which copy of bytes in overlapping fragments wins, one of those of `Sequence`. `datagrams`: that may be
    incomplete at once, at most.
    """
    ip = Connectionless("ipv4")
    header_length = ipv4_hdr.ihl << 2
    options = AnyUntil(
        [ipv4_end, ipv4_no_operation, ipv4_loose_route, ipv4_strict_route, ipv4_option],
        ~ip.header_contain(ipv4_end),
        end=header_length,
    )
    ip.header = ipv4_hdr + (If(ipv4_hdr.ihl > 5) >> options)
    ip.require(ip.header.version == 4, "version")
    ip.require(ip.header.ihl >= 5, "header length")
    ip.require((ip.header.total_length == 0) | (ip.header.total_length >= header_length), "total length")
    ip.require(internet_checksum(ip.unit[:header_length]) == 0, "checksum", option="checksums")
    # RFC 791, 3.1: with hops of the route left, the destination of the datagram is the route's last address.
    loose = ip.header.loose_pointer * (ip.header.loose_pointer < ip.header.loose_size)
    strict = ip.header.strict_pointer * (ip.header.strict_pointer < ip.header.strict_size)
    end = ip.header.loose_last * (loose >= 4) | ip.header.strict_last * (loose < 4)
    dst = ip.header.dst ^ (ip.header.dst ^ end) * ((loose | strict) >= 4)
    ip.offer(src=ip.header.src, dst=dst, protocol=ip.header.protocol)

    fragment = (ip.header.more_frag == 1) | (ip.header.offset != 0)
    ip.selector = If(fragment) >> [ip.header.src, dst, ip.header.protocol, ip.header.id, ip.way]
    ip.lifetime = 60
    ip.max_instances = datagrams

    ip.temp = ipv4_temp
    ip.perm = ipv4_perm
    last = (ip.header.more_frag == 0) & (ip.header.offset != 0)
    ip.prep = Assign(ip.temp.position, ip.header.offset << 3)
    ip.prep += Assign(ip.temp.length, ip.header.total_length - header_length)
    ip.prep += If(ip.header.total_length == 0) >> Assign(ip.temp.length, ip.payload_len)
    ends = Assign(ip.perm.last, ip.header.offset)
    ends += Assign(ip.perm.end, ip.temp.position + ip.payload[: ip.temp.length].length)
    ip.prep += If(last & (ip.perm.end == UNKNOWN)) >> ends
    ip.sdu = ip.payload[: ip.temp.length]
    ip.seq = If(fragment) >> Sequence(
        meta=ip.temp.position,
        data=ip.sdu[: ip.perm.end - ip.temp.position],
        whole=True,
        policy=policy,
        limit=1 << 17,
    )

    DUMP = PSMState(start=True, accept=True)
    FRAG = PSMState()
    ip.psm = PSM(DUMP, FRAG)
    ip.psm.dump = (DUMP >> DUMP) + Pred(~fragment)
    ip.psm.frag = (DUMP >> FRAG) + Pred(fragment)
    ip.psm.last = (FRAG >> DUMP) + Pred((ip.v.header.more_frag == 0) & (ip.v.header.offset == ip.perm.last))
    ip.event.asm = If(ip.psm.dump | ip.psm.last) >> Assemble()
    return ip
