"""PPP's negotiation: LCP (RFC 1661), PAP (1334), CHAP (1994), IPCP (1332), IPV6CP (5072), CCP (1962).

Each packet is a code, an identifier, a length, and data. Codes 1 to 4 (Configure-Request, -Ack, -Nak, -Reject) have
options; the most common ones of LCP, IPCP and IPV6CP are fields. Event `control` is emitted for every packet. The
length ends the packet; a length below 4 or beyond the captured data is malformed.

Limits: PPP accepts compressed fields whether or not options 7 and 8 of LCP were negotiated, because a capture may
begin after the negotiation (ppp.py).
"""

from sluice.lang import AnyUntil, Assign, Bit, Callback, Connectionless, If, UInt, layout, one_of

CONFIGURE = (1, 2, 3, 4)  # request, acknowledgement, no (another value), rejection
LCP, PAP, CHAP, IPCP, IPV6CP, CCP = 0xC021, 0xC023, 0xC223, 0x8021, 0x8057, 0x80FD


class ppp_control_hdr(layout):
    code = Bit(8)
    id = Bit(8)
    length = UInt(16)


class lcp_mru(layout):
    mru_type = Bit(8, const=1)
    mru_length = Bit(8, const=4)
    mru = UInt(16)


class lcp_accm(layout):
    accm_type = Bit(8, const=2)
    accm_length = Bit(8, const=6)
    accm = UInt(32)


class lcp_authentication(layout):
    authentication_type = Bit(8, const=3)
    authentication_length = Bit(8)
    authentication = UInt(16)
    authentication_data = Bit((authentication_length - 4) << 3)


class lcp_magic(layout):
    magic_type = Bit(8, const=5)
    magic_length = Bit(8, const=6)
    magic = UInt(32)


class lcp_protocol_compression(layout):
    protocol_compression = Bit(8, const=7)
    protocol_compression_length = Bit(8, const=2)


class lcp_address_compression(layout):
    address_compression = Bit(8, const=8)
    address_compression_length = Bit(8, const=2)


class ipcp_compression(layout):
    compression_type = Bit(8, const=2)
    compression_length = Bit(8)
    compression = UInt(16)
    compression_data = Bit((compression_length - 4) << 3)


class ipcp_address(layout):
    address_type = Bit(8, const=3)
    address_length = Bit(8, const=6)
    address = Bit(32)


class ipv6cp_identifier(layout):
    identifier_type = Bit(8, const=1)
    identifier_length = Bit(8, const=10)
    identifier = Bit(64)


class other_option(layout):
    option_type = Bit(8)
    option_length = Bit(8)
    option_data = Bit((option_length - 2) << 3)


class pap_request(layout):
    peer_length = Bit(8)
    peer = Bit(peer_length << 3)
    password_length = Bit(8)
    password = Bit(password_length << 3)


class chap_value(layout):
    value_length = Bit(8)
    value = Bit(value_length << 3)


class ppp_control(layout):
    code = Bit(8)
    id = Bit(8)


def negotiated(name: str) -> Connectionless:
    """Code, identifier and length."""
    parser = Connectionless(name)
    parser.header = ppp_control_hdr
    length = parser.header.length
    parser.require((length >= 4) & (length <= parser.unit.length), "length")
    parser.sdu = parser.unit[parser.cursor : length]
    parser.event.control = (
        Assign(ppp_control.code, parser.header.code) + Assign(ppp_control.id, parser.header.id) + Callback(ppp_control)
    )
    return parser


OPTIONS = 64
"""Options of a packet that are read: twice as many as the protocol with the largest number has. More are counted as
`list too long`.
"""


def configuring(name: str, *options: type[layout]) -> Connectionless:
    """The same, with options in the packets that configure."""
    parser = negotiated(name)
    end = ppp_control_hdr.length
    rest = AnyUntil([*options, other_option], parser.cursor < end, end=end, limit=OPTIONS)
    parser.header += If(one_of(ppp_control_hdr.code, *CONFIGURE) & (ppp_control_hdr.length > 4)) >> rest
    return parser


def lcp_parser() -> Connectionless:
    return configuring(
        "lcp",
        lcp_mru,
        lcp_accm,
        lcp_authentication,
        lcp_magic,
        lcp_protocol_compression,
        lcp_address_compression,
    )


def ipcp_parser() -> Connectionless:
    return configuring("ipcp", ipcp_compression, ipcp_address)


def ipv6cp_parser() -> Connectionless:
    return configuring("ipv6cp", ipv6cp_identifier)


def ccp_parser() -> Connectionless:
    return configuring("ccp")


def pap_parser() -> Connectionless:
    pap = negotiated("pap")
    pap.header += If(ppp_control_hdr.code == 1) >> pap_request
    return pap


def chap_parser() -> Connectionless:
    chap = negotiated("chap")
    chap.header += If(one_of(ppp_control_hdr.code, 1, 2)) >> chap_value
    return chap
