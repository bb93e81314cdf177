"""Authentication header: RFC 4302, protocol number 51, over IPv4 and IPv6.

A length of 0 (no sequence number) is malformed. The payload is in the clear: the next layer parses it. Limits:
integrity is not verified. Offers protocol.
"""

from sluice.lang import Bit, Connectionless, UInt, layout


class ah_hdr(layout):
    next = Bit(8)
    length = Bit(8)
    reserved = Bit(16)
    spi = UInt(32)
    sequence = UInt(32)
    check = Bit((length << 5) - 32)


def ah_parser() -> Connectionless:
    ah = Connectionless("ah")
    ah.header = ah_hdr
    ah.offer(protocol=ah.header.next)
    return ah
