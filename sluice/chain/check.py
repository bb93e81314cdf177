"""Refuses chains that cannot work, with advice: subscriptions against the order, parallel changes of one field."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from sluice.chain.plan import Member, Plan
from sluice.engine.published import check_published, line_of
from sluice.hooks.function import CFunction, Functions
from sluice.hooks.published import CHAIN, PublishedEvents
from sluice.hooks.subscription import HookError, is_named
from sluice.ir.graph import LayerProgram, Program
from sluice.lang.errors import DescriptionError, did_you_mean
from sluice.lang.stack import Stack

MOST = 64
"""Functions of a chain: each has a bit of a word."""

PORT = ("packet", "port")
"""In place of a layer and a header field: the port where a packet leaves."""


def check_chain(plan: Plan, stack: Stack) -> None:
    """Refuse invalid chains. Raises DescriptionError with the line of the chain or of the function, and HookError."""
    if len(plan.members) > MOST:
        raise DescriptionError(
            f"{len(plan.members)} functions: a chain has at most {MOST}",
            "join some of them, or make two chains of it.",
            plan.chain.where,
        )
    check_published(plan.c(), plan.python())
    _check_order(plan)
    _check_withheld(plan)
    _check_changes(plan, stack)


def drops_decided_above(plan: Plan, program: Program) -> Iterator[str]:
    """A warning for each function that receives packets which a function before it drops, because that one decides in
    a higher layer.
    """
    for function in plan.c():
        if not function.drops:
            continue
        decides = [layer for layer in program.layers.values() if _hooks(plan, function.label, layer)]
        first = {layer.name for layer in decides} - {above for layer in decides for above in _above(program, layer)}
        for name in (member.name for member in plan.members if plan.is_before(function.label, member.name)):
            for layer in program.layers.values():
                below = first and first <= _above(program, layer)
                if below and (events := sorted(set(_hooks(plan, name, layer)) - {"end"})):
                    yield (
                        f"'{name}' sees packets that '{function.label}' drops: it subscribes to "
                        f"{layer.name}.{events[0]}, and '{function.label}' decides later, in layer "
                        f"{', '.join(sorted(first))}"
                    )
                    break


def _hooks(plan: Plan, name: str, layer: LayerProgram) -> list[str]:
    """The events of a layer of the stack to which a member subscribes."""
    loaded = _member(plan, name).loaded
    if isinstance(loaded, CFunction):
        hooks = [(hook.layer, hook.event) for hook in loaded.hooks]
    else:
        hooks = [(of, event) for of, event, _ in [*loaded.handlers, *loaded.on_demand, *loaded.many]]
    return [event for of, event in hooks if of != CHAIN and is_named(of, layer)]


def _above(program: Program, layer: LayerProgram) -> set[str]:
    """The layers that may follow a layer in a packet, directly or not."""
    found: set[str] = set()
    to_see = list(layer.above)
    while to_see:
        name = to_see.pop()
        if name not in found and name != layer.name:
            found.add(name)
            to_see += program.layers[name].above
    return found


def publishers(plan: Plan, event: str) -> dict[str, str]:
    """The members that publish an event, or one that has it as a base: where each declares it."""
    own = [publisher.event for function in plan.python() for publisher in function.published.values()]
    known = PublishedEvents((*Functions(tuple(plan.c())).published.all, *own))
    filters = [(filter.name, filter.base) for function in plan.c() for filter in function.events]
    filters += [(filter.name, filter.base) for function in plan.python() for filter in function.events]
    seen = set[str]()
    while event not in known.names and event not in seen:  # an event with a filter: its base is published
        seen.add(event)
        event = next((base for name, base in filters if name == event), event)
    found: dict[str, str] = {}
    for member in plan.members:
        published = (
            member.loaded.publishes
            if isinstance(member.loaded, CFunction)
            else [publisher.event for publisher in member.loaded.published.values()]
        )
        for one in published:
            if event in known.names and event in known.lineage(one.name):
                found.setdefault(member.name, one.where)
    return found


def subscriptions(member: Member) -> Iterator[tuple[str, str]]:
    """The published events that a member subscribes to, each with its line."""
    loaded = member.loaded
    if isinstance(loaded, CFunction):
        yield from ((hook.event, loaded.line_of(hook)) for hook in loaded.hooks if hook.layer == CHAIN)
    else:
        for layer, event, handler in [*loaded.handlers, *loaded.on_demand]:
            if layer == CHAIN:
                yield event, line_of(handler, loaded.name)


def _check_order(plan: Plan) -> None:
    """Subscribers follow publishers."""
    for member in plan.members:
        for event, where in subscriptions(member):
            for publisher, declared in publishers(plan, event).items():
                if plan.is_before(publisher, member.name):
                    continue
                raise DescriptionError(
                    *_against_order(plan, member, event, where, publisher, declared), plan.chain.where
                )


def _against_order(
    plan: Plan, member: Member, event: str, where: str, publisher: str, declared: str
) -> tuple[str, str]:
    """The error of a subscription, and the advice."""
    subscribes = f"'{member.name}' subscribes to '{event}' ({where})"
    if publisher == member.name:
        return f"{subscribes}, which it publishes ({declared})", "call a function of its own instead."
    back = [one for one, _ in subscriptions(_member(plan, publisher)) if member.name in publishers(plan, one)]
    if back:
        return (
            f"a cycle: {subscribes} of '{publisher}', which subscribes to '{back[0]}' of '{member.name}'",
            "let events go in one direction: move one of the two handlers to a third function after both.",
        )
    if plan.is_before(member.name, publisher):
        return (
            f"{subscribes}, which '{publisher}' publishes ({declared}) later in the chain",
            f"write {publisher} >> {member.name}: what a function publishes reaches those after it.",
        )
    return (
        f"{subscribes}, which '{publisher}' publishes ({declared}) in parallel to it",
        f"write {publisher} >> {member.name}: in parallel, neither waits for the other.",
    )


def _member(plan: Plan, name: str) -> Member:
    return next(member for member in plan.members if member.name == name)


def _check_withheld(plan: Plan) -> None:
    """Handlers of many events at once get no packet's verdict with them."""
    drops = {function.name for function in plan.c() if function.drops}
    for function in plan.python():
        before = [name for name in plan.before(function.label) if name in drops]
        for _, event, handler in function.many:
            if before:
                raise DescriptionError(
                    f"'{function.label}' takes many '{event}' at once ({line_of(handler, function.name)}), so those of "
                    f"packets that '{before[0]}' drops cannot be withheld from it",
                    "write @on in place of @on_batch, or put the function first.",
                    plan.chain.where,
                )


def _check_changes(plan: Plan, stack: Stack) -> None:
    """Functions in parallel change different fields."""
    for function in plan.c():
        for layer, field, where in function.writes:
            _check_field(layer, field, where, stack)
    changing = [function for function in plan.c() if function.rewrites or function.redirects]
    for one, other in combinations(changing, 2):
        if plan.is_before(one.name, other.name) or plan.is_before(other.name, one.name):
            continue
        what = _conflict(one, other)
        if what is not None:
            raise DescriptionError(
                f"'{one.name}' and '{other.name}' run in parallel, {what[0]}", what[1], plan.chain.where
            )


def _conflict(one: CFunction, other: CFunction) -> tuple[str, str] | None:
    """The error of two functions in parallel, and the advice; None where they change different fields."""
    sequence = f"write {one.name} >> {other.name}, so that the second changes what the first made"
    both = [field for field in _changed(one) if field in _changed(other)]
    if both == [PORT]:
        return "and both choose the port where a packet leaves", f"{sequence}."
    if both:
        layer, field = both[0]
        return f"and both change field '{field}' of layer '{layer}'", f"{sequence}."
    for function in (one, other):
        if one.rewrites and other.rewrites and not function.writes:
            return (
                f"both change packets, and '{function.name}' ({function.path}) does not say which fields it changes",
                f"declare SLUICE_WRITES(layer, field) in it, or {sequence}.",
            )
    return None


def _changed(function: CFunction) -> list[tuple[str, str]]:
    return [*((layer, field) for layer, field, _ in function.writes), *([PORT] if function.redirects else [])]


def _check_field(layer: str, field: str, where: str, stack: Stack) -> None:
    """Raise HookError for a field that the layer's header does not have."""
    found = [one.prototype for one in stack.layers.values() if layer in (one.name, one.prototype.name)]
    if not found:
        advice = did_you_mean(layer, {one.name for one in stack.layers.values()})
        raise HookError(f"{where}: SLUICE_WRITES({layer}, {field}): the stack has no layer '{layer}'\n    {advice}")
    names = {name for prototype in found for name in prototype.header_fields()}
    if field not in names:
        advice = did_you_mean(field, names)
        raise HookError(f"{where}: the header of layer '{layer}' has no field '{field}'\n    {advice}")
