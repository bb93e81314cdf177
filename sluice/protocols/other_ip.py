"""Any IP protocol that no other layer takes.

A conversation is two addresses and the protocol number. No header is parsed. Sits on a layer that offers src,
dst and protocol.
"""

from sluice.lang import ConnectionOriented


def other_ip_parser() -> ConnectionOriented:
    other = ConnectionOriented("ip")
    other.selector = [other.below.src, other.below.protocol], [other.below.dst, other.below.protocol]
    other.timeout = 60
    return other
