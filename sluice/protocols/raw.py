"""Raw IP: link types 101 (LINKTYPE_RAW), 12 and 14 (either version), 228 (LINKTYPE_IPV4) and 229 (LINKTYPE_IPV6).

The first four bits of the packet are the version; the payload is the whole packet. Limits: 228 may also be IPv6.
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
