"""Functions on events: what a C file hooks, and the stack that carries it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from sluice.codegen.declared import Counters, read_counters, read_parameters
from sluice.codegen.layout import Table
from sluice.codegen.names import C_WORDS, identifier
from sluice.codegen.parameter import Parameter, ParameterError
from sluice.ir.build import Hook
from sluice.ir.graph import EventShape, LayerProgram, Program

_ON = re.compile(r"^SLUICE_ON\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.MULTILINE)
_STATE = re.compile(r"^SLUICE_STATE\(", re.MULTILINE)
_WORKER = re.compile(r"^SLUICE_WORKER\(", re.MULTILINE)
_OPEN = re.compile(r"^SLUICE_OPEN\b", re.MULTILINE)
_CLOSE = re.compile(r"^SLUICE_CLOSE\b", re.MULTILINE)


class HookError(ValueError):
    """A C function that hooks what cannot be hooked so; the message says what to do."""


@dataclass(frozen=True)
class CFunction:
    """A function in C: its name, its text, where the text stands, what it hooks, and what else it declares."""

    name: str
    text: str
    path: str
    hooks: tuple[Hook, ...]
    state: bool
    worker: bool
    opens: bool
    closes: bool
    parameters: tuple[Parameter, ...] = ()
    counters: Counters = ()


@dataclass(frozen=True)
class Functions:
    """All functions that are compiled with a stack. `python`: events that functions in Python want."""

    c: tuple[CFunction, ...] = ()
    python: frozenset[Hook] = field(default_factory=lambda: frozenset[Hook]())

    def hooks(self) -> frozenset[Hook]:
        """Every event that somebody listens to."""
        return self.python | frozenset(hook for function in self.c for hook in function.hooks)


def read_c_function(name: str, text: str, path: str) -> CFunction:
    """What the text of a C function declares by its SLUICE_ lines.

    Raises HookError when it hooks nothing, or declares a parameter that could not be read.
    """
    hooks = tuple(Hook("*" if layer == "any" else layer, event) for layer, event in _ON.findall(text))
    if not hooks:
        raise HookError(f"{path}: no line begins with SLUICE_ON(layer, event), so the function would never be called")
    try:
        parameters, counters = read_parameters(text, path), read_counters(text, path)
    except ParameterError as error:
        raise HookError(str(error)) from None
    return CFunction(
        name=name,
        text=text,
        path=path,
        hooks=hooks,
        state=bool(_STATE.search(text)),
        worker=bool(_WORKER.search(text)),
        opens=bool(_OPEN.search(text)),
        closes=bool(_CLOSE.search(text)),
        parameters=parameters,
        counters=counters,
    )


def listens(hook: Hook, layer: str, user_layer: str, prototype: str, event: str) -> bool:
    """Whether a hook means this event of this layer."""
    return hook.event == event and hook.layer in ("*", layer, user_layer, prototype)


def function_states(table: Table, functions: Functions) -> list[str]:
    """Names of the functions that keep something in the instances of a table."""
    found: list[str] = []
    for function in functions.c:
        if function.state and any(
            hook.layer in ("*", layer.name, layer.layer, layer.prototype)
            for hook in function.hooks
            for layer in [*table.layers, *table.takers]
        ):
            found.append(function.name)
    return found


def callback_name(program: Program, layer: LayerProgram, event: str) -> str:
    """The C function that the user may define for an event: its name alone where that is enough (as in the paper)."""
    same = {other.layer for other in program.layers.values() if event in other.events and other.events[event].callback}
    return identifier(event) if len(same) == 1 else identifier(f"{layer.layer}_{event}")


def callback_functions(program: Program) -> dict[str, EventShape]:
    """The functions that the user may define, with the data that each gets."""
    found: dict[str, EventShape] = {}
    for layer in program.layers.values():
        for event, shape in layer.events.items():
            if shape.callback:
                found[callback_name(program, layer, event)] = shape
    return found


def event_struct(shape: EventShape) -> str:
    """The C struct of an event's data: the user's layout by its name, where C and the runtime leave that free."""
    if not shape.callback:
        return f"struct sl_on_{shape.name}"
    taken = shape.callback in C_WORDS or shape.callback.startswith("sl_")
    return f"struct {shape.callback}{'_' if taken else ''}"


def data_names(program: Program, function: CFunction) -> list[str]:
    """Definitions that give `data` its type in each SLUICE_ON of a function.

    Raises HookError where a hook means events of one name that bring different data along.
    """
    out: list[str] = []
    for hook in dict.fromkeys(function.hooks):
        structs: dict[str, str] = {}
        for layer in program.layers.values():
            for event, shape in layer.events.items():
                if listens(hook, layer.name, layer.layer, layer.prototype, event):
                    structs.setdefault(event_struct(shape), layer.layer)
        if len(structs) > 1:
            layers = " and ".join(f"'{layer}'" for layer in structs.values())
            raise HookError(
                f"{function.path}: event '{hook.event}' brings different data along in the layers {layers}\n"
                "    write a SLUICE_ON for each layer, by its name."
            )
        struct = next(iter(structs), f"struct sl_on_{hook.event}")  # built-in where no layer has it
        who = "any" if hook.layer == "*" else hook.layer
        out.append(f"#define sl_data_{who}_{hook.event} {struct}")
    return out
