"""ICMPv6: RFC 4443; neighbour discovery, MLD and the like are types of it.

An echo request and its replies are one instance, by identifier; all else is one by addresses, type and code.
`perm` keeps what the first packet said. The packet that an error quotes stays in the payload, unparsed. The
checksum is checked with option `checksums` only. Sits on a layer that offers src and dst.
"""

from sluice.lang import Assign, Bit, ConnectionOriented, If, UInt, internet_checksum, layout

PROTOCOL = 58
ECHO_REQUEST = 128
ECHO_REPLY = 129


class icmp6_hdr(layout):
    type = Bit(8)
    code = Bit(8)
    checksum = Bit(16)


class icmp6_echo(layout):
    id = UInt(16)
    number = UInt(16)


class icmp6_perm(layout):
    type = Bit(8)
    code = Bit(8)
    id = Bit(16)


def icmp6_parser() -> ConnectionOriented:
    icmp = ConnectionOriented("icmp6")
    echo = (icmp6_hdr.type == ECHO_REQUEST) | (icmp6_hdr.type == ECHO_REPLY)
    icmp.header = icmp6_hdr + (If(echo) >> icmp6_echo)
    checksum = internet_checksum(icmp.unit, icmp.below.src, icmp.below.dst, PROTOCOL, icmp.unit.length)
    icmp.require(checksum == 0, "checksum", option="checksums")

    kind = ((icmp.header.type << 8) | icmp.header.code) * ~echo
    icmp.selector = [icmp.below.src, icmp.header.id, kind], [icmp.below.dst, icmp.header.id, kind]
    icmp.timeout = 60

    icmp.perm = icmp6_perm
    icmp.prep = If(icmp.created) >> (
        Assign(icmp.perm.type, icmp.header.type)
        + Assign(icmp.perm.code, icmp.header.code)
        + Assign(icmp.perm.id, icmp.header.id)
    )
    return icmp
