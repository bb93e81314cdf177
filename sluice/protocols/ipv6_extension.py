"""IPv6 extension headers of the common form (RFC 6564): next header, length, and the content as bytes.

For hop-by-hop options (0), routing (43), destination options (60; all RFC 8200), mobility (135, RFC 6275), HIP (139,
RFC 7401), shim6 (140, RFC 5533), and experiments (253, 254, RFC 4727), in any order. If the payload length of IPv6 is
0, hop-by-hop options are parsed: the option of a jumbogram (RFC 2675) determines its end, and is malformed below
65,536 bytes. Home addresses (RFC 6275) and the final destination of routing headers are parsed. Limits: other options
are not; of a header, 71 options are read, as many as a host accepts that refuses more than 8 besides padding, or more
than 7 bytes of padding in a row (RFC 8504, 5.3), and more are counted as `list too long`. Offers protocol.
"""

from sluice.lang import AnyUntil, Bit, Connectionless, Else, If, UInt, layout

EXTENSIONS = (0, 43, 60, 135, 139, 140, 253, 254)
"""Numbers of the next header for these headers."""


HOP_BY_HOP, ROUTING, DESTINATION = 0, 43, 60
OPTIONS = 71
"""Options of a header that are read, with padding: 8 others, and 7 bytes of padding before each and at the end."""
LONGEST_WITHOUT = 65535
"""The longest payload without a jumbogram, in bytes."""


class ipv6_extension_hdr(layout):
    next = Bit(8)
    length = Bit(8)


class ipv6_extension_body(layout):
    body = Bit((ipv6_extension_hdr.length << 6) + 48)


class ipv6_pad1(layout):
    pad1 = Bit(8, const=0)


class ipv6_jumbo(layout):
    jumbo = Bit(8, const=0xC2)
    jumbo_size = Bit(8, const=4)
    jumbo_length = UInt(32)  # after the header of IPv6


class ipv6_home(layout):
    home_type = Bit(8, const=0xC9)
    home_size = Bit(8, const=16)
    home_address = Bit(128)


class ipv6_routing(layout):
    routing_type = Bit(8)
    segments_left = Bit(8)
    last_entry = Bit(8)  # of type 4: the number of the last segment, from 0
    routing_rest = Bit(24)


AFTER_FINAL = ((ipv6_extension_hdr.length << 6) - 128) * (ipv6_routing.routing_type != 0)
"""Bits after the final destination: type 0 has it at its end, types 2 and 4 at their beginning."""


class ipv6_route(layout):
    before_final = Bit((ipv6_extension_hdr.length << 6) - 128 - AFTER_FINAL)
    final = Bit(128)
    after_final = Bit(AFTER_FINAL)


class ipv6_option(layout):
    option = Bit(8)
    option_size = Bit(8)
    option_data = Bit(option_size << 3)


def ipv6_extension_parser() -> Connectionless:
    ext = Connectionless("ext")
    hop_by_hop = ext.below.unmeasured & (ext.below.protocol == HOP_BY_HOP)
    end = (ipv6_extension_hdr.length << 3) + 8
    options = AnyUntil([ipv6_pad1, ipv6_jumbo, ipv6_home, ipv6_option], end=end, limit=OPTIONS)
    routed = ipv6_routing + (If(ipv6_extension_hdr.length >= 2) >> ipv6_route)
    routed = If((ext.below.protocol == ROUTING) & (ipv6_extension_hdr.length >= 2)) >> routed
    listed = If(hop_by_hop | (ext.below.protocol == DESTINATION)) >> options
    ext.header = ipv6_extension_hdr + (listed >> Else() >> (routed >> Else() >> ipv6_extension_body))
    jumbogram = ext.header_contain(ipv6_jumbo) & hop_by_hop
    length = ext.header.jumbo_length
    ext.require(~jumbogram | (length > LONGEST_WITHOUT), "jumbo")
    ext.sdu = If(jumbogram) >> ext.payload[: length - ext.cursor] >> Else() >> ext.payload
    ext.offer(protocol=ext.header.next)

    kind, left, addresses = ext.header.routing_type, ext.header.segments_left, ext.header.length >> 1
    segments = ext.header.last_entry + 1
    follows = (kind == 0) & (left <= addresses) & ((ext.header.length & 1) == 0)
    follows = follows | ((kind == 2) & (left == 1) & (addresses == 1))
    follows = follows | ((kind == 4) & (left <= segments) & (segments <= addresses))
    ext.offer(dst=If(ext.header_contain(ipv6_route) & (left != 0) & follows) >> ext.header.final)
    ext.offer(src=If(ext.header_contain(ipv6_home)) >> ext.header.home_address)
    return ext
