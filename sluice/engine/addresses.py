"""Addresses in the keys of instances, as the address types of Python's `ipaddress` module.

As in the rows of the flow log, a key part named src or dst is an IPv4 address if it has 32 bits, and an IPv6 address
if it has 128.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address

Address = IPv4Address | IPv6Address
PACKED = "_packed"
"""The suffix of the attribute that holds an address as bytes: event.src_packed."""
_NAMES = ("src", "dst")

ipv4 = lru_cache(1 << 16)(IPv4Address)
"""The IPv4 address for an integer, cached."""
ipv6 = lru_cache(1 << 16)(IPv6Address)
"""The IPv6 address for 16 bytes, cached."""


def is_address(name: str, bits: int) -> bool:
    """Whether a key part is an IPv4 or IPv6 address."""
    return name in _NAMES and bits in (32, 128)
