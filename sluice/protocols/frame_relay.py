"""Frame relay, link type 107: an address of two to four bytes (ITU-T Q.922), then RFC 2427 or Cisco's encapsulation.

Cisco's encapsulation is an EtherType. RFC 2427 has control 3, an optional byte of padding, and an NLPID, which `temp`
holds: 0xcc IPv4, 0x8e IPv6, 0x80 SNAP, 0xcf PPP (RFC 1973). Limits: other NLPIDs are not parsed further; no frame
check sequence; fragments (FRF.12) are not reassembled.
"""

from sluice.lang import Assign, Bit, Connectionless, Else, If, layout

UNNUMBERED, PAD = 3, 0


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


class frame_relay_control(layout):
    control = Bit(8)  # or the first byte of an EtherType


class frame_relay_nlpid(layout):
    nlpid = Bit(8)


class frame_relay_padded(layout):
    padded_nlpid = Bit(8)


class frame_relay_type(layout):
    type_low = Bit(8)


class frame_relay_temp(layout):
    nlpid = Bit(8)
    ethertype = Bit(16)


def frame_relay_parser() -> Connectionless:
    fr = Connectionless("fr", link_types=(107,))
    longer = frame_relay_hdr.extended_low == 0
    fr.header = frame_relay_hdr + (If(longer) >> frame_relay_third)
    fr.header += If(longer & (frame_relay_third.extended_third == 0)) >> frame_relay_fourth
    standard = frame_relay_control.control == UNNUMBERED
    nlpid = frame_relay_nlpid + (If(frame_relay_nlpid.nlpid == PAD) >> frame_relay_padded)
    fr.header += frame_relay_control
    fr.header += If(standard) >> nlpid >> Else() >> frame_relay_type
    fr.temp = frame_relay_temp
    fr.prep = (
        If(fr.header.control == UNNUMBERED)
        >> Assign(fr.temp.nlpid, fr.header.nlpid | fr.header.padded_nlpid)
        >> Else()
        >> Assign(fr.temp.ethertype, (fr.header.control << 8) | fr.header.type_low)
    )
    fr.offer(ethertype=fr.temp.ethertype)
    return fr
