"""Raw IP: link types 101, 12 and 14 (either version), 228 (IPv4) and 229 (IPv6).

The first four bits of the packet tell the version; nothing is taken off. A 228 that holds IPv6 is IPv6.
"""

from sluice.lang import Bit, Connectionless, layout


class raw_hdr(layout):
    version = Bit(4)
    rest = Bit(4)


def raw_parser() -> Connectionless:
    raw = Connectionless("raw", link_types=(101, 12, 14, 228, 229))
    raw.header = raw_hdr
    raw.sdu = raw.unit
    return raw
