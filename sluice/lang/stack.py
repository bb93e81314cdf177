"""Stacks: layers made from parsers, and which layer follows which (paper, 3 and Appendix C.3)."""

from __future__ import annotations

from typing import Any

from sluice.lang.errors import DescriptionError, described, did_you_mean
from sluice.lang.expression import (
    BYTES,
    Binary,
    Checksum,
    Contains,
    Crc,
    Expression,
    FieldValue,
    Invert,
    LengthOf,
    Property,
    Slice,
    Taken,
)
from sluice.lang.layout import Field
from sluice.lang.prototype import NAMES, SETTINGS, Parser, Prototype, PsmOf
from sluice.lang.psm import Pred
from sluice.lang.where import Where, here


class Layer(Parser):
    """A place in a stack, filled by a prototype. Layers of one prototype share its table."""

    where: Where
    name: str
    number: int

    def __init__(self, name: str, prototype: Prototype, number: int) -> None:
        self.__dict__.update(where=here(), name=name, number=number, _prototype=prototype)

    @property
    def prototype(self) -> Prototype:
        return self.__dict__["_prototype"]

    @property
    def title(self) -> str:
        return f"layer '{self.name}'"

    @property
    def psm(self) -> Any:
        """Transitions as this layer's packets take them: `stack.layer.psm.t`."""
        return PsmOf(self, self.prototype.psm)

    @property
    def sdu(self) -> Any:
        """The bytes for the layer above."""
        return Property(self, "sdu", BYTES)

    @property
    def offers(self) -> OfferedNames:
        """What the layer's parser offers, for predicates: `stack.ipv4.offers.protocol`."""
        return OfferedNames(self)

    def __getattr__(self, name: str) -> Any:
        if name in SETTINGS and name not in NAMES:
            raise DescriptionError(
                f"'{name}' belongs to the parser of {self.title}", "ask the parser, before it is a layer."
            )
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: object) -> None:
        if name == "event_relation" or name == "event":
            object.__setattr__(self, name, value)
            return
        if name in SETTINGS:
            raise DescriptionError(
                f"'{name}' is set on {self.title}",
                f"set it on the parser, before it is a layer: p.{name} = ....",
            )
        raise DescriptionError(
            f"{self.title} has no setting '{name}'", "a layer is what its parser is; change that one."
        )

    def __rshift__(self, other: object) -> Branch:
        if not isinstance(other, Layer):
            raise DescriptionError(
                f"a layer is followed by a layer, not by {described(other)}",
                "write stack += (stack.a >> stack.b) + Pred(...).",
            )
        return Branch(self, other)

    def __add__(self, other: object) -> Any:
        raise DescriptionError(
            "something is added to a layer",
            "write (stack.a >> stack.b) + Pred(...), with the parentheses: '+' binds more tightly than '>>'.",
        )

    def __repr__(self) -> str:
        return f"<layer {self.name}>"


class OfferedNames:
    """`stack.layer.offers`: the expressions that the layer's parser offers, as this layer's packets have
    them.
    """

    def __init__(self, layer: Layer) -> None:
        self.__dict__["_layer"] = layer

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        layer: Layer = self.__dict__["_layer"]
        offers = layer.prototype.offers
        if name not in offers:
            raise DescriptionError(f"{layer.title} offers no '{name}'", did_you_mean(name, offers))
        return of_layer(offers[name], layer)

    def __setattr__(self, name: str, value: object) -> None:
        raise DescriptionError(f"offer '{name}' is set on a layer", f"say p.offer({name}=...) in its parser.")


def of_layer(expression: Expression, layer: Layer) -> Expression:
    """The same expression, with what it asks of the layer's parser asked of the layer."""

    def same(part: Expression) -> Expression:
        return of_layer(part, layer)

    mine = getattr(expression, "owner", None) is layer.prototype
    match expression:
        case Binary():
            return Binary(expression.operator, same(expression.left), same(expression.right))
        case Invert():
            return Invert(same(expression.operand))
        case Slice():
            low = None if expression.low is None else same(expression.low)
            return Slice(same(expression.base), low, None if expression.high is None else same(expression.high))
        case LengthOf():
            return LengthOf(same(expression.base))
        case Checksum():
            return Checksum(same(expression.data), [same(item) for item in expression.pseudo])
        case Crc():
            return Crc(same(expression.data), expression.low, expression.high)
        case Field():
            return _field_of_layer(expression, layer)
        case FieldValue() if mine:
            return FieldValue(layer, expression.group, expression.field)
        case Contains() if mine:
            return Contains(layer, expression.part)
        case Property() if mine:
            return Property(layer, expression.name, expression.kind)
        case Taken() if mine:
            return Taken(layer, expression.transition)
        case _:
            return expression


def _field_of_layer(field: Field, layer: Layer) -> Expression:
    p = layer.prototype
    if field.layout is not None and field.layout is p.temp_layout:
        return FieldValue(layer, "temp", field)
    if field.layout is not None and field.layout is p.perm_layout:
        return FieldValue(layer, "perm", field)
    return FieldValue(layer, "header", field)


class Branch:
    """`upper` is the next layer of `lower` when `condition` holds."""

    def __init__(self, lower: Layer, upper: Layer) -> None:
        self.where = here()
        self.lower = lower
        self.upper = upper
        self.condition: Expression | None = None

    def __add__(self, pred: object) -> Branch:
        if not isinstance(pred, Pred):
            raise DescriptionError(
                f"a step to the next layer needs a Pred, not {described(pred)}",
                "write (stack.a >> stack.b) + Pred(condition).",
            )
        if self.condition is not None:
            raise DescriptionError("a second Pred for one step", "join the conditions with & or |.")
        self.condition = pred.condition
        return self


GATHER = (1 << 32) + 15
"""A prime, so that numbers that differ stay apart when they are multiplied by it."""


class Stack:
    """The layers of a middlebox.

    `stack.name = parser` makes a layer; `stack += (stack.a >> stack.b) + Pred(condition)` a step. Of the
    steps from a layer a packet takes the first, in order of definition, whose condition holds. A layer that
    no step leads to, or whose parser names link types, is where packets begin.

    name: how listings and generated code call it; letters, digits and '_'.
    depth: how many layers one packet may pass, 1 to 255; a packet that would pass more is counted and goes no
        further.

    Raises DescriptionError for a layer or step that makes no sense.
    """

    where: Where
    name: str
    depth: int
    layers: dict[str, Layer]
    branches: list[Branch]
    joined: tuple[str, ...]

    def __init__(self, name: str = "", depth: int = 32) -> None:
        self.__dict__.update(where=here(), name="", layers={}, branches=[], joined=())
        if name != "":
            self.name = name
        self.depth = depth

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, Layer):
            value = value.prototype
        if name == "depth" and not isinstance(value, Prototype):
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 255:
                raise DescriptionError(f"depth={described(value)}", "a packet passes 1 to 255 layers.")
            self.__dict__["depth"] = value
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
        if hasattr(type(self), name) or name in ("name", "depth", "layers", "branches", "joined", "where"):
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
        if not isinstance(other, Branch):
            raise DescriptionError(
                f"a stack is extended by steps, not by {described(other)}",
                "write stack += (stack.a >> stack.b) + Pred(condition).",
            )
        if other.condition is None:
            raise DescriptionError(
                "a step to the next layer without a Pred",
                "add + Pred(condition); Pred(1) is always.",
                other.where,
            )
        for layer in (other.lower, other.upper):
            if self.layers.get(layer.name) is not layer:
                raise DescriptionError(f"layer '{layer.name}' belongs to another stack", "use layers of this stack.")
        self.branches.append(other)
        return self

    def join(self, *names: str) -> None:
        """Let what layers offer under these names (vlan, tunnel) join every key above them.

        A key has one number for each name: 0 where no layer below offers it, what is offered where one does, and of
        several outer * GATHER + inner, modulo 2^64 (two of 32 bits stay apart for certain). An id of 0 counts as
        none. Raises DescriptionError for a name that no layer offers, or as something else than a number.
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
        """The steps that lead on from `layer`, in order of definition."""
        return [branch for branch in self.branches if branch.lower is layer]

    def roots(self) -> list[Layer]:
        """Layers where a packet may begin: those that no step leads to, or that name their link types.

        Raises DescriptionError when there is none, and for a layer that no step leads to or from and that
        names no link types, unless it is alone.
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
