"""GTP version 1, user plane: 3GPP TS 29.281, over UDP port 2152.

A T-PDU (message type 255) carries an IP packet. The four optional bytes are there when any of the flags E, S
and PN is set; extension headers follow when E is. The payload ends where the length says. Offers tunnel (the
TEID). Limits: extension headers are skipped, not read; version 1 and protocol type 1 only (no GTP').
"""

from sluice.lang import AnyUntil, Bit, Connectionless, If, UInt, layout

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
    next_extension = Bit(8)


class gtp_extension(layout):
    extension_words = Bit(8)  # of 4 bytes, this one and the type behind the content included
    extension_content = Bit((extension_words << 5) - 16)
    extension_next = Bit(8)


def gtp_parser() -> Connectionless:
    gtp = Connectionless("gtp")
    gtp.header = gtp_hdr
    gtp.header += If(gtp_hdr.E | gtp_hdr.S | gtp_hdr.PN) >> gtp_optional
    extended = gtp_hdr.E & (gtp_optional.next_extension != 0)
    # Both fields are 0 before the first one, and no extension header has 0 words.
    more = (gtp_extension.extension_words == 0) | (gtp_extension.extension_next != 0)
    gtp.header += If(extended) >> AnyUntil([gtp_extension], more)

    gtp.require((gtp.header.version == 1) & (gtp.header.PT == 1), "version")
    complete = gtp.header_contain(gtp_extension) & ~more
    gtp.require(~extended | complete, "extension header")
    end = gtp.header.length + BEFORE_LENGTH_COUNTS
    gtp.require(end >= gtp.cursor, "length")
    gtp.sdu = gtp.unit[gtp.cursor : end]
    gtp.offer(tunnel=gtp.header.TEID)
    return gtp
