"""Small headers of tunnels over IP and GRE: EtherIP, PIM registers, WCCP's redirections; and IPComp, which is counted.

EtherIP is RFC 3378 (protocol 97), PIM RFC 7761 (103): a register message (type 1) carries an IP packet. WCCP redirects
packets in GRE (0x883E), in version 2 after a header of 4 bytes. The payload of IPComp (RFC 3173, 108) is compressed
and opaque: a conversation is two addresses. Limits: other PIM messages are not parsed further.
"""

from sluice.lang import Bit, Connectionless, ConnectionOriented, Else, If, UInt, layout
from sluice.protocols.other_ip import between_hosts

REGISTER = 1


class etherip_hdr(layout):
    version = Bit(4)
    reserved = Bit(12)


class pim_hdr(layout):
    version = Bit(4)
    type = Bit(4)
    reserved = Bit(8)
    checksum = Bit(16)


class pim_register(layout):
    border = Bit(1)
    null_register = Bit(1)
    reserved_register = Bit(30)


class wccp_hdr(layout):
    kind = Bit(4)
    rest = Bit(4)


class ipcomp_hdr(layout):
    next = Bit(8)
    flags = Bit(8)
    cpi = UInt(16)


def etherip_parser() -> Connectionless:
    etherip = Connectionless("etherip")
    etherip.header = etherip_hdr
    etherip.require(etherip.header.version == 3, "version")
    return etherip


def pim_parser() -> Connectionless:
    pim = Connectionless("pim")
    pim.header = pim_hdr + (If(pim_hdr.type == REGISTER) >> pim_register)
    pim.require(pim.header.version == 2, "version")
    return pim


def wccp_parser() -> Connectionless:
    wccp = Connectionless("wccp")
    wccp.header = wccp_hdr
    wccp.sdu = If(wccp.header.kind == 4) >> wccp.unit >> Else() >> wccp.unit[4:]
    return wccp


def ipcomp_parser() -> ConnectionOriented:
    ipcomp = between_hosts(ConnectionOriented("ipcomp"))
    ipcomp.header = ipcomp_hdr
    return ipcomp
