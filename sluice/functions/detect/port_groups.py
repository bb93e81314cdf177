"""Divides rules by the ports of servers: of a packet from or to one, only the rules about it are searched for."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.functions.detect.ranges import Ranges

GROUPS_MOST = 64
"""The number of different sets of rules. Ports beyond them share one, as each rule compares its ports anyway."""

PortMap = tuple[tuple[int, int], ...]
"""From each port on, up to the next one, the group; from the first one on, 0."""


def port_groups(wanted: Sequence[tuple[int, Ranges]]) -> list[tuple[int, tuple[int, ...]]]:
    """The parts that are about each port, as the first port of each range and its parts in order."""
    begins: dict[int, list[int]] = {0: []}
    ends: dict[int, list[int]] = {}
    for part, ports in wanted:
        for low, high in ports:
            begins.setdefault(low, []).append(part)
            if high < 65535:
                ends.setdefault(high + 1, []).append(part)
    now: set[int] = set()
    found: list[tuple[int, tuple[int, ...]]] = []
    for low in sorted(begins.keys() | ends.keys()):
        now.difference_update(ends.get(low, ()))
        now.update(begins.get(low, ()))
        members = tuple(sorted(now))
        if not found or found[-1][1] != members:
            found.append((low, members))
    return _fewer(found)


def _fewer(found: list[tuple[int, tuple[int, ...]]]) -> list[tuple[int, tuple[int, ...]]]:
    """At most GROUPS_MOST different sets: those of most ports remain, and the others become one."""
    ports: dict[tuple[int, ...], int] = {}
    for (low, members), (high, _) in zip(found, [*found[1:], (65536, ())], strict=True):
        ports[members] = ports.get(members, 0) + high - low
    if len(ports) <= GROUPS_MOST:
        return found
    stay = set(sorted(ports, key=lambda members: -ports[members])[: GROUPS_MOST - 1])
    rest = tuple(sorted({part for members in ports.keys() - stay for part in members}))
    return [(low, members if members in stay else rest) for low, members in found]
