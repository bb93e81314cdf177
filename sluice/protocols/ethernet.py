"""Ethernet: DIX (RFC 894) and IEEE 802.3 frames, link type 1.

`type` is an EtherType or, up to 1500, the length of an IEEE 802.3 frame, which carries LLC; the length also ends the
SDU, so that padding is not part of it. Tags are in vlan.py. Limits: no preamble, no frame check sequence (a captured
one counts as padding).
"""

from sluice.lang import Bit, Connectionless, Else, If, UInt, layout


class ethernet_hdr(layout):
    dst = Bit(48)
    src = Bit(48)
    type = UInt(16)


def ethernet_parser() -> Connectionless:
    eth = Connectionless("eth", link_types=(1,))
    eth.header = ethernet_hdr
    eth.offer(ethertype=eth.header.type)
    eth.sdu = If(eth.header.type <= 1500) >> eth.payload[: eth.header.type] >> Else() >> eth.payload
    return eth
