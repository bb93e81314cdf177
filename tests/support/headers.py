"""The fields that a stack reads in the headers of a packet: every field of every layer, reported by an event."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.events import PythonFunction, Seen
from sluice.ir.hook import Hook
from sluice.lang import Assign, Bit, Callback, If, Stack, layout
from sluice.lang.layout import Field, LayoutType
from sluice.lang.prototype import Prototype
from sluice.stacks.find import find_stack
from tests.support.corpus import key_log

EVENT = "header_seen"
LONGEST = 1 << 12
"""A width that only marks the field as bytes."""


@dataclass(frozen=True, slots=True)
class Header:
    """A header of a packet: the layer's name in the stack, its parser's, and the fields that the packet has.

    instance: the number of the instance that the packet belongs to, 0 if there is none.
    """

    layer: str
    parser: str
    fields: dict[str, int | bytes]
    instance: int


def header_layouts(parser: Prototype) -> list[LayoutType]:
    """The layouts of a parser's header, each once."""
    return [] if parser.format is None else list(dict.fromkeys(parser.format.layouts()))


def header_fields(parser: Prototype) -> list[str]:
    """The names of all fields of a parser's header."""
    return [name for part in header_layouts(parser) for name in part.fields]


def prototypes(stack: Stack) -> list[Prototype]:
    """The parsers of a stack, each once."""
    return list(dict.fromkeys(layer.prototype for layer in stack.layers.values()))


def _register(field: Field) -> Field:
    return Bit(field.bits if isinstance(field.bits, int) else LONGEST)


def tell_headers(stack: Stack) -> Stack:
    """Add an event to every parser that reports its header, without absent parts, and return the stack."""
    for number, parser in enumerate(prototypes(stack)):
        parts = header_layouts(parser)
        members = {f"has_{part.__name__}": Bit(1) for part in parts}
        members |= {name: _register(field) for part in parts for name, field in part.fields.items()}
        data = LayoutType(f"{parser.name}_{number}_header_seen", (layout,), members or {"nothing": Bit(1)})
        told = Callback(data)
        for part in reversed(parts):
            there = parser.header_contain(part)
            for name, field in part.fields.items():
                told = (If(there) >> Assign(data.fields[name], field)) + told
            told = Assign(data.fields[f"has_{part.__name__}"], there) + told
        setattr(parser.event, EVENT, told)
    return stack


@cache
def telling(stack: str) -> CompiledStack:
    """A ready stack that reports its headers."""
    return compile_stack(tell_headers(find_stack(stack)), (), frozenset({Hook("*", EVENT)}))


@cache
def _parts(stack: str) -> dict[str, tuple[str, str, list[tuple[str, list[str]]]]]:
    """By layer of the program: the layer of the stack, its parser, and the parts of its header with their fields."""
    found: dict[str, tuple[str, str, list[tuple[str, list[str]]]]] = {}
    made, described = telling(stack), find_stack(stack)
    for name, layer in made.program.layers.items():
        parser = described.layers[layer.layer].prototype
        parts = [(part.__name__, list(part.fields)) for part in header_layouts(parser)]
        found[name] = layer.layer, parser.name, parts
    return found


def headers_of(stack: str, path: Path) -> dict[int, list[Header]]:
    """The headers of a capture's packets, lowest layer first, by frame, from 1. Uses the capture's key log, if any."""
    parts = _parts(stack)
    found: dict[int, list[Header]] = {}

    def saw(event: Seen) -> None:
        layer, parser, own = parts[event.layer]
        values = event.values
        fields = {name: values[name] for part, names in own if values[f"has_{part}"] for name in names}
        found.setdefault(event.packet, []).append(Header(layer, parser, fields, event.instance))

    look = PythonFunction("look", [("*", EVENT, saw)], [])
    secrets = key_log(path)
    natives = {} if secrets is None else {"keylog": str(secrets)}
    with Box(telling(stack), Settings(timeouts=False, seed=1, natives=natives), [look]) as box:
        box.run(path)
    return found
