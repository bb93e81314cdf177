"""ICMP for IPv4: RFC 792.

An instance is one of:

- the echo requests of one host to another with one identifier, and their replies. The requester is part of the key:
  requests in the opposite direction are another instance, also with the same identifier;
- the errors of one type and code from one host to another about one flow: addresses, protocol, and ports (of TCP, UDP,
  DCCP, SCTP and UDP-Lite, not of a later fragment) or identifier (of an echo) of the quoted packet. A truncated quote
  counts up to the end of its fixed header;
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

ECHO_REPLY = 0
ECHO_REQUEST = 8
ERRORS = (3, 4, 5, 11, 12)  # unreachable, source quench, redirect, time exceeded, parameter problem
WITH_PORTS = (6, 17, 33, 132, 136)


class icmp_hdr(layout):
    type = Bit(8)
    code = Bit(8)
    checksum = Bit(16)


class icmp_echo(layout):
    id = UInt(16)
    number = UInt(16)


class icmp_error(layout):
    unused = Bit(32)
    quoted_version = Bit(4)
    quoted_ihl = Bit(4)
    quoted_before = Bit(40)
    quoted_flags = Bit(3)
    quoted_offset = Bit(13)
    quoted_ttl = Bit(8)
    quoted_protocol = Bit(8)
    quoted_checksum = Bit(16)
    quoted_src = Bit(32)
    quoted_dst = Bit(32)


class icmp_quote(layout):
    quoted_options = Bit((icmp_error.quoted_ihl - 5) << 5)
    quoted_ports = Bit(32)  # or type, code and checksum
    quoted_id = Bit(16)


class icmp_perm(layout):
    type = Bit(8)
    code = Bit(8)
    id = Bit(16)


def icmp_parser() -> ConnectionOriented:
    icmp = ConnectionOriented("icmp")
    echo = (icmp_hdr.type == ECHO_REPLY) | (icmp_hdr.type == ECHO_REQUEST)
    # Lists, because the end of one does not end the others: a quote may be truncated anywhere, and the error counts.
    icmp.header = icmp_hdr + (If(echo) >> icmp_echo)
    wrong = one_of(icmp_hdr.type, *ERRORS) & (icmp.payload_len >= 24)
    icmp.header += If(wrong) >> AnyUntil([icmp_error], icmp.cursor < 28)
    there = icmp.header_contain(icmp_error) & (icmp.payload_len >= 6)
    icmp.header += If(there) >> AnyUntil([icmp_quote], icmp.cursor < (icmp_error.quoted_ihl << 2) + 14)
    icmp.require(internet_checksum(icmp.unit) == 0, "checksum", option="checksums")
    icmp.sdu = If(echo) >> icmp.payload >> Else() >> icmp.unit[4:]

    header = icmp.header
    kind = ((header.type << 8) | header.code) * ~echo
    protocol = header.quoted_protocol
    flow = header.quoted_ports * (one_of(protocol, *WITH_PORTS) & (header.quoted_offset == 0))
    flow += header.quoted_id * ((protocol == 1) & (header.quoted_offset == 0))
    about = [header.id, protocol, kind, header.quoted_src, header.quoted_dst, flow]
    icmp.selector = (
        [icmp.below.src, header.type == ECHO_REQUEST, *about],
        [icmp.below.dst, header.type == ECHO_REPLY, *about],
    )
    icmp.timeout = 60

    icmp.perm = icmp_perm
    icmp.prep = If(icmp.created) >> (
        Assign(icmp.perm.type, icmp.header.type)
        + Assign(icmp.perm.code, icmp.header.code)
        + Assign(icmp.perm.id, icmp.header.id)
    )
    return icmp
