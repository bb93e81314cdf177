"""PPP multilink: RFC 1990, PPP protocol 0x003D, with the long sequence number.

The payload of an unfragmented packet (B and E) is PPP. Limits: fragments are not reassembled, as they may come over
several links, and their headers name neither the bundle of links nor the direction; each is a packet of layer
`multilink_fragment`, whose counters tell how many there were. The short sequence number, which the ends negotiate, is
not distinguished from the long one.
"""

from sluice.lang import Bit, Connectionless, UInt, layout


class multilink_hdr(layout):
    begin = Bit(1)
    end = Bit(1)
    link_class = Bit(4)
    reserved = Bit(2)
    sequence = UInt(24)


def multilink_parser() -> Connectionless:
    multilink = Connectionless("multilink")
    multilink.header = multilink_hdr
    return multilink


def multilink_fragment_parser() -> Connectionless:
    """What is left of a packet that was divided: only counted."""
    return Connectionless("multilink_fragment")
