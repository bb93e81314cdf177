"""The data of instances in event messages, besides their number: the fields and keys that functions read.

A message is written once for all functions that receive it. It has fields, or the key, if one of these functions reads
fields or keys; of the fields those that any function of the chain reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sluice.chain.check import publishers
from sluice.chain.plan import Plan
from sluice.chain.processes.memory import LAYERS, Control
from sluice.chain.processes.program import IsolatedChain, Part
from sluice.codegen.layer.instance_layout import tables
from sluice.hooks.function import ANY_FIELD
from sluice.hooks.published import CHAIN
from sluice.ir.graph import Program

FIELDS, KEY = 1, 2
"""enum sl_iso_reads."""
_LAST = 63
"""The bit of all fields from the 64th on."""


@dataclass(frozen=True)
class Reads:
    """The data that a function reads: fields of instances by name, and whether keys."""

    fields: frozenset[str] = frozenset()
    key: bool = False

    def __or__(self, other: Reads) -> Reads:
        return Reads(self.fields | other.fields, self.key or other.key)

    @property
    def flags(self) -> int:
        """As messages have them."""
        return (FIELDS if self.fields else 0) | (KEY if self.key else 0)


def reads_of(part: Part) -> Reads:
    """The data that a process's functions read. Records for Python have the key, and instances divide traffic by it."""
    found = Reads(key=bool(part.python) or part.instance is not None)
    for function in part.functions.c:
        found |= Reads(function.fields, function.key)
    return found


def needs(plan: Plan, parts: Iterable[Part]) -> dict[int, Reads]:
    """By number of a part, the data read by it and by subscribers of its events: their messages have the data that it
    has of an instance.
    """
    all_ = list(parts)
    found = {part.number: reads_of(part) for part in all_}
    for part in reversed(all_):  # publishers are before their subscribers
        hooks = {hook.event for function in part.functions.c for hook in function.hooks if hook.layer == CHAIN}
        hooks |= {hook.event for hook in part.functions.python.union(*part.functions.demanded) if hook.layer == CHAIN}
        names = {name for event in hooks for name in publishers(plan, event)}
        for other in all_:
            if other.name in names:
                found[other.number] |= found[part.number]
    return found


def field_names(program: Program) -> list[list[str]]:
    """By index of a layer, the fields of its instances, in the order of struct sl_layer_info."""
    of = tables(program)
    found: list[list[str]] = []
    for layer in program.layers.values():
        table = of[layer.instance.table] if layer.instance is not None else None
        fields = [reg for reg, _ in table.fields if reg.space == "perm"] if table is not None else []
        found.append([reg.name.partition(".")[2] for reg in fields])
    return found


def mask(names: list[str], fields: frozenset[str]) -> int:
    """The bits of some fields of a layer."""
    bits = [min(n, _LAST) for n, name in enumerate(names) if name in fields or ANY_FIELD in fields]
    return sum(1 << bit for bit in set(bits))


def flags(chain: IsolatedChain) -> list[int]:
    """By number of an event, the content of its messages."""
    assert chain.events is not None
    of = needs(chain.plan, chain.parts)
    found = [0] * len(chain.events.stack)
    for part in chain.parts:
        for number in chain.subscriptions(part):
            found[number] |= of[part.number].flags
    return found


def describe(chain: IsolatedChain, control: Control) -> None:
    """Set the content of messages from now on."""
    assert chain.stack is not None
    of = needs(chain.plan, chain.parts)
    everything = frozenset(name for reads in of.values() for name in reads.fields)
    for index, names in enumerate(field_names(chain.stack.program)[:LAYERS]):
        control.fields[index] = mask(names, everything)
    for number, value in enumerate(flags(chain)):
        control.reads[number] = value
    for number, reads in of.items():
        control.publishes[number] = reads.flags


def lacks(chain: IsolatedChain, control: Control, part: Part) -> bool:
    """Whether queued messages lack data that a function in the place of another one reads."""
    assert chain.stack is not None
    reads = reads_of(part)
    missing = any(
        mask(names, reads.fields) & ~control.fields[index]
        for index, names in enumerate(field_names(chain.stack.program)[:LAYERS])
    )
    return missing or any(reads.flags & ~control.reads[number] for number in chain.subscriptions(part))


def contents(chain: IsolatedChain) -> dict[str, list[str]]:
    """By event of the stack, the data of instances in its messages, as text."""
    assert chain.stack is not None and chain.events is not None
    of = needs(chain.plan, chain.parts)
    everything = frozenset(name for reads in of.values() for name in reads.fields)
    names = dict(zip(chain.stack.program.layers, field_names(chain.stack.program), strict=True))
    found: dict[str, list[str]] = {}
    for (layer, event), value in zip(chain.events.stack, flags(chain), strict=True):
        fields = [name for name in names[layer] if name in everything or ANY_FIELD in everything]
        found[f"{layer}.{event}"] = ["key"] * bool(value & KEY) + (fields if value & FIELDS else [])
    return found
