"""Frame relay, link type 107: an address of two to four bytes (ITU-T Q.922), then RFC 2427 or Cisco's encapsulation.

`type` is an EtherType (Cisco), or control 3 and an NLPID (RFC 2427): 0x03cc IPv4, 0x038e IPv6, 0x0380 SNAP.
Limits: other NLPIDs lead nowhere; no frame check sequence; fragments (FRF.12) are not put together.
"""

from sluice.lang import Bit, Connectionless, If, UInt, layout


class frame_relay_hdr(layout):
    dlci_high = Bit(6)
    command = Bit(1)
    extended_high = Bit(1)
    dlci_low = Bit(4)
    fecn = Bit(1)
    becn = Bit(1)
    discard_eligible = Bit(1)
    extended_low = Bit(1)


class frame_relay_third(layout):
    dlci_third = Bit(7)
    extended_third = Bit(1)


class frame_relay_fourth(layout):
    dlci_fourth = Bit(7)
    extended_fourth = Bit(1)


class frame_relay_type(layout):
    type = UInt(16)


def frame_relay_parser() -> Connectionless:
    fr = Connectionless("fr", link_types=(107,))
    longer = frame_relay_hdr.extended_low == 0
    fr.header = frame_relay_hdr + (If(longer) >> frame_relay_third)
    fr.header += If(longer & (frame_relay_third.extended_third == 0)) >> frame_relay_fourth
    fr.header += frame_relay_type
    fr.offer(ethertype=fr.header.type)
    return fr
