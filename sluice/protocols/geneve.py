"""Geneve: RFC 8926, UDP port 6081. `protocol` is an EtherType (0x6558 Ethernet). Offers tunnel (the VNI).

Limits: options are skipped, not read.
"""

from sluice.lang import Bit, Connectionless, If, UInt, layout


class geneve_hdr(layout):
    version = Bit(2)
    words = Bit(6)  # of 4 bytes, of options
    control = Bit(1)
    critical = Bit(1)
    reserved = Bit(6)
    protocol = UInt(16)
    vni = UInt(24)
    reserved2 = Bit(8)


class geneve_options(layout):
    options = Bit(geneve_hdr.words << 5)


def geneve_parser() -> Connectionless:
    geneve = Connectionless("geneve")
    geneve.header = geneve_hdr + (If(geneve_hdr.words > 0) >> geneve_options)
    geneve.require(geneve.header.version == 0, "version")
    geneve.offer(tunnel=geneve.header.vni)
    return geneve
