"""Stacks: layers made from parsers, and the steps between layers (paper, 3 and Appendix C.3)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from sluice.lang.errors import DescriptionError, described, did_you_mean
from sluice.lang.expression import BYTES, Number
from sluice.lang.layer import Branch, Layer, Step
from sluice.lang.order import place_of
from sluice.lang.prototype import Chain, Prototype
from sluice.lang.where import Where, here

GATHER = (1 << 32) + 15
"""A prime, so that different numbers stay different when multiplied by it."""


class Stack:
    """The layers of a middlebox.

    `stack.name = parser` creates a layer. `stack += (stack.a >> stack.b) + Pred(condition)` adds a step. `stack +=
    parser >> parser` creates layers named after their parsers, each the next layer of the one before. A packet takes
    the first step from its layer, in order of definition, whose condition holds; Pred(..., before=) and
    Pred(..., fallback=) change that order. Packets enter at layers to which no
    step leads, or whose parser names link types.

    name: its name in listings and generated code; letters, digits and '_'.
    depth: the maximum number of layers that one packet passes, 1 to 255, unless the box has another. A packet that
        would pass more is counted and goes no further.
    records: the maximum number of layers that it passes besides if these are records (p.record), 1 to 255. In all, a
        packet passes at most 255 layers.

    Raises DescriptionError for an invalid layer or step.
    """

    where: Where
    name: str
    depth: int
    records: int
    layers: dict[str, Layer]
    branches: list[Branch]
    joined: tuple[str, ...]

    def __init__(self, name: str = "", depth: int = 32, records: int = 64) -> None:
        self.__dict__.update(where=here(), name="", layers={}, branches=[], joined=())
        if name != "":
            self.name = name
        self.depth = depth
        self.records = records

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, Layer):
            value = value.prototype
        if name in ("depth", "records") and not isinstance(value, Prototype):
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 255:
                what = "layers" if name == "depth" else "records"
                raise DescriptionError(f"{name}={described(value)}", f"a packet passes 1 to 255 {what}.")
            self.__dict__[name] = value
        elif name == "name" and not isinstance(value, Prototype):
            if not isinstance(value, str) or not value.isidentifier() or not value.isascii():
                raise DescriptionError(
                    f"a stack called {described(value)}",
                    "a name has letters, digits and '_', and begins with no digit.",
                )
            self.__dict__["name"] = value
        else:
            self._add_layer(name, value)

    def _add_layer(self, name: str, value: object) -> None:
        if hasattr(type(self), name) or name in ("name", "depth", "records", "layers", "branches", "joined", "where"):
            raise DescriptionError(f"'{name}' cannot be the name of a layer", "choose another name.")
        if not isinstance(value, Prototype):
            raise DescriptionError(
                f"stack.{name} is {described(value)}, not a parser",
                "assign what Connectionless() or ConnectionOriented() made (call the parser function).",
            )
        if name in self.layers:
            raise DescriptionError(f"layer '{name}' is defined twice", "give the second one another name.")
        self.layers[name] = Layer(name, value, len(self.layers))
        if not value.name:
            value.name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in self.layers:
            raise DescriptionError(f"the stack has no layer '{name}'", did_you_mean(name, self.layers))
        return self.layers[name]

    def __iadd__(self, other: object) -> Stack:
        if isinstance(other, Chain):
            self._add_chain(other)
            return self
        if not isinstance(other, Step):
            raise DescriptionError(
                f"a stack is extended by steps, not by {described(other)}",
                "write stack += (stack.a >> stack.b) + Pred(condition).",
            )
        for branch in other.branches():
            self._add_branch(branch)
        return self

    def _add_branch(self, branch: Branch) -> None:
        for layer in (branch.lower, branch.upper):
            if self.layers.get(layer.name) is not layer:
                raise DescriptionError(f"layer '{layer.name}' belongs to another stack", "use layers of this stack.")
        self.branches.insert(place_of(branch, self.branches), branch)

    def _add_chain(self, chain: Chain) -> None:
        """A layer for each parser, named after it, and the steps between these layers."""
        for parser in chain.parsers:
            if not parser.name:
                raise DescriptionError(
                    "a parser without a name in a chain", 'its layer is called like it: Connectionless("name").'
                )
            self._add_layer(parser.name, parser)
        layers = [self.layers[parser.name] for parser in chain.parsers]
        for lower, upper in pairwise(layers):
            self._add_branch(Branch(here(), lower, upper, Number(1)))

    def join(self, *names: str) -> None:
        """Join what layers offer under these names (vlan, tunnel) to every key above them.

        A key gets one number for each name: 0 if no layer below offers it; the offered value if one does; and outer *
        GATHER + inner, modulo 2^64, if several do (two values of 32 bits cannot collide). An id of 0 counts as none.
        Raises DescriptionError for a name that no layer offers, or that is offered as something other than a number.
        """
        for name in names:
            offers = [layer.prototype.offers[name] for layer in self.layers.values() if name in layer.prototype.offers]
            known = {name for layer in self.layers.values() for name in layer.prototype.offers}
            if not offers:
                raise DescriptionError(f"no layer of the stack offers '{name}'", did_you_mean(name, known))
            if any(offer.kind == BYTES for offer in offers):
                raise DescriptionError(f"'{name}' joins keys and is not a number", "offer a number of at most 64 bits.")
            if name not in self.joined:
                self.__dict__["joined"] = (*self.joined, name)

    def above(self, layer: Layer) -> list[Branch]:
        """The steps from `layer`, in order of definition."""
        return [branch for branch in self.branches if branch.lower is layer]

    def roots(self) -> list[Layer]:
        """Layers where a packet may enter: no step leads to them, or they name their link types.

        Raises DescriptionError if there is none, and for a layer without any step and link types, unless it is the only
        layer.
        """
        reached = {branch.upper.name for branch in self.branches if branch.upper is not branch.lower}
        left = {branch.lower.name for branch in self.branches}
        found: list[Layer] = []
        for layer in self.layers.values():
            named = bool(layer.prototype.link_types)
            if not named and layer.name not in reached | left and len(self.layers) > 1:
                raise DescriptionError(
                    f"no packet can reach layer '{layer.name}'",
                    f"write stack += (stack.lower >> stack.{layer.name}) + Pred(...), or give it link_types.",
                    layer.where,
                )
            if named or layer.name not in reached:
                found.append(layer)
        if not found:
            raise DescriptionError(
                "no layer is the first one",
                "one layer must not be the next of another, or its parser must name its link_types.",
                self.where,
            )
        return found
