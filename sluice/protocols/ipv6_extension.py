"""IPv6 extension headers of the common form (RFC 6564): next header, length, and what is in it as bytes.

Serves hop-by-hop options (0), routing (43), destination options (60; all RFC 8200), mobility (135, RFC 6275),
HIP (139, RFC 7401), shim6 (140, RFC 5533), and experiments (253, 254, RFC 4727), in any order. Where the payload length
of IPv6 is 0, hop-by-hop options are read: a jumbogram (RFC 2675) ends where its option says, which is malformed below
65,536 bytes. Limits: other options are not read, nor is the final destination of a routing header. Offers protocol.
"""

from sluice.lang import AnyUntil, Bit, Connectionless, Else, If, UInt, layout

EXTENSIONS = (0, 43, 60, 135, 139, 140, 253, 254)
"""Numbers of the next header that lead here."""


HOP_BY_HOP = 0
LONGEST_WITHOUT = 65535
"""Bytes of payload that need no jumbogram."""


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
    jumbo_length = UInt(32)  # behind the header of IPv6


class ipv6_option(layout):
    option = Bit(8)
    option_size = Bit(8)
    option_data = Bit(option_size << 3)


def ipv6_extension_parser() -> Connectionless:
    ext = Connectionless("ext")
    hop_by_hop = ext.below.unmeasured & (ext.below.protocol == HOP_BY_HOP)
    end = (ipv6_extension_hdr.length << 3) + 8
    options = AnyUntil([ipv6_pad1, ipv6_jumbo, ipv6_option], end=end)
    ext.header = ipv6_extension_hdr + (If(hop_by_hop) >> options >> Else() >> ipv6_extension_body)
    jumbogram = ext.header_contain(ipv6_jumbo)
    length = ext.header.jumbo_length
    ext.require(~jumbogram | (length > LONGEST_WITHOUT), "jumbo")
    ext.sdu = If(jumbogram) >> ext.payload[: length - ext.cursor] >> Else() >> ext.payload
    ext.offer(protocol=ext.header.next)
    return ext
