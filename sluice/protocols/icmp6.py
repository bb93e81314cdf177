"""ICMPv6: RFC 4443; neighbour discovery, MLD and the like are types of it.

An instance is one of:

- the echo requests of one host to another with one identifier, and their replies. The requester is part of the key:
  requests in the opposite direction are another instance, also with the same identifier;
- the errors of one type and code from one host to another about one flow: addresses, protocol, and ports (of TCP, UDP,
  DCCP, SCTP and UDP-Lite) or identifier (of an echo) of the quoted packet. Ports after an extension header are not
  parsed; a truncated quote counts up to the end of its fixed header;
- all other messages between two hosts, by type and code.

`perm` holds the fields of the first packet. The payload begins after the first four bytes, of an echo after the first
eight; the quoted packet is part of it. The checksum is verified only with option `checksums`. Needs a lower layer that
offers src and dst. Limits: of types other than echoes and errors only the first four bytes are parsed.
"""

from sluice.lang import (
    AnyUntil,
    Assign,
    Bit,
    ConnectionOriented,
    Else,
    If,
    UInt,
    internet_checksum,
    layout,
    one_of,
)

PROTOCOL = 58
ECHO_REQUEST = 128
ECHO_REPLY = 129
WITH_PORTS = (6, 17, 33, 132, 136)


class icmp6_hdr(layout):
    type = Bit(8)
    code = Bit(8)
    checksum = Bit(16)


class icmp6_echo(layout):
    id = UInt(16)
    number = UInt(16)


class icmp6_error(layout):
    unused = Bit(32)
    quoted_before = Bit(48)  # version to payload length
    quoted_next = Bit(8)
    quoted_hop_limit = Bit(8)
    quoted_src = Bit(128)
    quoted_dst = Bit(128)


class icmp6_quote(layout):
    quoted_ports = Bit(32)  # or type, code and checksum
    quoted_id = Bit(16)


class icmp6_perm(layout):
    type = Bit(8)
    code = Bit(8)
    id = Bit(16)


def icmp6_parser() -> ConnectionOriented:
    icmp = ConnectionOriented("icmp6")
    echo = (icmp6_hdr.type == ECHO_REQUEST) | (icmp6_hdr.type == ECHO_REPLY)
    # Lists, because the end of one does not end the others: a quote may be truncated anywhere, and the error counts.
    icmp.header = icmp6_hdr + (If(echo) >> icmp6_echo)
    icmp.header += If((icmp6_hdr.type < 128) & (icmp.payload_len >= 44)) >> AnyUntil([icmp6_error], icmp.cursor < 48)
    there = icmp.header_contain(icmp6_error) & (icmp.payload_len >= 6)
    icmp.header += If(there) >> AnyUntil([icmp6_quote], icmp.cursor < 54)
    checksum = internet_checksum(icmp.unit, icmp.below.src, icmp.below.dst, PROTOCOL, icmp.unit.length)
    icmp.require(checksum == 0, "checksum", option="checksums")

    icmp.sdu = If(echo) >> icmp.payload >> Else() >> icmp.unit[4:]

    header = icmp.header
    kind = ((header.type << 8) | header.code) * ~echo
    flow = header.quoted_ports * one_of(header.quoted_next, *WITH_PORTS)
    flow += header.quoted_id * (header.quoted_next == PROTOCOL)
    about = [header.id, header.quoted_next, kind, header.quoted_src, header.quoted_dst, flow]
    icmp.selector = (
        [icmp.below.src, header.type == ECHO_REQUEST, *about],
        [icmp.below.dst, header.type == ECHO_REPLY, *about],
    )
    icmp.timeout = 60

    icmp.perm = icmp6_perm
    icmp.prep = If(icmp.created) >> (
        Assign(icmp.perm.type, icmp.header.type)
        + Assign(icmp.perm.code, icmp.header.code)
        + Assign(icmp.perm.id, icmp.header.id)
    )
    return icmp
