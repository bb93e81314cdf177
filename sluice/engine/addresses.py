"""Addresses in the keys of instances: one type for IPv4 and IPv6, that of Python's `ipaddress`.

As in the rows of the flow log, a part of a key that is called src or dst is an IPv4 address where it has 32 bits, and
an IPv6 address where it has 128.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address

Address = IPv4Address | IPv6Address
PACKED = "_packed"
"""What follows the name of an address in that of its bytes: event.src_packed."""
_NAMES = ("src", "dst")

ipv4 = lru_cache(1 << 16)(IPv4Address)
"""The address of a number."""
ipv6 = lru_cache(1 << 16)(IPv6Address)
"""The address of 16 bytes."""


def is_address(name: str, bits: int) -> bool:
    """Whether a part of a key is an address of IPv4 or IPv6."""
    return name in _NAMES and bits in (32, 128)
