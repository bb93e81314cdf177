"""GRE: version 0 (RFC 2784, RFC 2890), and version 1, which carries PPP for PPTP (RFC 2637).

`protocol` is an EtherType: 0x6558 Ethernet, 0x880b PPP, 0x88be and 0x22eb ERSPAN. Of version 1 the payload ends where
its length says; a packet without a sequence number is an acknowledgement, and carries nothing. Offers tunnel: the
key of version 0, the call of version 1. Limits: source routes (RFC 1701) are refused; checksums are not checked.
"""

from sluice.lang import Bit, Connectionless, Else, If, UInt, layout

PPTP = 1


class gre_hdr(layout):
    C = Bit(1)
    R = Bit(1)
    K = Bit(1)
    S = Bit(1)
    strict = Bit(1)
    recursion = Bit(3)
    A = Bit(1)
    flags = Bit(4)
    version = Bit(3)
    protocol = UInt(16)


class gre_checksum(layout):
    checksum = UInt(16)
    reserved = Bit(16)


class gre_key(layout):
    key = UInt(32)


class gre_call(layout):
    payload_length = UInt(16)
    call = UInt(16)


class gre_sequence(layout):
    sequence_number = UInt(32)


class gre_acknowledgement(layout):
    acknowledgement = UInt(32)


def gre_parser() -> Connectionless:
    gre = Connectionless("gre")
    pptp = gre_hdr.version == PPTP
    gre.header = gre_hdr + (If(gre_hdr.C & ~pptp) >> gre_checksum)
    gre.header += If(gre_hdr.K & ~pptp) >> gre_key
    gre.header += If(pptp) >> gre_call
    gre.header += If(gre_hdr.S) >> gre_sequence
    gre.header += If(gre_hdr.A & pptp) >> gre_acknowledgement
    gre.require(gre.header.version <= PPTP, "version")
    gre.require(gre.header.R == 0, "source route")
    gre.offer(tunnel=gre.header.key | gre.header.call)
    gre.sdu = If(gre.header.version == PPTP) >> gre.payload[: gre.header.payload_length] >> Else() >> gre.payload
    return gre
