"""Encapsulating security payload: RFC 4303, protocol number 50, over IPv4 and IPv6.

Limits: the payload is encrypted. After the security parameters index and the sequence number all is opaque: only the
two ends know where the padding and the integrity check value begin. A conversation is two addresses. Needs a lower
layer that offers src, dst and protocol.
"""

from sluice.lang import ConnectionOriented, UInt, layout
from sluice.protocols.other_ip import between_hosts


class esp_hdr(layout):
    spi = UInt(32)
    sequence = UInt(32)


def esp_parser() -> ConnectionOriented:
    esp = between_hosts(ConnectionOriented("esp"))
    esp.header = esp_hdr
    return esp
