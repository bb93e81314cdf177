"""Sets of numbers as sorted ranges that do not touch: the form of addresses and ports in a header."""

from __future__ import annotations

from collections.abc import Iterable

Ranges = tuple[tuple[int, int], ...]
"""First and last number of each range."""


def union(parts: Iterable[tuple[int, int]]) -> Ranges:
    """The numbers of all ranges."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(parts):
        if found and low <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return tuple(found)


def without(ranges: Ranges, removed: Ranges) -> Ranges:
    """The numbers of `ranges` that `removed` does not have."""
    found: list[tuple[int, int]] = []
    at = 0
    for low, high in ranges:
        while at < len(removed) and removed[at][1] < low:
            at += 1
        while at < len(removed) and removed[at][0] <= high:
            first, last = removed[at]
            if first > low:
                found.append((low, first - 1))
            low = last + 1
            if low > high:  # the removed range may reach into the next one
                break
            at += 1
        if low <= high:
            found.append((low, high))
    return tuple(found)
