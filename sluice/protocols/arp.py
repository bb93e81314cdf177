"""Address resolution: RFC 826 (ARP), RFC 903 (RARP), for hardware and protocol addresses of any length.

Limits: requests are not matched with replies; addresses are bytes.
"""

from sluice.lang import Bit, Connectionless, UInt, layout


class arp_hdr(layout):
    hardware = UInt(16)
    protocol = UInt(16)
    hardware_length = Bit(8)
    protocol_length = Bit(8)
    operation = UInt(16)
    sender_hardware = Bit(hardware_length << 3)
    sender_protocol = Bit(protocol_length << 3)
    target_hardware = Bit(hardware_length << 3)
    target_protocol = Bit(protocol_length << 3)


def arp_parser() -> Connectionless:
    arp = Connectionless("arp")
    arp.header = arp_hdr
    return arp
