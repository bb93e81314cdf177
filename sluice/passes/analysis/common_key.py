"""Finds what the keys of all instances that a packet may reach have in common.

Workers share nothing, so all packets of an instance must reach the same worker, which is selected by the bytes of each
packet alone. The selection therefore depends on a part of the key that all instances on the packet's path have. For an
IPv4 fragment and its connection, this part is the addresses, but neither the ports nor the identification. Slots show
which parts are the same: a part of a layer's key is what a layer below stored in a slot, unless a layer in between has
overwritten the slot.

All layers are analysed together. A connection's packets reach it both directly and from fragments, so layers that share
a key with it also share one with each other; and layers with one table share instances.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from sluice.ir.expression import Expr, Reg, registers
from sluice.ir.graph import LayerProgram, Program
from sluice.ir.instruction import Assign, Lookup, NextLayer
from sluice.passes.analysis.blocks import undetermined

T = TypeVar("T")

Keys = tuple[tuple[Expr, ...], tuple[Expr, ...]]
"""The parts of a key, and those of its reverse if it has one."""


@dataclass(frozen=True)
class Place:
    """A part of a layer's key: `half` is 1 in the reverse."""

    layer: str
    half: int
    index: int


Part = tuple[Place, Place]
"""Two parts that are exchanged in the reverse, each as its representative; the same part twice if there is no reverse.
"""


def common_keys(program: Program) -> dict[str, Keys]:
    """For every layer with stored instances, the parts of its key that select their worker."""
    return _Sharing(program).common()


def spaces_of_keys(program: Program) -> dict[str, tuple[str, Keys]]:
    """The same with, for every layer, a name of the set of layers that have these parts."""
    sharing = _Sharing(program)
    return {name: (_root(sharing.beside, name), keys) for name, keys in sharing.common().items()}


class _Sharing:
    """Which parts of keys are the same, whatever path a packet takes."""

    def __init__(self, program: Program) -> None:
        self.layers = program.layers
        self.keys = {name: keys for name, layer in program.layers.items() if (keys := _keys(layer)) is not None}
        self.same: dict[Place, Place] = {}
        """Union-find over places: each place of a set refers to one that is nearer to the set's representative."""
        self.beside: dict[str, str] = {}
        """The same for layers that share parts of keys."""
        self.apart: set[Place] = set()
        """Places that on some path do not have a shared value."""
        for name in self.keys:
            self._follow(name)
        self._join_tables()

    def _follow(self, below: str) -> None:
        """Find what the layers above share with a layer, up to the next layer with instances on each path."""
        filled = self._filled(below)
        waiting = [(name, frozenset[str]()) for name in _above(self.layers[below])]
        seen = set(waiting)
        while waiting:
            name, overwritten = waiting.pop()
            if name in self.keys:
                self._link(name, {slot: place for slot, place in filled.items() if slot not in overwritten})
                continue
            now = overwritten | _overwritten(self.layers[name])
            more = {(above, now) for above in _above(self.layers[name])} - seen
            seen |= more
            waiting += more

    def _filled(self, layer: str) -> dict[str, Place]:
        """By slot, the places of a layer's key whose values the slots hold for the layers above."""
        filled: dict[str, list[Expr]] = defaultdict(list)
        for reg, value in _slots(self.layers[layer]):
            filled[reg.name].append(value)
        found: dict[str, Place] = {}
        for place, part in self._places(layer):
            if isinstance(part, Reg) and part.space == "slot" and part.name not in filled:
                found[part.name] = place
            for slot, values in filled.items():
                if all(value == part for value in values):  # passes may have copied where it is set
                    found[slot] = place
        return found

    def _link(self, layer: str, filled: dict[str, Place]) -> None:
        """Join the places of a layer's key with those below that the slots on a path to it hold."""
        linked = {
            p: filled[part.name] for p, part in self._places(layer) if isinstance(part, Reg) and part.name in filled
        }
        if not linked:
            return  # a tunnel, or an instance for each instance below
        for place, other in linked.items():
            self.same[_root(self.same, place)] = _root(self.same, other)
            self.beside[_root(self.beside, layer)] = _root(self.beside, other.layer)
        self.apart |= {place for place, _ in self._places(layer) if place not in linked}

    def _join_tables(self) -> None:
        """Join the places of layers that have one table."""
        first: dict[str, str] = {}
        for layer in self.keys:
            shape = self.layers[layer].instance
            assert shape is not None
            other = first.setdefault(shape.table, layer)
            if other != layer:
                for place, _ in self._places(layer):
                    self.same[_root(self.same, place)] = _root(self.same, Place(other, place.half, place.index))
                self.beside[_root(self.beside, layer)] = _root(self.beside, other)

    def _places(self, layer: str) -> Iterator[tuple[Place, Expr]]:
        for half, parts in enumerate(self.keys[layer]):
            for index, part in enumerate(parts):
                yield Place(layer, half, index), part

    def common(self) -> dict[str, Keys]:
        """For every layer, the parts of its key that all layers in its set have, in the same order for all of them."""
        together: dict[str, dict[str, dict[Place, Expr]]] = defaultdict(dict)
        for layer in self.keys:
            together[_root(self.beside, layer)][layer] = self._known(layer)
        found: dict[str, Keys] = {}
        for known in together.values():
            parts = self._parts(known)
            for layer, expressions in known.items():
                key = tuple(expressions[one] for one, _ in parts)
                reverse = tuple(expressions[other] for _, other in parts)
                found[layer] = key, () if key == reverse else reverse
        return found

    def _known(self, layer: str) -> dict[Place, Expr]:
        """The representatives of the places of a layer's key, with the parts there. Places that some path does not
        share are omitted, and so are parts that the packet alone does not determine, such as the path that it took.
        """
        apart = {_root(self.same, place) for place in self.apart}
        unknown = undetermined(self.layers[layer].main)
        found: dict[Place, set[Expr]] = defaultdict(set)
        for place, part in self._places(layer):
            found[_root(self.same, place)].add(part)
        return {
            place: part
            for place, (part, *others) in found.items()
            if place not in apart and not others and unknown.isdisjoint(reg.name for reg in registers(part))
        }

    def _parts(self, known: dict[str, dict[Place, Expr]]) -> list[Part]:
        """The parts of keys that all these layers have, in the same orientation for all."""
        turning = [layer for layer in known if self.keys[layer][1]]
        first = next(iter(turning or known))
        parts = [part for part in self._pairs(first) if all(places.keys() >= {*part} for places in known.values())]
        for layer in turning:
            pairs = self._pairs(layer)
            straight = [part for part in parts if part in pairs]
            turned = [(one, other) for one, other in parts if (other, one) in pairs]
            parts = straight if len(straight) >= len(turned) else turned
        return parts

    def _pairs(self, layer: str) -> list[Part]:
        key, reverse = self.keys[layer]
        half = 1 if reverse else 0
        return [
            (_root(self.same, Place(layer, 0, index)), _root(self.same, Place(layer, half, index)))
            for index in range(len(key))
        ]


def _keys(layer: LayerProgram) -> Keys | None:
    """The key by which a layer looks up its instances; None if it stores none."""
    if layer.instance is None or not layer.instance.stored:
        return None
    return next(((i.key, i.reverse) for i in layer.main.instructions() if isinstance(i, Lookup)), None)


def _above(layer: LayerProgram) -> set[str]:
    return {i.layer for graph in layer.graphs() for i in graph.instructions() if isinstance(i, NextLayer)}


def _overwritten(layer: LayerProgram) -> set[str]:
    """The slots that a layer sets for every packet. One that it sets under a condition has the value of the layer below
    for other packets: their instances must be found by it, and the few that satisfy the condition go with them.
    """
    graph = layer.main
    found: set[str] = set()
    for slot in {reg.name for reg, _ in _slots(layer)}:
        unset, waiting = set[str](), [graph.entry]
        while waiting:
            name = waiting.pop()
            if name in unset or any(reg.name == slot for i in graph.blocks[name].instructions for reg in i.written()):
                continue
            unset.add(name)
            waiting += graph.blocks[name].terminator.targets()
        if not any(type(i) is NextLayer for name in unset for i in graph.blocks[name].instructions):
            found.add(slot)
    return found


def _slots(layer: LayerProgram) -> Iterator[tuple[Reg, Expr]]:
    """The slots that a layer sets, with their values."""
    for graph in layer.graphs():
        for instruction in graph.instructions():
            for reg in instruction.written():
                if reg.space == "slot":
                    yield reg, instruction.value if isinstance(instruction, Assign) else reg


def _root(nearer: dict[T, T], item: T) -> T:
    """The representative of an item."""
    while (other := nearer.get(item, item)) != item:
        item = other
    return item
