"""UDP: RFC 768, over IPv4 and IPv6.

The payload ends where the UDP length or the IP length says, whichever comes first; UDP length 0 (a jumbogram,
or segmentation offload) means what IP says; 1 to 7 is malformed. With option `checksums` a checksum other
than 0 is checked (0: none was sent; over IPv6 too, RFC 6935). Sits on a layer that offers src and dst.
"""

from sluice.lang import ConnectionOriented, Else, If, UInt, internet_checksum, layout

PROTOCOL = 17


class udp_hdr(layout):
    sport = UInt(16)
    dport = UInt(16)
    length = UInt(16)
    checksum = UInt(16)


def udp_parser() -> ConnectionOriented:
    udp = ConnectionOriented("udp")
    udp.header = udp_hdr
    length = udp.header.length
    udp.require((length == 0) | (length >= 8), "length")
    udp.sdu = If(length == 0) >> udp.payload >> Else() >> udp.payload[: length - 8]
    udp.selector = [udp.below.src, udp.header.sport], [udp.below.dst, udp.header.dport]
    udp.timeout = 60

    said = length + udp.unit.length * (length == 0)
    checksum = internet_checksum(udp.unit[:said], udp.below.src, udp.below.dst, PROTOCOL, said)
    udp.require((udp.header.checksum == 0) | (checksum == 0), "checksum", option="checksums")
    return udp
