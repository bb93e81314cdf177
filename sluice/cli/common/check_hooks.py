"""Checks the subscriptions of functions before C is compiled: events that the stack does not have, and values that a
function in Python cannot read as attributes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sluice.cli.common.errors import CommandError
from sluice.engine.events import OWN_NAMES, Handler, PythonFunction
from sluice.engine.functions import READY, Wanted
from sluice.engine.published import check_published
from sluice.engine.published_cycles import check_cycles
from sluice.hooks.function import BOX, CFunction
from sluice.hooks.published import CHAIN
from sluice.hooks.subscription import is_named, means
from sluice.ir.graph import EventShape, LayerProgram, Program
from sluice.ir.hook import Hook
from sluice.lang.errors import did_you_mean
from sluice.lang.events import BUILT_IN


def check_hooks(program: Program, wanted: Wanted) -> list[str]:
    """Warnings about subscriptions of the user's functions that have no effect, and about hidden values.

    Ready functions are written for many stacks, so they are not checked. Raises CommandError if a function in C
    subscribes to an unknown event, because it cannot be compiled without the event's values.
    """
    check_published(wanted.c, wanted.python)
    check_cycles(wanted.c, wanted.python)
    warnings: list[str] = []
    defined = [event for function in wanted.c for event in function.events]
    for function in wanted.c:
        if Path(function.path).parent != READY:
            bases = [Hook(event.layer, event.base) for event in function.events]
            for hook in dict.fromkeys([*function.hooks, *bases]):
                if hook.layer == CHAIN:
                    continue  # below
                if any(event.name == hook.event for event in defined):
                    continue  # its base is checked instead
                unknown = _in_vain(program, hook)
                if unknown is not None and hook.event not in BUILT_IN:
                    raise CommandError(f"{function.path} subscribes to {unknown}")
                if unknown is not None:
                    warnings.append(f"{Path(function.path).name} subscribes to {unknown}")
            warnings += _declared_in_vain(program, function)
    for function in wanted.python:
        hooks = function.hooks().union(function.taken(), *function.demanded())
        for hook in sorted(hooks, key=lambda hook: (hook.layer, hook.event)):
            if hook.layer == CHAIN:
                continue
            if any(event.name == hook.event for event in defined):
                continue
            unknown = _in_vain(program, hook)
            if unknown is not None:
                warnings.append(f"{function.name}.py subscribes to {unknown}")
        warnings += dict.fromkeys(_hidden(program, function))
    return [*warnings, *_without_flows(program, wanted)]


def _without_flows(program: Program, wanted: Wanted) -> Iterator[str]:
    """A warning if the flow log will stay empty because the stack has no flows."""
    logs = any(Path(function.path) == READY / "flow_log.c" for function in wanted.c)
    if logs and not any(layer.instance and layer.instance.oriented for layer in program.layers.values()):
        yield (
            f"stack '{program.name}' has no connection-oriented layer, so there are no flows to list; "
            "a ConnectionOriented() parser with a selector of two lists makes them"
        )


def _declared_in_vain(program: Program, function: CFunction) -> Iterator[str]:
    """Warnings about other declarations of a function for layers that the stack does not have."""
    declared = [
        *((f"SLUICE_CONTROL({layer})", layer) for layer in function.controlled),
        *((f"SLUICE_KEEP({layer}, {octets})", layer) for layer, octets in function.kept),
        *((f"SLUICE_TIMER({timer.layer}, {timer.name})", timer.layer) for timer in function.timers),
    ]
    for what, layer in declared:
        if layer != BOX and not any(is_named(layer, one) for one in program.layers.values()):
            yield f"{Path(function.path).name}: {what} means {_no_layer(program, layer)}"


def _no_layer(program: Program, name: str) -> str:
    advice = did_you_mean(name, {layer.layer for layer in program.layers.values()})
    return f"layer '{name}', which the stack does not have; {advice}"


def _in_vain(program: Program, hook: Hook) -> str | None:
    """The layer or event of a hook that is missing in the stack, with advice; None if both exist."""
    layers = [layer for layer in program.layers.values() if means(hook, layer, hook.event)]
    known = sorted(set(BUILT_IN) | {event for layer in layers for event in layer.events})
    if not layers:
        return _no_layer(program, hook.layer)
    if hook.event not in known:
        which = "any layer" if hook.layer == "*" else f"'{hook.layer}'"
        return f"event '{hook.event}' of {which}, which the stack does not have; {did_you_mean(hook.event, known)}"
    return None


def _hidden(program: Program, function: PythonFunction) -> Iterator[str]:
    """Warnings about values whose names are attributes of every event, so that `event.NAME` is something else."""
    for wanted, event, handler in [*function.handlers, *function.on_demand]:
        for layer in program.layers.values():
            if event in layer.events and means(Hook(wanted, event), layer, event):
                for name, group in _names(layer, layer.events[event]):
                    if name in OWN_NAMES and not _reads(handler, name):
                        yield (
                            f"{function.name}.py: event.{name} of '{event}' is not the value '{name}' of yours, but "
                            f'what every event has under that name; write event.{group}["{name}"]'
                        )


def _names(layer: LayerProgram, shape: EventShape) -> Iterator[tuple[str, str]]:
    """The names of an event's values and key parts, each with the attribute that holds it ("values" or "key")."""
    yield from ((name, "values") for name, _ in shape.fields)
    if layer.instance is not None:
        for part in layer.instance.key:
            yield from ((name, "key") for name in (part.name, part.other) if name)


def _reads(handler: Handler, name: str) -> bool:
    """Whether a handler contains the name as a string constant, as in event.values["name"]."""
    code = getattr(handler, "__code__", None)
    return code is not None and name in code.co_consts
