"""Layers, which are parsers at a place in a stack, and the steps from one layer to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, cast

from sluice.lang.choice import Choice
from sluice.lang.errors import DescriptionError, described, did_you_mean
from sluice.lang.expression import (
    BYTES,
    Binary,
    Checksum,
    Crc,
    Expression,
    Invert,
    LengthOf,
    Octet,
    Property,
    Slice,
)
from sluice.lang.field_value import Contains, FieldValue
from sluice.lang.layout import Field
from sluice.lang.parser import NAMES, SETTINGS, Parser, PsmOf
from sluice.lang.prototype import Prototype
from sluice.lang.psm import Pred, Taken
from sluice.lang.where import Where, here


class Layer(Parser):
    """A prototype at a place in a stack. Layers of one prototype share its table."""

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
        """Transitions that this layer's packets take: `stack.layer.psm.t`."""
        return PsmOf(self, self.prototype.psm)

    @property
    def sdu(self) -> Any:
        """The bytes for the layer above."""
        return Property(self, "sdu", BYTES)

    @property
    def offers(self) -> OfferedNames:
        """The offers of the layer's parser, for predicates: `stack.ipv4.offers.protocol`."""
        return OfferedNames(self)

    def offer(self, **values: object) -> None:
        """Values for the layers above, as the parser's own `p.offer`: `stack.tcp.offer(port=stack.tcp.header.dport)`.

        All layers of that parser offer them.
        """
        self.prototype.offer(**{name: _of_prototype(value, self) for name, value in values.items()})

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

    def __or__(self, other: object) -> AnyLayer:
        return AnyLayer([self]) | other

    def __rshift__(self, other: object) -> Step:
        return Step(self, _next(other))

    def __add__(self, other: object) -> Any:
        raise _no_parentheses()

    def __repr__(self) -> str:
        return f"<layer {self.name}>"


class AnyLayer:
    """Any of several layers, `stack.a | stack.b`. A step from it is a step from each of them.

    Its `offers` are the names that all of them offer. In the step's condition, each layer's own value is used.
    """

    layers: tuple[Layer, ...]

    def __init__(self, layers: Iterable[Layer]) -> None:
        self.__dict__["layers"] = tuple(dict.fromkeys(layers))

    @property
    def title(self) -> str:
        """The name of the layers in messages."""
        return "layer " + " or ".join(f"'{layer.name}'" for layer in self.layers)

    @property
    def offers(self) -> OfferedByAny:
        """The common offers of the parsers of all these layers: `(stack.ipv4 | stack.ipv6).offers.protocol`."""
        return OfferedByAny(self)

    def __or__(self, other: object) -> AnyLayer:
        if not isinstance(other, (Layer, AnyLayer)):
            raise DescriptionError(f"a layer or {described(other)}", "write stack.a | stack.b, of layers of one stack.")
        return AnyLayer([*self.layers, *(other.layers if isinstance(other, AnyLayer) else [other])])

    def __rshift__(self, other: object) -> Step:
        return Step(self, _next(other))

    def __add__(self, other: object) -> Any:
        raise _no_parentheses()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise DescriptionError(
            f"'{name}' is read of any of several layers",
            "ask for what their parsers all say with p.offer(...): (stack.a | stack.b).offers.x.",
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise DescriptionError(f"'{name}' is set on any of several layers", "set it on a parser: p." + name + " = ....")

    def __repr__(self) -> str:
        return f"<{self.title}>"


def _next(upper: object) -> Layer:
    if not isinstance(upper, Layer):
        raise DescriptionError(
            f"a layer is followed by a layer, not by {described(upper)}",
            "write stack += (stack.a >> stack.b) + Pred(...).",
        )
    return upper


def _no_parentheses() -> DescriptionError:
    return DescriptionError(
        "something is added to a layer",
        "write (stack.a >> stack.b) + Pred(...), with the parentheses: '+' binds more tightly than '>>'.",
    )


class OfferedNames:
    """`stack.layer.offers`: the expressions that the layer's parser offers, evaluated for this layer's packets."""

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


class OfferedByAny:
    """`(stack.a | stack.b).offers`: what all of several layers offer under one name."""

    def __init__(self, any_layer: AnyLayer) -> None:
        self.__dict__["_any"] = any_layer

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Offered(self.__dict__["_any"], name)

    def __setattr__(self, name: str, value: object) -> None:
        raise DescriptionError(f"offer '{name}' is set on layers", f"say p.offer({name}=...) in their parsers.")


class Offered(Expression):
    """An offer of any of several layers. In the step from one of them, that layer's own value replaces it."""

    def __init__(self, owner: AnyLayer, name: str) -> None:
        super().__init__()
        self.owner = owner
        self.name = name
        offers = [getattr(layer.offers, name) for layer in owner.layers]
        kinds = {offer.kind for offer in offers}
        if len(kinds) > 1:
            raise DescriptionError(
                f"'{name}' is a number in one layer and bytes in another", "offer the same kind of value in each."
            )
        self.kind = kinds.pop()


def _of_prototype(value: object, layer: Layer) -> object:
    """The same value, with values of the layer replaced by those of its parser."""
    if isinstance(value, Choice):
        otherwise = None if value.otherwise is None else _of_prototype(value.otherwise, layer)
        condition = _of_prototype(value.condition, layer)
        assert isinstance(condition, Expression)
        return Choice(condition, _of_prototype(value.body, layer), otherwise, value.where)
    if not isinstance(value, Expression):
        return value
    mine = getattr(value, "owner", None) is layer
    match value:
        case FieldValue() if mine:
            return FieldValue(layer.prototype, value.group, value.field)
        case Contains() if mine:
            return Contains(layer.prototype, value.part)
        case Property() if mine:
            return Property(layer.prototype, value.name, value.kind)
        case Taken() if mine:
            return Taken(layer.prototype, value.transition)
        case _:
            return _of_operands(value, lambda part: cast(Expression, _of_prototype(part, layer)))


def of_layer(expression: Expression, layer: Layer) -> Expression:
    """The same expression, with values of the layer's parser replaced by values of the layer."""

    def same(part: Expression) -> Expression:
        return of_layer(part, layer)

    mine = getattr(expression, "owner", None) is layer.prototype
    match expression:
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
            return _of_operands(expression, same)


def in_step_from(layer: Layer, expression: Expression) -> Expression:
    """The condition in the step from `layer`: offers of any of several layers are replaced by the value of `layer`.

    Raises DescriptionError if `layer` is not one of these.
    """
    if isinstance(expression, Offered):
        if layer not in expression.owner.layers:
            raise DescriptionError(
                f"a step from {layer.title} reads what {expression.owner.title} offers",
                f"read it from the layer itself: stack.{layer.name}.offers.{expression.name}.",
            )
        return getattr(layer.offers, expression.name)
    return _of_operands(expression, lambda part: in_step_from(layer, part))


def _of_operands(expression: Expression, same: Callable[[Expression], Expression]) -> Expression:
    """The expression with every operand x replaced by `same(x)`."""
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
        case Octet():
            return Octet(same(expression.base), same(expression.at))
        case Checksum():
            return Checksum(same(expression.data), [same(item) for item in expression.pseudo])
        case Crc():
            return Crc(same(expression.data), expression.low, expression.high)
        case _:
            return expression


def _field_of_layer(field: Field, layer: Layer) -> Expression:
    p = layer.prototype
    if field.layout is not None and field.layout is p.temp_layout:
        return FieldValue(layer, "temp", field)
    if field.layout is not None and field.layout is p.perm_layout:
        return FieldValue(layer, "perm", field)
    return FieldValue(layer, "header", field)


class Step:
    """The result of `lower >> upper`: `upper` is the next layer of `lower`, or of each of several layers, if the added
    Pred holds.
    """

    def __init__(self, lower: Layer | AnyLayer, upper: Layer) -> None:
        self.where = here()
        self.lower = lower
        self.upper = upper
        self.condition: Expression | None = None
        self.before: Layer | None = None
        self.fallback = False

    def __add__(self, pred: object) -> Step:
        if not isinstance(pred, Pred):
            raise DescriptionError(
                f"a step to the next layer needs a Pred, not {described(pred)}",
                "write (stack.a >> stack.b) + Pred(condition).",
            )
        if self.condition is not None:
            raise DescriptionError("a second Pred for one step", "join the conditions with & or |.")
        before = pred.before
        if before is not None and not isinstance(before, Layer):
            raise DescriptionError(
                f"before={described(before)}", "give the layer whose step is to come later, as in before=stack.b."
            )
        self.condition, self.before, self.fallback = pred.condition, before, pred.fallback
        return self

    def branches(self) -> list[Branch]:
        """The step from each layer. Raises DescriptionError if it has no Pred."""
        if self.condition is None:
            raise DescriptionError(
                "a step to the next layer without a Pred", "add + Pred(condition); Pred(1) is always.", self.where
            )
        lower = self.lower.layers if isinstance(self.lower, AnyLayer) else (self.lower,)
        return [
            Branch(self.where, one, self.upper, in_step_from(one, self.condition), self.before, self.fallback)
            for one in lower
        ]


class Branch(NamedTuple):
    """`upper` is the next layer of `lower` if `condition` holds. before, fallback: see Pred."""

    where: Where
    lower: Layer
    upper: Layer
    condition: Expression
    before: Layer | None = None
    fallback: bool = False
