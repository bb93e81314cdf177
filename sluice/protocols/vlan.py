"""VLAN tags: IEEE 802.1Q and, stacked, 802.1ad (QinQ).

The header begins after the EtherType that announces the tag (0x8100, 0x88a8, 0x9100, 0x9200). A `type` up to 1500 is
the length of an IEEE 802.3 frame, as in ethernet.py. Offers vlan (the VLAN identifier), which an option adds to the
keys of the layers above. Limits: the priority tag (identifier 0) counts as no VLAN; tags of 802.1ah are not parsed.
"""

from sluice.lang import Bit, Connectionless, Else, If, UInt, layout


class vlan_hdr(layout):
    pcp = Bit(3)
    dei = Bit(1)
    vid = Bit(12)
    type = UInt(16)


def vlan_parser() -> Connectionless:
    vlan = Connectionless("vlan")
    vlan.header = vlan_hdr
    vlan.offer(vlan=vlan.header.vid, ethertype=vlan.header.type)
    vlan.sdu = If(vlan.header.type <= 1500) >> vlan.payload[: vlan.header.type] >> Else() >> vlan.payload
    return vlan
