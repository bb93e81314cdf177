"""Control of single instances by functions: how their streams are reassembled, and which functions get their events.

If no function may control anything, the rules of a sequence are constants of the generated code. Otherwise each
instance has its own copy of the rules that can be controlled (runtime/control.h).
"""

from __future__ import annotations

from sluice.codegen.events.dispatch import Dispatcher, has_subscriber
from sluice.codegen.events.functions import is_embedded
from sluice.codegen.layer.instance_layout import Table
from sluice.hooks.function import Functions
from sluice.hooks.subscription import HookError, is_named
from sluice.ir.graph import LayerProgram

DECIDING_MOST = 64
"""The number of functions in C that can drop, change, hold or send packets, or control instances: each has a bit."""


def check_controls(functions: Functions, layers: list[LayerProgram]) -> None:
    """Raise HookError if a function declares control of a layer that cannot be controlled, or has no bit for verdicts."""
    for function in functions.c[DECIDING_MOST:]:
        if function.inline or function.controlled:
            what = "decides on packets" if function.inline else "controls instances"
            raise HookError(
                f"{function.path}: '{function.name}' {what}, and {DECIDING_MOST} functions precede it: a box "
                f"knows those by {DECIDING_MOST} bits\n    name it earlier, or divide the chain."
            )
    for function in functions.c:
        for layer in layers:
            if layer.rules is not None and (layer.rules.whole or layer.rules.units):
                # "*" means only the layers that can be controlled
                named = [name for name in function.controlled if name != "*" and is_named(name, layer)]
                if named:
                    what = "units" if layer.rules.units else "whole datagrams"
                    raise HookError(
                        f"{function.path}: SLUICE_CONTROL({named[0]}): '{layer.layer}' delivers {what}, of which nothing "
                        "can be left out\n    control a layer of byte streams, as tcp, or one without a sequence."
                    )


def is_controlled(table: Table, functions: Functions) -> bool:
    """Whether functions control single instances of a table."""
    layers = [*table.layers, *table.takers]
    declared = any(function.controls(layer) for function in functions.c for layer in layers)
    return declared or any(_on_demand_only(functions, layer) for layer in table.layers)


def controls_stream(table: Table, functions: Functions, layer: LayerProgram) -> bool:
    """Whether functions may control the reassembly of single instances of a layer."""
    return _delivers_bytes(layer) and is_controlled(table, functions)


def stream_wanted(functions: Functions, layer: LayerProgram, weak: bool) -> str:
    """The C condition, on `watched` and `stopped`, that a stream's bytes have a subscriber; "" if it always holds."""
    dispatcher = Dispatcher(functions, layer)
    events = _stream_events(layer)
    if layer.above:
        return ""
    defined = [event for event in events if event in layer.events]
    if weak and any(layer.events[event].callback or is_embedded(layer, event, functions) for event in defined):
        return ""
    subscribers = [subscriber for event in events for subscriber in dispatcher.subscribers(event)]
    return has_subscriber(subscribers) if subscribers else "false"


def stream_on_demand(functions: Functions, layer: LayerProgram) -> set[int]:
    """The bits of the on-demand handlers that use the bytes of a layer's streams."""
    dispatcher = Dispatcher(functions, layer)
    return set[int]().union(*(dispatcher.on_demand(event) for event in _stream_events(layer)))


def _delivers_bytes(layer: LayerProgram) -> bool:
    rules = layer.rules
    return rules is not None and rules.buffer_data and not rules.whole and not rules.units


def _stream_events(layer: LayerProgram) -> list[str]:
    """The events that carry bytes of a stream, or may carry them."""
    return ["data", "rexmit", *(event for event, shape in layer.events.items() if shape.callback)]


def _on_demand_only(functions: Functions, layer: LayerProgram) -> bool:
    """Whether only on-demand handlers use the bytes of a layer's streams."""
    if not _delivers_bytes(layer) or layer.above:
        return False
    dispatcher = Dispatcher(functions, layer)
    events = _stream_events(layer)
    subscribers = [subscriber for event in events for subscriber in dispatcher.subscribers(event)]
    return bool(subscribers) and all(subscriber.bit is not None for subscriber in subscribers)
