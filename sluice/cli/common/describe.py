"""A stack as plain data: its parse tree, layers and state machines. `show` prints it, draws it, or gives it as JSON."""

from __future__ import annotations

from typing import Any

from sluice.cli.common.wording import action_words, field_words, header_words, words
from sluice.lang.expression import NUMBER, Below
from sluice.lang.layer import Layer
from sluice.lang.prototype import Prototype
from sluice.lang.psm import PSM
from sluice.lang.sequence import Received
from sluice.lang.stack import Stack
from sluice.lower.build import layer_expressions
from sluice.lower.layer_state import callbacks

Data = dict[str, Any]


def describe(stack: Stack) -> Data:
    """Describe a stack. All values are strings, numbers, booleans, None, lists and dictionaries."""
    roots = [
        {"link_type": link_type, "layer": layer.name}
        for layer in stack.roots()
        for link_type in (layer.prototype.link_types or (None,))
    ]
    steps = [
        {
            "lower": branch.lower.name,
            "upper": branch.upper.name,
            "when": words(branch.condition, branch.lower),
        }
        for branch in stack.branches
    ]
    return {
        "stack": stack.name,
        "depth": stack.depth,
        "records": stack.records if any(layer.prototype.record for layer in stack.layers.values()) else 0,
        "roots": roots,
        "steps": steps,
        "layers": [describe_layer(layer, stack) for layer in stack.layers.values()],
    }


def describe_layer(layer: Layer, stack: Stack) -> Data:
    """Describe one layer of a stack."""
    p = layer.prototype
    asked = [item.name for item in layer_expressions(layer, stack) if isinstance(item, Below)]
    return {
        "name": layer.name,
        "parser": p.name,
        "where": p.where.short,
        "header": header_words(p.format, layer) if p.format is not None else [],
        "requires": [
            {"condition": words(r.condition, layer), "reason": r.reason, "option": r.option} for r in p.requirements
        ],
        "needs": list(dict.fromkeys(asked)),
        "offers": {name: words(value, layer) for name, value in p.offers.items()},
        "changes": {
            name: f"{words(value, layer)} if {words(condition, layer)}"
            for name, (condition, value) in p.overrides.items()
        },
        "key": [[words(item, layer) for item in half] for half in p.keys or ()],
        "key_when": None if p.key_condition is None else words(p.key_condition, layer),
        "creates": None if p.creating is None else words(p.creating, layer),
        "alias": [[words(item, layer) for item in key] for key in p.alias_keys or ()]
        + ([["selector"]] if p.alias_by_selector else []),
        "alias_when": None if p.alias_condition is None else words(p.alias_condition, layer),
        "temp": [field_words(field) for field in p.temp_layout.fields.values()] if p.temp_layout is not None else [],
        "perm": [field_words(field) for field in p.perm_layout.fields.values()] if p.perm_layout is not None else [],
        "prep": [action_words(part, layer) for part in p.prep_block.actions] if p.prep_block is not None else [],
        "message": _message(layer, p),
        "sequence": _sequence(layer, p),
        "sdu": None if p.sdu_choice is None else action_words(p.sdu_choice, layer),
        "timeout": p.timeout,
        "lifetime": p.lifetime,
        "max_instances": p.max_instances,
        "machine": None if p.machine is None else _machine(p.machine, layer),
        "events": [
            {
                "name": event.name,
                "action": action_words(event.action, layer),
                "where": event.where.short,
                "callbacks": {
                    data.__name__: {
                        field.name: field.bits if field.kind == NUMBER else None for field in data.fields.values()
                    }
                    for data in (callback.data for callback in callbacks(event.action))
                },
            }
            for event in p.events.defined.values()
        ],
        "relations": [f"{r.first.name}, {r.second.name}" for r in p.relations.before]
        + [f"{r.cause.name} >> {r.effect.name}" for r in p.relations.along],
    }


def _message(layer: Layer, p: Prototype) -> Data | None:
    m = p.framing
    if m is None:
        return None
    return {
        "length": words(m.length, layer),
        "limit": m.limit,
        "resync": None if m.resync is None else words(m.resync, layer),
    }


def _received(layer: Layer, received: Received | None) -> list[Data] | None:
    """The received items of a receiver, with the conditions that select them."""
    if received is None:
        return None
    return [
        {
            "if": None if condition is None else words(condition, layer),
            "when": words(when, layer),
            "received": words(position, layer),
            "edge": words(edge, layer),
        }
        for condition, (when, position, edge) in received
    ]


def _sequence(layer: Layer, p: Prototype) -> Data | None:
    s = p.sequence
    if s is None:
        return None
    return {
        "when": None if p.sequence_condition is None else words(p.sequence_condition, layer),
        "meta": words(s.meta, layer),
        "data": words(s.data, layer),
        "data_len": None if s.data_len is None else words(s.data_len, layer),
        "zero_based": s.zero_based,
        "start": None if s.start is None else words(s.start, layer),
        "base": None if s.base is None else words(s.base, layer),
        "outside": None if s.outside is None else words(s.outside, layer),
        "acknowledged": _received(layer, s.acknowledged),
        "acknowledges": _received(layer, s.acknowledges),
        "decides": None if s.decides is None else [words(item, layer) for item in s.decides],
        "grace": s.grace / 10**9,
        "skip": None if s.skip is None else words(s.skip, layer),
        "window": None if s.window is None else [words(item, layer) for item in s.window],
        "enforce": s.enforce,
        "policy": s.policy,
        "whole": s.whole,
        "units": s.units,
        "head": None if words(s.head, layer) == "0" else words(s.head, layer),
        "limit": s.limit or None,
        "limit_pieces": s.limit_pieces,
        "limit_records": s.limit_records,
        "history": s.history,
        "buffer_data": p.buffer_data,
    }


def _machine(machine: PSM, layer: Layer) -> Data:
    return {
        "states": [
            {"name": s.name, "start": s.start, "accept": s.accept, "closed": s.closed} for s in machine.states()
        ],
        "transitions": [
            {
                "name": t.name,
                "from": t.source.name,
                "to": t.target.name,
                "when": "" if t.condition is None else words(t.condition, layer),
                "timeout": t.timeout,
                "restart": t.restart,
            }
            for t in machine.transitions.values()
        ],
    }
