"""The parts of functions in the generated C: their state in instances, their destructors, and the types of `data`."""

from __future__ import annotations

from collections.abc import Iterable

from sluice.codegen.c.names import identifier
from sluice.codegen.layer.instance_layout import Table
from sluice.hooks.c_words import C_WORDS
from sluice.hooks.function import CFunction, Functions
from sluice.hooks.subscription import HookError, is_named, means
from sluice.ir.graph import EventShape, LayerProgram, Program
from sluice.ir.hook import Hook


def function_states(table: Table, functions: Functions) -> list[str]:
    """Names of the functions that store state in the instances of a table."""
    found: list[str] = []
    for function in functions.c:
        events = (Hook(event.layer, event.name) for event in function.events)
        timers = (Hook(timer.layer, timer.name) for timer in function.timers)
        if function.state and _about(table, functions.reached((*function.hooks, *events, *timers))):
            found.append(function.name)
    return found


def destructors(table: Table, functions: Functions) -> list[str]:
    """Statements that call the destructors of the state that functions store in an instance of a table."""
    kept = function_states(table, functions)
    return [
        f"{function.name}_destroy(&box->base, {state_of(function, table.layers[0])});"
        for function in functions.c
        if function.destroys and function.name in kept
    ]


def state_of(function: CFunction, layer: LayerProgram) -> str:
    """A C expression: the address of a function's state for the instance `inst` of a layer."""
    if not function.beside:
        return f"&inst->{function.name}_state"
    name, index = function.name, f"index_{identifier(layer.name)}"
    place = f"&box->base, {name}_index, {index}, inst->head.slot, sizeof({name}_state_type)"
    return f"({name}_state_type *)sl_beside({place})"


def is_on_demand(table: Table, functions: Functions) -> bool:
    """Whether on-demand handlers may be registered for single instances of a table."""
    hooks = [function.on_demand for function in functions.c] + [tuple(hooks) for hooks in functions.demanded]
    return any(_about(table, functions.reached(wanted)) for wanted in hooks)


def _about(table: Table, hooks: Iterable[Hook]) -> bool:
    """Whether a hook means events that carry instances of a table."""
    layers = [*table.layers, *table.takers]
    return any(is_named(hook.layer, layer) for hook in hooks for layer in layers)


def callback_name(program: Program, layer: LayerProgram, event: str) -> str:
    """The C function that the user may define for an event: just the event's name, if unambiguous (as in the paper)."""
    same = {other.layer for other in program.layers.values() if event in other.events and other.events[event].callback}
    return identifier(event) if len(same) == 1 else identifier(f"{layer.layer}_{event}")


def callback_functions(program: Program) -> dict[str, EventShape]:
    """By name, the functions that the user may define, with the shape of their data."""
    found: dict[str, EventShape] = {}
    for layer in program.layers.values():
        for event, shape in layer.events.items():
            if shape.callback:
                found[callback_name(program, layer, event)] = shape
    return found


def embedded_struct(prefix: str, shape: EventShape) -> str:
    """The C struct of an event's data for the embedding program; a user's layout has the stack's prefix."""
    return f"struct {prefix}_{identifier(shape.callback)}" if shape.callback else event_struct(shape)


def embedded_functions(program: Program, functions: Functions) -> dict[str, EventShape]:
    """By name, the functions that the embedding program may define, with the shape of their data: those of Callbacks, and
    those of the chosen built-in events, each for all layers.
    """
    prefix = identifier(program.name)
    found = {f"{prefix}_{name}": shape for name, shape in callback_functions(program).items()}
    for layer in program.layers.values():
        for event, shape in layer.events.items():
            if is_embedded(layer, event, functions):
                found.setdefault(f"{prefix}_on_{event}", shape)
    return found


def is_embedded(layer: LayerProgram, event: str, functions: Functions) -> bool:
    """Whether the embedding program gets a built-in event of a layer."""
    return any(hook.event == event and is_named(hook.layer, layer) for hook in functions.embedded or ())


def event_struct(shape: EventShape) -> str:
    """The C struct of an event's data: the user's layout by its name, unless C or the runtime reserves that name."""
    if not shape.callback:
        return f"struct sl_on_{shape.name}"
    taken = shape.callback in C_WORDS or shape.callback.startswith("sl_")
    return f"struct {shape.callback}{'_' if taken else ''}"


def data_names(program: Program, functions: Functions, function: CFunction) -> list[str]:
    """Definitions that give `data` its type in each handler and each filter of a function.

    Raises HookError if a hook means events of one name that carry different data.
    """
    out: list[str] = []
    for hook in dict.fromkeys([*function.hooks, *(Hook(event.layer, event.name) for event in function.events)]):
        structs: dict[str, str] = {}
        root = hook.event
        for layer in (*program.layers.values(), functions.published.layer()):
            if means(hook, layer, hook.event):
                root = functions.events.root(layer, hook.event)
                if root in layer.events:
                    structs.setdefault(event_struct(layer.events[root]), layer.layer)
        if len(structs) > 1:
            layers = " and ".join(f"'{layer}'" for layer in structs.values())
            raise HookError(
                f"{function.path}: event '{hook.event}' brings different data along in the layers {layers}\n"
                "    write a SLUICE_ON for each layer, by its name."
            )
        struct = next(iter(structs), f"struct sl_on_{root}")  # built-in if no layer has it
        layer_name = "any" if hook.layer == "*" else hook.layer
        out.append(f"#define sl_data_{layer_name}_{hook.event} {struct}")
    return out
