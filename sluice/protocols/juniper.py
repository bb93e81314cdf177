"""Juniper's link types: a magic number, flags, then what an interface card puts in front of a frame or packet.

Ethernet (link type 178; 167 with PPPoE), PPP (179), frame relay (180), Cisco HDLC (181); an EtherType and PPPoE (168,
PPPoE over ATM); a cookie of 4 or 8 bytes and ATM's payload (137, 135), which is LLC, PPP, IP or Ethernet by its first
bytes; a services card's cookie, or none, and multilink PPP or IP (130); a GGSN's (133), a voice card's (183) and a
services card's (136) header of fixed length, and IP. Where the flags say that there is no link header, a number and IP
follow. The numbers are those of the LINKTYPE_ registry (LINKTYPE_JUNIPER_ETHER and so on). Juniper has not published
these headers: they are as tcpdump and Wireshark read them.

Limits: cells of ATM operation are not parsed, nor OSI; multilink frame relay (131, 134) and cards for monitoring and
IPsec have no layer.
"""

from collections.abc import Callable

from sluice.lang import Bit, Connectionless, Expression, If, UInt, layout, one_of

MAGIC = 0x4D4743
EXTENDED = 0x20
LINK_SERVICES, SERVICES = 0x54, (0x40, 0x47)
"""The first byte of a cookie of 4 bytes, and of one of 8."""
GAP_COUNT = 0x3FE
"""Bits of an ATM cookie's first four bytes: not 0 in Ethernet that the router sends."""
PPP_PROTOCOLS = (0x0021, 0x0057, 0x0281, 0x0283, 0x8021, 0x8057, 0xC021, 0xC023, 0xC223, 0x003D)
"""Those by which PPP is recognised: IP, MPLS, their control protocols, LCP, PAP, CHAP, multilink."""

Skip = Callable[[Connectionless], Expression | int]
"""How many bytes a card puts between the flags and the frame."""


class juniper_hdr(layout):
    magic = UInt(24)
    flags = Bit(6)
    no_link_header = Bit(1)
    incoming = Bit(1)


class juniper_extension(layout):
    extension_length = UInt(16)
    extension = Bit(extension_length << 3)


class juniper_type(layout):
    type = UInt(16)


def number_at(parser: Connectionless, at: Expression | int) -> Expression:
    """Two bytes of the payload."""
    return (parser.payload[at] << 8) | parser.payload[at + 1]


def juniper_parser(link_types: tuple[int, ...] = (178, 167), skip: Skip | None = None) -> Connectionless:
    """The link type determines the next layer, or for cards (with `skip`) what the first bytes look like."""
    juniper = Connectionless("juniper", link_types=link_types)
    juniper.header = juniper_hdr + (If((juniper_hdr.flags & EXTENDED) != 0) >> juniper_extension)
    juniper.require(juniper.header.magic == MAGIC, "magic")
    bare, payload = juniper.header.no_link_header, juniper.payload
    juniper.offer(is_bare=bare)
    begins = bare << 2
    if skip is not None:
        begins += (bare == 0) * skip(juniper)
        first, number = payload[begins], number_at(juniper, begins)
        juniper.offer(
            is_ip=((first > 0x44) & (first < 0x50)) | ((first & 0xF0) == 0x60),
            is_ppp=one_of(number, 0xFF03, *PPP_PROTOCOLS),
            is_llc=one_of(number, 0xAAAA, 0xFEFE) & (payload[begins + 2] == 3),
        )
    juniper.sdu = payload[begins:]
    return juniper


def fixed(size: int) -> Skip:
    """A header of this many bytes."""
    return lambda juniper: size


def juniper_atm2_parser() -> Connectionless:
    juniper = juniper_parser((135,), fixed(8))
    gap = number_at(juniper, 2) & GAP_COUNT
    juniper.offer(is_ethernet=(juniper.header.incoming == 0) & (gap != 0))
    return juniper


def juniper_multilink_parser() -> Connectionless:
    """A cookie of 4 or 8 bytes by its first one; else two bytes of a bundle's number, if PPP follows them."""

    def cookie(juniper: Connectionless) -> Expression:
        first = juniper.payload[0]
        small, large = first == LINK_SERVICES, one_of(first, *SERVICES)
        bundle = one_of(number_at(juniper, 2), 0xFF03, *PPP_PROTOCOLS)
        return (small << 2) + (large << 3) + ((bundle & ~small & ~large) << 1)

    return juniper_parser((130,), cookie)


def juniper_services_parser() -> Connectionless:
    return juniper_parser((136,), lambda juniper: 12 + (juniper.header.incoming << 2))


def juniper_pppoe_parser() -> Connectionless:
    juniper = juniper_parser((168,))
    juniper.header += If(juniper_hdr.no_link_header == 0) >> juniper_type
    juniper.offer(ethertype=juniper.header.type)
    return juniper
