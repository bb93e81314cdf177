"""Geneve: RFC 8926, UDP port 6081. `protocol` is an EtherType (0x6558 Ethernet). Offers tunnel (the VNI).

Each option is parsed. Limits: no option changes how the payload is parsed, not even a critical one.
"""

from sluice.lang import AnyUntil, Bit, Connectionless, If, UInt, layout


class geneve_hdr(layout):
    version = Bit(2)
    words = Bit(6)  # of 4 bytes, of options
    control = Bit(1)
    critical = Bit(1)
    reserved = Bit(6)
    protocol = UInt(16)
    vni = UInt(24)
    reserved2 = Bit(8)


class geneve_option(layout):
    option_class = UInt(16)
    option_type = Bit(8)
    option_reserved = Bit(3)
    option_words = Bit(5)
    option_data = Bit(option_words << 5)


def geneve_parser() -> Connectionless:
    geneve = Connectionless("geneve")
    end = (geneve_hdr.words << 2) + 8
    geneve.header = geneve_hdr + (If(geneve_hdr.words > 0) >> AnyUntil([geneve_option], geneve.cursor < end, end=end))
    geneve.require(geneve.header.version == 0, "version")
    geneve.offer(tunnel=geneve.header.vni, ethertype=geneve.header.protocol)
    return geneve
