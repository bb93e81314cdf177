"""From a chain to the programs of its processes: the stack sends events, the functions receive them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sluice.chain.check import publishers
from sluice.chain.description import Function, Isolation
from sluice.chain.plan import Member, Plan
from sluice.chain.processes.memory import FUNCTIONS, VERTICES
from sluice.chain.processes.partition import FLOWS, Candidate, candidates, choose
from sluice.codegen.isolated.events import (
    IsolatedEvents,
    ReceivedFunctions,
    number_events,
    places_of_bytes,
    received,
)
from sluice.codegen.isolated.receiver import receiver
from sluice.codegen.isolated.sender import NONE, sender, types
from sluice.engine.compiled_stack import CompiledStack
from sluice.engine.compiler import compile_library
from sluice.engine.events import PythonFunction
from sluice.engine.functions import Options, Wanted
from sluice.hooks.function import CFunction
from sluice.hooks.keep import NAME as KEEPER
from sluice.hooks.published import CHAIN, PublishedEvents
from sluice.ir.hook import Hook
from sluice.lang.errors import DescriptionError

BYTES_MOST = 16
"""SL_ISO_BYTES_MOST."""


@dataclass
class Part:
    """The functions of one process: one in C, or all in Python.

    name: in messages and figures. number: its bit. before: parts that it waits for. drops: parts of which a drop
    withholds events. decides: whether it drops, changes or sends packets. always: whether it receives every batch.
    """

    name: str
    number: int
    functions: ReceivedFunctions
    members: tuple[str, ...]
    python: list[PythonFunction] = field(default_factory=lambda: [])
    options: list[Options] = field(default_factory=lambda: [])
    isolations: list[tuple[Function, Isolation]] = field(default_factory=lambda: [])
    before: int = 0
    drops: int = 0
    compiled: CompiledStack | None = None
    instance: int | None = None
    """Its number among the instances of the function, from 0; None where there is only one process of it."""
    leader: int = -1
    """The number of the part that is its first instance."""

    @property
    def label(self) -> str:
        """Its name in messages and figures."""
        return self.name if not self.instance else f"{self.name}#{self.instance}"

    @property
    def shares(self) -> bool:
        """Whether a store has state of it."""
        return self.functions.shares

    @property
    def keeps(self) -> bool:
        """Whether its process stores the beginning of streams."""
        return any(function.name == KEEPER for function in self.functions.c)

    @property
    def closed(self) -> bool:
        """Whether packets do not pass without it."""
        return any(isolation.closed for _, isolation in self.isolations)

    @property
    def lossy(self) -> bool:
        """Whether it loses events if it is too slow; functions that share a process agree on it."""
        return all(isolation.lossy for _, isolation in self.isolations)

    @property
    def memory(self) -> int:
        """The limit of its memory in bytes; 0 for none."""
        return sum(isolation.memory for _, isolation in self.isolations)

    @property
    def cpu(self) -> float:
        """How many cores it may use; 0 for no limit."""
        return sum(isolation.cpu for _, isolation in self.isolations)

    @property
    def decides(self) -> bool:
        return any(function.inline for function in self.functions.c)

    @property
    def always(self) -> bool:
        functions = self.functions
        hooks = [*functions.python, *(hook for one in functions.c for hook in one.hooks)]
        return bool(functions.timers) or any(hook.layer == CHAIN for hook in hooks)


@dataclass
class IsolatedChain:
    """The parts of a chain, and its compiled stack with the numbers of its events."""

    plan: Plan
    parts: list[Part]
    stack: CompiledStack | None = None
    events: IsolatedEvents | None = None
    instances: dict[str, int] = field(default_factory=lambda: {})
    """How many instances functions have; those that are not named have one."""
    scopes: dict[str, Candidate] = field(default_factory=lambda: {})
    """By which scope the traffic of a function with several instances, or with state in a store, is divided."""
    inline: bool = False
    """Whether the stack was compiled for functions that drop, change or send packets."""

    def wanted(self) -> Wanted:
        """The code that is compiled with the stack instead of the functions."""
        return Wanted(c=[self.sender()], options=[{}])

    def set_options(self, wanted: Wanted) -> None:
        """Copy the options of the functions in C from those of the fused chain."""
        for part in self.parts:
            part.options = [] if part.python else [wanted.options[part.leader], *[""] * (len(part.functions.c) - 1)]

    @property
    def leaders(self) -> list[Part]:
        """The parts without further instances."""
        return [part for part in self.parts if not part.instance]

    def instances_of(self, name: str) -> list[Part]:
        """The instances of a function."""
        return [part for part in self.parts if part.name == name and part.instance is not None]

    def vertices(self) -> list[str]:
        """The functions whose traffic is divided, in order."""
        return [part.name for part in self.leaders if part.instance is not None]

    def candidates(self, name: str) -> list[Candidate]:
        """The scopes by which the traffic of a function may be divided."""
        assert self.stack is not None
        part = next(part for part in self.leaders if part.name == name)
        if part.python:
            return [Candidate(FLOWS, ())]
        return candidates(part.functions.c[0], self.stack.program)

    def add_instance(self, name: str, number: int) -> Part:
        """A further instance of a function, in a place that is free."""
        leader = next(part for part in self.leaders if part.name == name)
        known = {part.instance for part in self.instances_of(name)}
        instance = next(one for one in range(FUNCTIONS) if one not in known)
        self.parts.append(replace(leader, number=number, instance=instance, options=list(leader.options)))
        self.set_orders()
        return self.parts[-1]

    def set_orders(self) -> None:
        """The parts that each part waits for, and those that withhold events from it, with all instances."""
        for part in self.parts:
            part.before = part.drops = 0
            _set_order(self.plan, part, self.parts)

    def sender(self) -> CFunction:
        return sender([part.functions for part in self.leaders], self.plan.chain.keep)

    def compile(self, stack: CompiledStack) -> None:
        """Compile the functions for a stack that was compiled with `wanted`."""
        self.stack, self.inline = stack, self.sender().inline
        self.events = number_events(stack.program, [part.functions for part in self.leaders])
        for part in self.leaders:
            self.compile_part(part)
            for other in self.parts:
                other.compiled = part.compiled if other.leader == part.leader else other.compiled
        for name in self.vertices():
            self.scopes.setdefault(name, choose(self.candidates(name)))

    def compile_part(self, part: Part) -> None:
        """Compile the functions of one process."""
        assert self.stack is not None and self.events is not None
        program = self.stack.program
        name = f"isolated_{part.name}"
        generated = receiver(program, part.functions, self.events, self.subscribed(), name)
        part.compiled = CompiledStack(program, generated, compile_library(generated), part.functions, 0.0)

    def subscribed(self) -> frozenset[str]:
        """The published events that have subscribers, each with those whose base it is."""
        known = self.parts[0].functions.published if self.parts else PublishedEvents(())
        hooks = {hook.event for part in self.parts for hook in _all_hooks(part.functions) if hook.layer == CHAIN}
        return frozenset(name for name in known.names if set(known.lineage(name)) & hooks)

    def types(self) -> list[int]:
        """struct sl_iso_events.types."""
        assert self.stack is not None and self.events is not None
        return types(self.stack.program, self.sender().hooks, self.events)

    def bytes(self) -> list[int]:
        """struct sl_iso_events.bytes."""
        assert self.stack is not None and self.events is not None
        found: list[int] = []
        for layer, event in self.events.stack:
            places = places_of_bytes(self.stack.program.layers[layer].events[event])
            if len(places) >= BYTES_MOST:
                raise DescriptionError(
                    f"event '{event}' of layer '{layer}' has {len(places)} fields of bytes: isolated functions receive "
                    f"at most {BYTES_MOST - 1}",
                    "split its layout, or run the chain without --isolate.",
                    self.plan.chain.where,
                )
            found += [*places, *[NONE] * (BYTES_MOST - len(places))]
        return found

    def subscriptions(self, part: Part) -> list[int]:
        """The numbers of the events that a process receives."""
        assert self.stack is not None and self.events is not None
        needed = received(self.stack.program, part.functions)
        return [number for number, event in enumerate(self.events.stack) if event in needed]


def added(chain: IsolatedChain, plan: Plan, name: str, number: int) -> Part:
    """The part of a function that a running chain did not have, or not in this form. plan: with the function. number:
    of the part. Raises DescriptionError for events or fields that the running stack does not have.
    """
    assert chain.stack is not None and chain.events is not None
    part = next((part for part in isolate(plan, stores=True).parts if name in part.members and not part.python), None)
    if part is None:
        raise _refused(plan, name, "is in Python", "restart the chain: functions in Python share a process")
    if any(function.shared for function in part.functions.c):
        raise _refused(plan, name, "declares shared objects (SLUICE_SHARED)", "restart the chain with it")
    part.functions = replace(part.functions, c=tuple(_stored(function, False) for function in part.functions.c))
    part.number, part.before, part.drops, part.leader, part.instance = number, 0, 0, number, None
    _set_order(plan, part, [*(other for other in chain.parts if other.number != number), part])
    known = {(event.function, event.name, event.fields) for event in chain.events.published}
    for event in part.functions.c[0].publishes:
        if event.name in chain.subscribed() and (event.function, event.name, event.fields) not in known:
            raise _not_there(plan, name, f"publishes '{event.name}' in another form")
    for what, is_so in (
        ("drops, changes or sends packets, and none did", part.decides and not chain.inline),
        ("reads layers of packets, and none did", part.functions.needs_path and not chain.events.paths),
        ("reads units of packets, and none did", part.functions.needs_units and chain.events.paths < 2),
    ):
        if is_so:
            raise _not_there(plan, name, what)
    has = set(chain.events.stack)
    names = {event for _, event in has} | {event.name for event in part.functions.events.all}
    for hook in part.functions.c[0].hooks:
        if hook.layer != CHAIN and hook.event not in names:
            events = ", ".join(f"{layer}.{event}" for layer, event in sorted(has))
            raise _not_there(plan, name, f"subscribes to {hook.layer}.{hook.event}, and the stack sends {events}")
    return part


def _not_there(plan: Plan, name: str, what: str) -> DescriptionError:
    return DescriptionError(
        f"'{name}' {what}: the running stack was not compiled for that", "restart the chain.", plan.chain.where
    )


def isolate(plan: Plan, instances: dict[str, int] | None = None, stores: bool = False) -> IsolatedChain:
    """The parts of a chain. instances: how many of functions, by name. stores: shared objects are in a store.

    Raises DescriptionError for functions that cannot run in a separate process, or not in several.
    """
    given = dict(instances or {})
    _check_instances(plan, given)
    wanted = plan.wanted()  # also sets which drops withhold events from functions in Python
    members = [member for member in plan.members if isinstance(member.loaded, CFunction)]
    functions = [_stored(function, stores) for function in plan.c()]
    for function in functions:
        _check(plan, function, stores)
    published = tuple(event for function in functions for event in function.published)
    parts: list[Part] = []
    for number, (member, function) in enumerate(zip(members, functions, strict=True)):
        keeper = plan.keeper([function])
        own = ReceivedFunctions(
            c=(replace(function, after=()), *([keeper] if keeper else [])),
            outside=published,
            publishing=tuple(_publishing(plan, [member])),
        )
        options: list[Options] = [wanted.options[number], *([""] if keeper else [])]
        parts.append(Part(member.name, number, own, (member.name,), options=options, leader=number))
        if member.name in given or function.shared or function.stored:
            parts[-1].instance = 0
        parts[-1].isolations = [(member.item, member.item.isolation)]
    if wanted.python:
        for function in wanted.python:
            if function.many:
                raise _refused(plan, function.label, "takes many events at once (@on_batch)", "write @on")
            if function.verdicts:
                advice = "write it in C, or run the chain without --isolate"
                raise _refused(plan, function.label, "decides about packets in Python (Verdicts)", advice)
        in_python = [member for member in plan.members if isinstance(member.loaded, PythonFunction)]
        own = ReceivedFunctions(
            python=wanted.python_hooks(), demanded=wanted.python_demanded(), outside=published,
            publishing=tuple(_publishing(plan, in_python)),
        )  # fmt: skip
        names = tuple(member.name for member in in_python)
        parts.append(Part(names[0], len(parts), own, names, wanted.python))
        parts[-1].isolations = [(member.item, member.item.isolation) for member in in_python]
        parts[-1].leader = parts[-1].number
        counts = [given.pop(name) for name in names if name in given]
        if counts:
            parts[-1].instance = 0
            given[names[0]] = max(counts)
    chain = IsolatedChain(plan, parts, instances=dict(given))
    for name, count in given.items():
        for _ in range(1, count):
            if len(chain.parts) == FUNCTIONS:
                raise _refused(plan, name, "has more instances than there are processes", "give fewer")
            chain.add_instance(name, len(chain.parts))
    if len(chain.vertices()) > VERTICES:
        what = f"is one of more than {VERTICES} functions with several instances, or with state in a store"
        raise _refused(plan, chain.vertices()[-1], what, "give fewer")
    chain.set_orders()
    for part in parts:
        _check_overload(plan, part)
    return chain


def _stored(function: CFunction, stores: bool) -> CFunction:
    """A function whose state of connections a store has, by their keys; without a store, no one needs these."""
    if function.stored is None:
        return function
    return replace(function, key=True) if stores else replace(function, stored=None)


def _check_instances(plan: Plan, instances: dict[str, int]) -> None:
    """Refuse several instances of functions that cannot have them."""
    members = {member.name: member.loaded for member in plan.members}
    for name, count in instances.items():
        loaded = members.get(name)
        if loaded is None:
            raise DescriptionError(
                f"the chain has no function '{name}'; it has {', '.join(members)}",
                "write --instances NAME=NUMBER.",
                plan.chain.where,
            )
        if not isinstance(loaded, CFunction) and count > 1 and loaded.shared:
            raise _refused(
                plan, name, "is in Python, and declares shared objects", "give it one instance, or write it in C"
            )
        isolation = next(member.item.isolation for member in plan.members if member.name == name)
        if isolation.lossy:
            raise _refused(plan, name, 'loses events (overload="lose")', "give it one process, without --instances")


def _check_overload(plan: Plan, part: Part) -> None:
    """A function that decides about packets gets all of them."""
    item = part.isolations[0][0]
    if part.decides and any(isolation.lossy for _, isolation in part.isolations):
        raise DescriptionError(
            f"'{item.name}' decides about packets, and overload=\"lose\" would let it miss some",
            'write overload="wait", or leave it out.',
            item.where,
        )


def _set_order(plan: Plan, part: Part, parts: Sequence[Part]) -> None:
    """Which parts a part waits for: those before it that drop packets, or publish events to which it subscribes."""
    hooks = {hook.event for hook in _all_hooks(part.functions) if hook.layer == CHAIN}
    from_ = {name for event in hooks for name in publishers(plan, event)}
    for other in parts:
        if other is part or other.python or not any(plan.is_before(other.name, name) for name in part.members):
            continue
        drops = any(function.drops for function in other.functions.c)
        part.drops |= drops << other.number
        part.before |= (drops or other.name in from_) << other.number


def _all_hooks(functions: ReceivedFunctions) -> list[Hook]:
    events = [Hook(event.layer, event.base) for function in functions.c for event in function.events]
    python = functions.python.union(*functions.demanded)
    return [*events, *python, *(hook for function in functions.c for hook in function.hooks)]


def _publishing(plan: Plan, members: Sequence[Member]) -> list[Hook]:
    """The subscriptions of the functions that publish events to which some functions subscribe, directly or not."""
    by_name = {member.name: member for member in plan.members}
    to_see, seen, found = list(members), set[str](), list[Hook]()
    while to_see:
        member = to_see.pop()
        loaded = member.loaded
        if isinstance(loaded, CFunction):
            hooks = [*loaded.hooks, *(Hook(event.layer, event.base) for event in loaded.events)]
            hooks += [Hook(timer.layer, timer.name) for timer in loaded.timers]
        else:
            hooks = [*loaded.hooks(), *(hook for one in loaded.demanded() for hook in one)]
        if member not in members:
            found += hooks
        for name in {name for hook in hooks if hook.layer == CHAIN for name in publishers(plan, hook.event)} - seen:
            seen.add(name)
            if isinstance(by_name[name].loaded, CFunction):
                to_see.append(by_name[name])
    return found


_STACK_ONLY: tuple[tuple[Callable[[CFunction], bool], str], ...] = (
    (
        lambda function: any(size == 0 for _, size in function.kept),
        "reads bytes that the stack holds (sl_peek, sl_view)",
    ),
    (
        lambda function: bool(re.search(r"\b(sl_buffer|sl_policy)\s*\(", function.text)),
        "changes how the stack reassembles (sl_buffer, sl_policy)",
    ),
    (lambda function: "sl_give_back" in function.text, "ends instances of the stack (sl_give_back)"),
    (
        lambda function: bool(
            re.search(r"\b(SLUICE_(HOLD|RELEASE|DISCARD)|sl_(hold|release|discard))\b", function.text)
        ),
        "holds packets (SLUICE_HOLD, SLUICE_RELEASE, SLUICE_DISCARD)",
    ),
)


def _check(plan: Plan, function: CFunction, stores: bool) -> None:
    """Refuse functions that need the stack's own memory."""
    if function.shared and not stores:
        what = "declares shared objects (SLUICE_SHARED), which need a store"
        raise _refused(plan, function.label, what, "give --store embedded, or run the chain without --isolate")
    for is_so, what in _STACK_ONLY:
        if is_so(function):
            raise _refused(plan, function.label, what, "run the chain without --isolate")


def _refused(plan: Plan, name: str, what: str, advice: str) -> DescriptionError:
    return DescriptionError(f"'{name}' {what}, which an isolated function cannot", f"{advice}.", plan.chain.where)
