"""VXLAN (RFC 7348, UDP port 4789, before that 8472) and VXLAN-GPE (draft-ietf-nvo3-vxlan-gpe, UDP port 4790).

VXLAN carries Ethernet; in GPE `next` is the payload's type: 1 IPv4, 2 IPv6, 3 Ethernet. Both offer tunnel (the VNI).
Limits: other values of `next` are not parsed further; the group policy extension is not parsed.
"""

from sluice.lang import Bit, Connectionless, UInt, layout


class vxlan_hdr(layout):
    reserved = Bit(4)
    I = Bit(1)  # noqa: E741
    reserved2 = Bit(27)
    vni = UInt(24)
    reserved3 = Bit(8)


class vxlan_gpe_hdr(layout):
    reserved = Bit(2)
    version = Bit(2)
    I = Bit(1)  # noqa: E741
    P = Bit(1)
    B = Bit(1)
    O = Bit(1)  # noqa: E741
    reserved2 = Bit(16)
    next = Bit(8)
    vni = UInt(24)
    reserved3 = Bit(8)


def vxlan_parser() -> Connectionless:
    vxlan = Connectionless("vxlan")
    vxlan.header = vxlan_hdr
    vxlan.require(vxlan.header.I == 1, "no VNI")
    vxlan.offer(tunnel=vxlan.header.vni)
    return vxlan


def vxlan_gpe_parser() -> Connectionless:
    vxlan = Connectionless("vxlan_gpe")
    vxlan.header = vxlan_gpe_hdr
    vxlan.offer(tunnel=vxlan.header.vni)
    return vxlan
