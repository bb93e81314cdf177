"""Functions on events: what a C file hooks, and the stack that carries it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from sluice.codegen.layout import Table
from sluice.codegen.names import identifier
from sluice.ir.build import Hook
from sluice.ir.graph import LayerProgram, Program

_ON = re.compile(r"^SLUICE_ON\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.MULTILINE)
_STATE = re.compile(r"^SLUICE_STATE\(", re.MULTILINE)
_WORKER = re.compile(r"^SLUICE_WORKER\(", re.MULTILINE)
_OPEN = re.compile(r"^SLUICE_OPEN\b", re.MULTILINE)
_CLOSE = re.compile(r"^SLUICE_CLOSE\b", re.MULTILINE)


@dataclass(frozen=True)
class CFunction:
    """A function in C: its name, its text, where the text stands, and what it hooks."""

    name: str
    text: str
    path: str
    hooks: tuple[Hook, ...]
    state: bool
    worker: bool
    opens: bool
    closes: bool


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

    Raises ValueError when it hooks nothing.
    """
    hooks = tuple(Hook("*" if layer == "any" else layer, event) for layer, event in _ON.findall(text))
    if not hooks:
        raise ValueError(f"{path}: no line begins with SLUICE_ON(layer, event), so the function would never be called")
    return CFunction(
        name=name,
        text=text,
        path=path,
        hooks=hooks,
        state=bool(_STATE.search(text)),
        worker=bool(_WORKER.search(text)),
        opens=bool(_OPEN.search(text)),
        closes=bool(_CLOSE.search(text)),
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
            for layer in table.layers
        ):
            found.append(function.name)
    return found


def callback_name(program: Program, layer: LayerProgram, event: str) -> str:
    """The C function that the user may define for an event: its name alone where that is enough (as in the paper)."""
    same = {other.layer for other in program.layers.values() if event in other.events and other.events[event].callback}
    return identifier(event) if len(same) == 1 else identifier(f"{layer.layer}_{event}")
