"""How the traffic of a function is divided among its instances: by which header fields, and which instance has what.

CHC, 3.3.1: from the coarsest scope of the function's objects down, until the load is even. Traffic is divided into 1024
parts by a hash of the fields of a scope; an instance has some of them.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Sequence
from dataclasses import dataclass

from sluice.chain.processes.memory import PARTS, SCOPE
from sluice.hooks.function import CFunction
from sluice.hooks.published import CHAIN
from sluice.hooks.shared import FLOW, Shared
from sluice.hooks.subscription import is_named
from sluice.ir.graph import Program

EVEN = 1.25
"""The load is even if no instance has more than so many times the mean."""
SAMPLE = 20_000
"""Packets at the beginning of capture files of which the load is taken."""

FLOWS: tuple[str, ...] = ()
"""The finest scope: each flow as a whole."""


@dataclass(frozen=True)
class Candidate:
    """A scope by which traffic may be divided. cached: names of objects that then belong to one instance. load: packets
    of a sample by part, empty without one. owners: the instance, from 0, of each part. imbalance: the load of the
    instance with most, divided by the mean; 0 if it is not known.
    """

    scope: tuple[str, ...]
    cached: tuple[str, ...]
    load: tuple[int, ...] = ()
    owners: tuple[int, ...] = ()
    imbalance: float = 0.0

    @property
    def name(self) -> str:
        """As users write it."""
        return "+".join(self.scope) or FLOW

    def measured(self, load: Sequence[int], instances: int) -> Candidate:
        """With the load of a sample, and the parts assigned by it."""
        owners = assign(load, instances)
        found = [0] * instances
        for part, owner in enumerate(owners):
            found[owner] += load[part]
        mean = sum(load) / instances
        return Candidate(self.scope, self.cached, tuple(load), owners, max(found) / mean if mean else 0.0)


def assign(load: Sequence[int], instances: int) -> tuple[int, ...]:
    """The instance of each part: the heaviest part first, to the instance with the least load; parts without load in
    turns.
    """
    owners = [part % instances for part in range(PARTS)]
    heap = [(0, number) for number in range(instances)]
    for weight, part in sorted(((weight, part) for part, weight in enumerate(load) if weight), reverse=True):
        least, number = heapq.heappop(heap)
        owners[part] = number
        heapq.heappush(heap, (least + weight, number))
    return tuple(owners)


def candidates(function: CFunction, program: Program) -> list[Candidate]:
    """The scopes of a function's objects, the coarsest first; the last one is that of flows."""
    fields = [item for item in function.shared if _may_belong(function, item, program)]
    scopes = sorted({item.scope for item in fields if isinstance(item.scope, tuple)}, key=lambda one: (len(one), one))
    return [Candidate(scope, belonging(function, fields, scope)) for scope in [*scopes, FLOWS]]


def belonging(function: CFunction, fields: Sequence[Shared], scope: tuple[str, ...]) -> tuple[str, ...]:
    """The objects that belong to one instance if traffic is divided by a scope: those of flows, and those whose key
    is the number of the part.
    """
    names = [item.name for item in function.shared if item.scope == FLOW]
    names += [item.name for item in fields if scope and set(scope) <= set(item.scope)]
    return tuple(sorted(set(names)))


def watched(function: CFunction, cached: Sequence[str]) -> tuple[str, ...]:
    """The objects that are cached here until the store reports a change."""
    return tuple(
        item.name
        for item in function.shared
        if item.access == "read_mostly" and item.name not in cached and item.type in ("counter", "number", "struct")
    )


def choose(found: Sequence[Candidate]) -> Candidate:
    """The coarsest scope with which the load is even; without such a one, that with the most even load. Without a
    sample, the coarsest.
    """
    known = [candidate for candidate in found if candidate.imbalance]
    if not known:
        return found[0]
    return next((one for one in known if one.imbalance <= EVEN), min(known, key=lambda one: one.imbalance))


def _may_belong(function: CFunction, item: Shared, program: Program) -> bool:
    """Whether all accesses to the objects of a declaration are by the fields of the active side of the event's flow.

    Another access, as by a number in place of the fields, could be of an instance that has not the part. The same
    is true of events of layers without flows.
    """
    if not isinstance(item.scope, tuple) or len(item.scope) > SCOPE or item.type == "list":
        return False
    name = re.escape(item.name)
    if re.search(rf"\bSLUICE_SHARED_(SIDE|AT|ALL)\s*\([^;]*?,\s*{name}\b", function.text):
        return False
    if re.search(r"\bsl_shared_(at|number|of|all)\s*\(", function.text):
        return False
    for layer in program.layers.values():
        oriented = layer.instance is not None and layer.instance.oriented
        named = any(hook.layer != CHAIN and is_named(hook.layer, layer) for hook in function.hooks)
        if named and not oriented:
            return False
    return True
