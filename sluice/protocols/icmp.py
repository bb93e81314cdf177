"""ICMP for IPv4: RFC 792.

An echo request and its replies are one instance, by identifier; all else is one by addresses, type and code.
`perm` keeps what the first packet said. The packet that an error quotes stays in the payload, unparsed. The
checksum is checked with option `checksums` only. Sits on a layer that offers src and dst.
"""

from sluice.lang import Assign, Bit, ConnectionOriented, If, UInt, internet_checksum, layout

ECHO_REPLY = 0
ECHO_REQUEST = 8


class icmp_hdr(layout):
    type = Bit(8)
    code = Bit(8)
    checksum = Bit(16)


class icmp_echo(layout):
    id = UInt(16)
    number = UInt(16)


class icmp_perm(layout):
    type = Bit(8)
    code = Bit(8)
    id = Bit(16)


def icmp_parser() -> ConnectionOriented:
    icmp = ConnectionOriented("icmp")
    echo = (icmp_hdr.type == ECHO_REPLY) | (icmp_hdr.type == ECHO_REQUEST)
    icmp.header = icmp_hdr + (If(echo) >> icmp_echo)
    icmp.require(internet_checksum(icmp.unit) == 0, "checksum", option="checksums")

    kind = ((icmp.header.type << 8) | icmp.header.code) * ~echo
    icmp.selector = [icmp.below.src, icmp.header.id, kind], [icmp.below.dst, icmp.header.id, kind]
    icmp.timeout = 60

    icmp.perm = icmp_perm
    icmp.prep = If(icmp.created) >> (
        Assign(icmp.perm.type, icmp.header.type)
        + Assign(icmp.perm.code, icmp.header.code)
        + Assign(icmp.perm.id, icmp.header.id)
    )
    return icmp
