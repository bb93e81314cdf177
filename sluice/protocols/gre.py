"""GRE: version 0 (RFC 2784 and 2890, source routes of RFC 1701), and version 1, which carries PPP for PPTP (RFC 2637).

`protocol` is an EtherType: 0x6558 Ethernet, 0x880b PPP, 0x88be and 0x22eb ERSPAN. A source route is a list of entries
that ends with an empty one. In version 1 the length ends the payload, and a packet without a sequence number is an
acknowledgement without payload. Offers tunnel: the key of version 0, the call of version 1. Limits: the checksum is
verified only with option `checksums`; source routes are not followed.
"""

from sluice.lang import AnyUntil, Bit, Connectionless, Else, If, UInt, internet_checksum, layout

PPTP = 1


class gre_hdr(layout):
    C = Bit(1)
    R = Bit(1)
    K = Bit(1)
    S = Bit(1)
    strict = Bit(1)
    recursion = Bit(3)
    A = Bit(1)
    flags = Bit(4)
    version = Bit(3)
    protocol = UInt(16)


class gre_checksum(layout):
    checksum = UInt(16)
    offset = UInt(16)


class gre_key(layout):
    key = UInt(32)


class gre_call(layout):
    payload_length = UInt(16)
    call = UInt(16)


class gre_sequence(layout):
    sequence_number = UInt(32)


class gre_acknowledgement(layout):
    acknowledgement = UInt(32)


class gre_route(layout):
    route_family = UInt(16)
    route_offset = Bit(8)
    route_length = Bit(8)
    route = Bit(route_length << 3)


def gre_parser() -> Connectionless:
    gre = Connectionless("gre")
    pptp = gre_hdr.version == PPTP
    routed = gre_hdr.R & ~pptp
    gre.header = gre_hdr + (If((gre_hdr.C | gre_hdr.R) & ~pptp) >> gre_checksum)
    gre.header += If(gre_hdr.K & ~pptp) >> gre_key
    gre.header += If(pptp) >> gre_call
    gre.header += If(gre_hdr.S) >> gre_sequence
    gre.header += If(gre_hdr.A & pptp) >> gre_acknowledgement
    first = ~gre.header_contain(gre_route)
    gre.header += If(routed) >> AnyUntil([gre_route], first | (gre_route.route_length != 0))
    gre.require(gre.header.version <= PPTP, "version")
    ended = gre.header_contain(gre_route) & (gre_route.route_length == 0)
    gre.require(~routed | ended, "source route")
    sums = internet_checksum(gre.unit) == 0
    gre.require(~gre_hdr.C | pptp | sums, "checksum", option="checksums")
    gre.offer(tunnel=gre.header.key | gre.header.call)
    gre.offer(ethertype=gre.header.protocol * (gre.header.version == 0))
    gre.sdu = If(gre.header.version == PPTP) >> gre.payload[: gre.header.payload_length] >> Else() >> gre.payload
    return gre
