"""GTP version 1, user plane: 3GPP TS 29.281, over UDP port 2152.

A T-PDU (message type 255) carries a packet of the user. The four optional bytes are present when any of the flags E,
S and PN is set; extension headers follow when E is set. The length ends the payload. Offers tunnel (the TEID).

The type of an extension header is the last byte of the preceding header. The parser takes it as the first byte of the
header that it identifies, so that a type, a length and a content are adjacent; type 0 ends the list. The two high
bits of a type are the comprehension required (5.2.1): 2 of the receiver at the tunnel's end, 3 of every node. A
header of an unknown type is skipped by its length, `comprehension` has its two bits, and the payload is parsed all
the same: a monitor cannot know which types the receiver supports, and must not lose data that the ends may have
exchanged.

Limits: in a PDU Session Container (TS 38.415) times, delays and numbers are bytes (`session_rest`), and so are the
contents of RAN containers (TS 36.425, 38.425) except the type of NR's; version 1 and protocol type 1 only (no GTP').
"""

from sluice.lang import AnyUntil, Bit, Connectionless, Else, If, UInt, layout

BEFORE_LENGTH_COUNTS = 8
"""Bytes of the header that its length does not count."""


class gtp_hdr(layout):
    version = Bit(3)
    PT = Bit(1)
    spare = Bit(1)
    E = Bit(1)
    S = Bit(1)
    PN = Bit(1)
    MT = Bit(8)
    length = UInt(16)
    TEID = UInt(32)


class gtp_optional(layout):
    sequence_number = UInt(16)
    npdu_number = Bit(8)


class gtp_unused(layout):
    unused = Bit(8)


class gtp_last(layout):
    no_more = Bit(8, const=0)


class gtp_service_class(layout):
    service_class_type = Bit(8, const=0x20)
    service_class_words = Bit(8)  # of 4 bytes, this one and the next header's type included
    service_class = Bit(8)
    service_class_rest = Bit((service_class_words << 5) - 24)


class gtp_udp_port(layout):
    udp_port_type = Bit(8, const=0x40)
    udp_port_words = Bit(8)
    udp_port = UInt(16)
    udp_port_rest = Bit((udp_port_words << 5) - 32)


class gtp_ran(layout):
    ran_type = Bit(8, const=0x81)
    ran_words = Bit(8)
    ran_container = Bit((ran_words << 5) - 16)


class gtp_long_pdcp(layout):
    long_pdcp_type = Bit(8, const=0x82)


class gtp_long_pdcp_optional(layout):
    long_pdcp_optional_type = Bit(8, const=0x03)


class gtp_long_pdcp_number(layout):
    long_pdcp_words = Bit(8)
    long_pdcp_spare = Bit(6)
    long_pdcp_number = UInt(18)
    long_pdcp_rest = Bit((long_pdcp_words << 5) - 40)


class gtp_xw_ran(layout):
    xw_ran_type = Bit(8, const=0x83)
    xw_ran_words = Bit(8)
    xw_ran_container = Bit((xw_ran_words << 5) - 16)


class gtp_nr_ran(layout):
    nr_ran_type = Bit(8, const=0x84)
    nr_ran_words = Bit(8)
    nr_pdu_type = Bit(4)
    nr_flags = Bit(4)
    nr_rest = Bit((nr_ran_words << 5) - 24)


class gtp_pdu_session(layout):
    session_type = Bit(8, const=0x85)
    session_words = Bit(8)
    session_pdu_type = Bit(4)  # 0: to the user, 1: from the user
    QMP = Bit(1)
    session_flags = Bit(3)
    PPP = Bit(1)  # to the user; else N3/N9 delay indicator
    RQI = Bit(1)  # to the user; else new IE flag
    QFI = Bit(6)


class gtp_paging_policy(layout):
    PPI = Bit(3)
    paging_spare = Bit(5)


PAGING = gtp_pdu_session.PPP & (gtp_pdu_session.session_pdu_type == 0)
"""Whether a paging policy follows."""


class gtp_session_rest(layout):
    session_rest = Bit((gtp_pdu_session.session_words << 5) - 32 - (PAGING << 3))


class gtp_pdcp(layout):
    pdcp_type = Bit(8, const=0xC0)
    pdcp_words = Bit(8)
    pdcp_number = UInt(16)
    pdcp_rest = Bit((pdcp_words << 5) - 32)


class gtp_extension(layout):
    comprehension = Bit(2)  # 2: required of the receiver, 3: of every node
    extension_type = Bit(6)
    extension_words = Bit(8)
    extension_content = Bit((extension_words << 5) - 16)


EXTENSIONS = 32
"""Extension headers that a header has at most; one with more is malformed."""


def gtp_parser() -> Connectionless:
    gtp = Connectionless("gtp")
    gtp.header = gtp_hdr
    gtp.header += If(gtp_hdr.E | gtp_hdr.S | gtp_hdr.PN) >> gtp_optional
    extensions = AnyUntil(
        [
            gtp_last,
            gtp_service_class,
            gtp_udp_port,
            gtp_ran,
            gtp_long_pdcp + gtp_long_pdcp_number,
            gtp_long_pdcp_optional + gtp_long_pdcp_number,
            gtp_xw_ran,
            gtp_nr_ran,
            gtp_pdu_session + (If(PAGING) >> gtp_paging_policy) + gtp_session_rest,
            gtp_pdcp,
            gtp_extension,
        ],
        ~gtp.header_contain(gtp_last),
        limit=EXTENSIONS,
    )
    gtp.header += If(gtp_hdr.E) >> extensions >> Else() >> If(gtp_hdr.S | gtp_hdr.PN) >> gtp_unused

    gtp.require((gtp.header.version == 1) & (gtp.header.PT == 1), "version")
    gtp.require(~gtp.header.E | gtp.header_contain(gtp_last), "extension header")
    end = gtp.header.length + BEFORE_LENGTH_COUNTS
    gtp.require(end >= gtp.cursor, "length")
    gtp.sdu = gtp.unit[gtp.cursor : end]
    gtp.offer(tunnel=gtp.header.TEID)
    return gtp


class pdu_hdr(layout):
    version = Bit(4)
    rest = Bit(4)


def pdu_parser() -> Connectionless:
    """The payload of a T-PDU. GTP does not identify it: IP by its first four bits, else Ethernet, which sessions of 5G
    and PDN connections of type non-IP may carry.
    """
    pdu = Connectionless("pdu")
    pdu.header = pdu_hdr
    pdu.sdu = pdu.unit
    return pdu
