"""Ethernet within Ethernet: provider backbone bridges (IEEE 802.1ah) and Cisco FabricPath.

PBB is EtherType 0x88E7, followed by the I-TAG and a whole frame; FabricPath is 0x8903, with a tag of two bytes. Both
carry Ethernet. Offers tunnel (the I-SID) for PBB. Limits: the tag of the backbone (0x88A8) is parsed as a VLAN tag.
"""

from sluice.lang import Bit, Connectionless, UInt, layout


class pbb_hdr(layout):
    priority = Bit(3)
    drop_eligible = Bit(1)
    customer_addresses = Bit(1)
    reserved = Bit(3)
    isid = UInt(24)


class fabricpath_hdr(layout):
    ftag = Bit(10)
    ttl = Bit(6)


def pbb_parser() -> Connectionless:
    pbb = Connectionless("pbb")
    pbb.header = pbb_hdr
    pbb.offer(tunnel=pbb.header.isid)
    return pbb


def fabricpath_parser() -> Connectionless:
    fabricpath = Connectionless("fabricpath")
    fabricpath.header = fabricpath_hdr
    return fabricpath
