"""IPv6 extension headers of the common form (RFC 6564): next header, length, and what is in it as bytes.

Serves hop-by-hop options (0), routing (43), destination options (60; all RFC 8200), mobility (135, RFC 6275),
HIP (139, RFC 7401), shim6 (140, RFC 5533), and experiments (253, 254, RFC 4727), in any order. Limits: options are not
parsed, so neither a jumbogram's length nor the final destination of a routing header is known. Offers protocol.
"""

from sluice.lang import Bit, Connectionless, layout

EXTENSIONS = (0, 43, 60, 135, 139, 140, 253, 254)
"""Numbers of the next header that lead here."""


class ipv6_extension_hdr(layout):
    next = Bit(8)
    length = Bit(8)
    body = Bit((length << 6) + 48)


def ipv6_extension_parser() -> Connectionless:
    ext = Connectionless("ext")
    ext.header = ipv6_extension_hdr
    ext.offer(protocol=ext.header.next)
    return ext
