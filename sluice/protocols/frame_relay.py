"""Frame relay, link type 107: a two-byte address (ITU-T Q.922), then RFC 2427 or Cisco's encapsulation.

`type` is an EtherType (Cisco), or control 3 and an NLPID (RFC 2427): 0x03cc IPv4, 0x038e IPv6, 0x0380 SNAP.
Limits: addresses of three and four bytes are not told apart.
"""

from sluice.lang import Bit, Connectionless, UInt, layout


class frame_relay_hdr(layout):
    dlci_high = Bit(6)
    command = Bit(1)
    extended_high = Bit(1)
    dlci_low = Bit(4)
    fecn = Bit(1)
    becn = Bit(1)
    discard_eligible = Bit(1)
    extended_low = Bit(1)
    type = UInt(16)


def frame_relay_parser() -> Connectionless:
    fr = Connectionless("fr", link_types=(107,))
    fr.header = frame_relay_hdr
    return fr
