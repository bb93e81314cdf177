"""A chain as data: what `sluice show` prints and draws."""

from __future__ import annotations

from typing import Any

from sluice.chain.check import publishers, subscriptions
from sluice.chain.description import Arrangement, Function, Sequence
from sluice.chain.plan import Member, Plan
from sluice.hooks.function import CFunction
from sluice.hooks.published import CHAIN, PublishedEvent

Data = dict[str, Any]


def describe(plan: Plan, stack: str) -> Data:
    """The functions of a chain with their subscriptions, publications and decisions, and the edges between them."""
    return {
        "chain": plan.chain.name,
        "stack": stack,
        "arrangement": str(plan.chain.arrangement),
        "functions": [_function(plan, member) for member in plan.members],
        "steps": [[one.name, other.name] for one, other in steps(plan.chain.arrangement)],
        "first": [item.name for item in _ends(plan.chain.arrangement, 0)],
        "last": [item.name for item in _ends(plan.chain.arrangement, -1)],
    }


def steps(arrangement: Arrangement) -> list[tuple[Function, Function]]:
    """The pairs of functions of which the second follows the first at once."""
    found = [pair for part in arrangement.parts for pair in steps(part)]
    if isinstance(arrangement, Sequence):
        for part, following in zip(arrangement.parts, arrangement.parts[1:], strict=False):
            found += [(one, other) for one in _ends(part, -1) for other in _ends(following, 0)]
    return found


def _ends(arrangement: Arrangement, which: int) -> list[Function]:
    """The functions that an arrangement begins with (which is 0), or ends with (-1)."""
    if isinstance(arrangement, Function):
        return [arrangement]
    parts = [arrangement.parts[which]] if isinstance(arrangement, Sequence) else arrangement.parts
    return [item for part in parts for item in _ends(part, which)]


def _function(plan: Plan, member: Member) -> Data:
    loaded = member.loaded
    if isinstance(loaded, CFunction):
        hooks = [(hook.layer, hook.event) for hook in loaded.hooks]
        published: list[PublishedEvent] = list(loaded.publishes)
        decides = [word for word, is_so in _verdicts(loaded) if is_so]
        writes = [f"{layer}.{field}" for layer, field, _ in loaded.writes]
    else:
        hooks = [(layer, event) for layer, event, _ in [*loaded.handlers, *loaded.on_demand, *loaded.many]]
        published = [publisher.event for publisher in loaded.published.values()]
        decides, writes = [], []
    from_functions = {event: list(publishers(plan, event)) for event, _ in subscriptions(member)}
    return {
        "name": member.name,
        "source": member.item.source,
        "parameters": dict(member.item.parameters),
        "subscribes": [f"{layer}.{event}" for layer, event in dict.fromkeys(hooks) if layer != CHAIN],
        "receives": [{"event": event, "from": names} for event, names in from_functions.items()],
        "publishes": [
            {"event": event.name, "base": event.base or None, "fields": dict(event.fields)} for event in published
        ],
        "decides": decides,
        "writes": writes,
    }


def _verdicts(function: CFunction) -> list[tuple[str, bool]]:
    return [("drop", function.drops), ("change", function.rewrites), ("redirect", function.redirects)]
