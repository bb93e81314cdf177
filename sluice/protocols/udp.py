"""UDP: RFC 768, over IPv4 and IPv6.

The payload ends at the UDP length or the IP length, whichever is less. UDP length 0 (a jumbogram, or
segmentation offload) means the IP length; 1 to 7 is malformed. Limits: the checksum is verified only with option
`checksums`, and not if it is 0 (none was sent; over IPv6 too, RFC 6935). Needs a lower layer that offers src and
dst.

`plain_udp_parser` makes a parser without conversations and checksums: header and payload only, over any layer.
"""

from typing import TypeVar

from sluice.lang import Connectionless, ConnectionOriented, Else, If, UInt, internet_checksum, layout

Parser = TypeVar("Parser", Connectionless, ConnectionOriented)

PROTOCOL = 17


class udp_hdr(layout):
    sport = UInt(16)
    dport = UInt(16)
    length = UInt(16)
    checksum = UInt(16)


def datagram(udp: Parser) -> Parser:
    """Header and payload."""
    udp.header = udp_hdr
    length = udp.header.length
    udp.require((length == 0) | (length >= 8), "length")
    udp.sdu = If(length == 0) >> udp.payload >> Else() >> udp.payload[: length - 8]
    return udp


def plain_udp_parser() -> Connectionless:
    return datagram(Connectionless("udp"))


def udp_parser() -> ConnectionOriented:
    udp = datagram(ConnectionOriented("udp"))
    length = udp.header.length
    udp.needs_captured = 4  # the ports
    udp.selector = [udp.below.src, udp.header.sport], [udp.below.dst, udp.header.dport]
    udp.timeout = 60
    udp.costly = True
    udp.offer(sport=udp.header.sport, dport=udp.header.dport)
    udp.offer(connection=udp.instance, direction=udp.to_active)

    said = length + udp.unit.length * (length == 0)
    checksum = internet_checksum(udp.unit[:said], udp.below.src, udp.below.dst, PROTOCOL, said)
    udp.require((udp.header.checksum == 0) | (checksum == 0), "checksum", option="checksums")
    return udp
