"""Small headers of tunnels over UDP: GTP version 0, GUE, LISP, TZSP and AYIYA.

GTP version 0 (3GPP TS 09.60, port 3386) and LISP (RFC 9300, port 4341) carry IP; GUE (draft-ietf-intarea-gue, port
6080) the protocol of its protocol number, or IP if its first two bits are 1; TZSP (port 37008; no standard) a frame of
the link type in its header; AYIYA (draft-massar-v6ops-ayiya, port 5072) IPv6 or IPv4. FOU (Linux) has neither a header
nor a port, so raw.py parses it. Limits: control messages are not parsed further; a signature of AYIYA is not verified;
extensions of GUE are bytes.
"""

from sluice.lang import AnyUntil, Bit, Connectionless, Else, If, UInt, layout


class gtp0_hdr(layout):
    version = Bit(3)
    PT = Bit(1)
    spare = Bit(3)
    SNN = Bit(1)
    MT = Bit(8)
    length = UInt(16)
    sequence_number = UInt(16)
    flow = UInt(16)
    sndcp = Bit(8)
    spare2 = Bit(24)
    TID = UInt(64)


class gue_hdr(layout):
    version = Bit(2)
    control = Bit(1)
    words = Bit(5)  # of 4 bytes, after the first 4


class gue_protocol(layout):
    protocol = Bit(8)
    flags = Bit(16)
    extensions = Bit(gue_hdr.words << 5)


class lisp_hdr(layout):
    N = Bit(1)
    L = Bit(1)
    E = Bit(1)
    V = Bit(1)
    I = Bit(1)  # noqa: E741
    flags = Bit(3)
    nonce = UInt(24)
    instance_id = UInt(24)
    status = Bit(8)


class tzsp_hdr(layout):
    version = Bit(8)
    type = Bit(8)  # 0 received, 1 to be transmitted
    protocol = UInt(16)


class tzsp_pad(layout):
    pad = Bit(8, const=0)


class tzsp_end(layout):
    end = Bit(8, const=1)


class tzsp_tag(layout):
    tag = Bit(8)
    tag_length = Bit(8)
    tag_value = Bit(tag_length << 3)


class ayiya_hdr(layout):
    identity_size = Bit(4)  # exponent of two
    identity_type = Bit(4)
    signature_words = Bit(4)
    hash_method = Bit(4)
    authentication = Bit(4)
    operation = Bit(4)  # 1: forward
    next = Bit(8)
    epoch = UInt(32)
    identity = Bit(8 << identity_size)
    signature = Bit(signature_words << 5)


def gtp0_parser() -> Connectionless:
    gtp = Connectionless("gtp0")
    gtp.header = gtp0_hdr
    gtp.require((gtp.header.version == 0) & (gtp.header.PT == 1), "version")
    gtp.sdu = gtp.payload[: gtp.header.length]
    return gtp


def gue_parser() -> Connectionless:
    gue = Connectionless("gue")
    gue.header = gue_hdr + (If(gue_hdr.version == 0) >> gue_protocol)
    gue.require(gue.header.version <= 1, "version")
    gue.sdu = If(gue.header.version == 0) >> gue.payload >> Else() >> gue.unit
    return gue


def lisp_parser() -> Connectionless:
    lisp = Connectionless("lisp")
    lisp.header = lisp_hdr
    lisp.offer(tunnel=lisp.header.instance_id * lisp.header.I)
    return lisp


TAGS = 128
"""Tags and bytes of padding that a header of TZSP has at most; one with more is malformed."""


def tzsp_parser() -> Connectionless:
    tzsp = Connectionless("tzsp")
    tzsp.header = tzsp_hdr + AnyUntil([tzsp_pad, tzsp_end, tzsp_tag], ~tzsp.header_contain(tzsp_end), limit=TAGS)
    tzsp.require((tzsp.header.version == 1) & tzsp.header_contain(tzsp_end), "header")
    return tzsp


def ayiya_parser() -> Connectionless:
    ayiya = Connectionless("ayiya")
    ayiya.header = ayiya_hdr
    return ayiya
