"""Resolves names and expressions of a description to expressions of the IR, as seen from one layer."""

from __future__ import annotations

from dataclasses import dataclass, field

from sluice.ir.expression import (
    MASK,
    SIDE,
    ZERO,
    Binary,
    Const,
    Crc,
    Expr,
    Flip,
    Length,
    Octet,
    Reg,
    Slice,
    Sum,
    is_bytes,
    width,
)
from sluice.ir.graph import GATHERED, INSTANCE_NUMBER, INSTANCE_PLACE
from sluice.lang import expression as lang
from sluice.lang.action import Action, Assign, Block
from sluice.lang.alias import AddAlias
from sluice.lang.choice import Choice
from sluice.lang.errors import DescriptionError
from sluice.lang.events import EventValue
from sluice.lang.field_value import Contains, FieldValue
from sluice.lang.layer import Layer
from sluice.lang.layout import Field
from sluice.lang.native import NativeCall, native_calls
from sluice.lang.parser import Parser, PrototypeParts
from sluice.lang.prototype import Prototype
from sluice.lang.psm import StateNumber, Taken
from sluice.lang.where import Where
from sluice.lower.builder import TIME

UNIT = Reg("local.unit", 0)
PAYLOAD = Reg("local.payload", 0)
SDU = Reg("local.sdu", 0)
CREATED = Reg("local.created", 1)
BY_ALIAS = Reg("local.by_alias", 1)
"""Whether the packet found its instance by an alias that does not have the shape of the selector."""
STATE = Reg("inst.state", 8)
REFUSED = Reg("local.refused", 8)
"""The number of the reason why the function that p.sdu calls refused the packet; 0 if it did not."""
PATH = Reg("local.path", 32)
LAST = Const(MASK)

PROPERTY_BITS = {
    "cursor": 32,
    "payload_len": 32,
    "to_active": 1,
    "to_passive": 1,
    "cur_state": 8,
    "created": 1,
    "refused": 8,
    "place": 32,
    "way": 32,
}


@dataclass(frozen=True)
class Offer:
    """What a layer below offers under a name: the slot with the value, its width in bits, and the layer."""

    slot: Reg
    bits: int
    provider: str


def field_name(prototype: PrototypeParts, item: Field) -> str:
    """The name of a header field, with the name of its layout if the field name is ambiguous."""
    same = prototype.header_fields().get(item.name, [])
    if len(same) > 1:
        assert item.layout is not None
        return f"{item.layout.__name__}.{item.name}"
    return item.name


def gathered(name: str) -> Reg:
    """The slot that accumulates what lower layers offered under a name. It is 0 when a packet enters the stack.

    A layer that adds to it restores the old value when it returns, so that it always reflects the layers below the
    packet's current layer.
    """
    return Reg(GATHERED + name, 64)


def external_slot(expression: lang.Expression, owner: Parser) -> Reg:
    """The slot in which `owner` stores the value of one of its names for the layers above."""
    owner_name = owner.name if isinstance(owner, Layer) else owner.prototype.name + "*"
    match expression:
        case FieldValue():
            item = expression.field
            bits = item.width if item.kind == lang.NUMBER else 0
            return Reg(f"slot.{owner_name}.{expression.group}.{field_name(owner.prototype, item)}", bits)
        case Taken():
            return Reg(f"slot.{owner_name}.psm.{expression.transition.name}", 1)
        case Contains():
            return Reg(f"slot.{owner_name}.has.{expression.part.__name__}", 1)
        case lang.Property():
            bits = PROPERTY_BITS.get(expression.name, 64) if expression.kind == lang.NUMBER else 0
            return Reg(f"slot.{owner_name}.{expression.name}", bits)
        case _:
            raise AssertionError(expression)


def external_owner(expression: lang.Expression, layer: Layer) -> Parser | None:
    """The parser that owns a name, if it is another one than the layer's."""
    if isinstance(expression, (FieldValue, Taken, Contains, lang.Property)):
        owner = expression.owner
        if owner is not layer and owner is not layer.prototype:
            assert isinstance(owner, Parser)
            return owner
    return None


@dataclass
class Scope:
    """Names as seen from one layer.

    `mark` is the current position while the header is being parsed. `packet` is False if there is no current packet
    (for example when an instance times out): values of a packet are then 0 or empty. `at` is the line of the header
    part that is being parsed, because a field of a layout has only the line of its declaration.
    """

    layer: Layer
    offers: dict[str, Offer]
    mark: Reg | None = None
    packet: bool = True
    parsed: set[str] = field(default_factory=lambda: set())
    at: Where | None = None

    @property
    def prototype(self) -> Prototype:
        return self.layer.prototype

    def without_packet(self) -> Scope:
        """The scope of the same layer without a current packet."""
        return Scope(self.layer, self.offers, None, False, self.parsed)

    def header(self, item: Field) -> Reg:
        """The register of a header field."""
        return Reg(f"header.{field_name(self.prototype, item)}", item.width if item.kind == lang.NUMBER else 0)

    def register(self, target: FieldValue | Field) -> Reg:
        """The register that an Assign sets."""
        if isinstance(target, FieldValue):
            if target.owner is not self.layer and target.owner is not self.prototype:
                raise DescriptionError(
                    f"{self.layer.title} assigns to a field of {target.owner.title}",
                    "a layer sets only its own temp and perm.",
                    target.where,
                )
            item = target.field
            return Reg(f"{target.group}.{item.name}", item.width if item.kind == lang.NUMBER else 0)
        return self._field(target, assigned=True)

    def _field(self, item: Field, assigned: bool = False) -> Reg:
        bits = item.width if item.kind == lang.NUMBER else 0
        if item.layout is self.prototype.temp_layout and item.layout is not None:
            return Reg(f"temp.{item.name}", bits)
        if item.layout is self.prototype.perm_layout and item.layout is not None:
            return Reg(f"perm.{item.name}", bits)
        if any(item is known for same in self.prototype.header_fields().values() for known in same):
            if assigned:
                raise DescriptionError(
                    "a header field cannot be assigned to", "assign to a field of temp or perm.", item.where
                )
            return self.header(item)
        if item.layout is None:
            raise DescriptionError(
                "a field outside any layout", "declare it inside a class derived from layout.", item.where
            )
        return Reg(f"local.data.{item.layout.__name__}.{item.name}", bits)

    def number(self, expression: lang.Expression) -> Expr:
        """Resolves an expression that must be a number."""
        found = self.resolve(expression)
        if is_bytes(found):
            raise DescriptionError(
                "bytes where a number is needed",
                "use .length, or a field of at most 64 bits.",
                expression.where,
            )
        return found

    def bytes(self, expression: lang.Expression) -> Expr:
        """Resolves an expression that must be bytes."""
        found = self.resolve(expression)
        if not is_bytes(found):
            raise DescriptionError(
                "a number where bytes are needed", "use payload, sdu, or a slice of them.", expression.where
            )
        return found

    def resolve(self, expression: lang.Expression) -> Expr:
        """Resolves an expression of the description in this layer."""
        owner = external_owner(expression, self.layer)
        if owner is not None:
            slot = external_slot(expression, owner)
            return slot if self.packet else (UNIT if slot.is_bytes else ZERO)
        match expression:
            case lang.Number():
                return Const(expression.value)
            case StateNumber():
                return self._state(expression)
            case lang.Binary():
                return self._binary(expression)
            case lang.Invert():
                operand = self.number(expression.operand)
                return Flip(operand, width(operand))
            case lang.Slice():
                low = ZERO if expression.low is None else self.number(expression.low)
                high = LAST if expression.high is None else self.number(expression.high)
                return Slice(self.bytes(expression.base), low, high)
            case lang.LengthOf():
                return Length(self.bytes(expression.base))
            case lang.Octet():
                return Octet(self.bytes(expression.base), self.number(expression.at))
            case lang.Checksum():
                return Sum(self.bytes(expression.data), tuple(self.resolve(item) for item in expression.pseudo))
            case lang.Crc():
                return Crc(self.bytes(expression.data), expression.low, expression.high)
            case FieldValue():
                return self._value(expression)
            case Contains():
                return self._contains(expression) if self.packet else ZERO
            case lang.Property():
                return self._property(expression)
            case Taken():
                return Reg(f"local.took.{expression.transition.name}", 1) if self.packet else ZERO
            case EventValue():
                return Reg(
                    f"local.{expression.event.name}.{expression.name}",
                    64 if expression.kind == lang.NUMBER else 0,
                )
            case lang.Below():
                return self._below(expression)
            case lang.Gathered():
                return gathered(expression.name) if self.packet else ZERO
            case Field():
                return self._parsed(self._field(expression), expression)
            case _:
                raise DescriptionError(
                    "this expression has no meaning here",
                    "use fields and properties of parsers.",
                    expression.where,
                )

    def _state(self, expression: StateNumber) -> Expr:
        owner = expression.owner if expression.owner is not None else self.layer
        assert isinstance(owner, Parser)
        machine = owner.prototype.machine
        number = None if machine is None else machine.number_of(expression.state)
        if number is None:
            raise DescriptionError(
                f"{owner.title} has no state '{expression.state.name}'",
                "compare cur_state with a state of the same parser's PSM.",
                expression.where,
            )
        return Const(number)

    def _binary(self, expression: lang.Binary) -> Expr:
        left, right = self.number(expression.left), self.number(expression.right)
        serial = serial_width(expression) if expression.operator in ("+", "-", "<", "<=", ">", ">=") else 0
        return Binary(expression.operator, left, right, serial)

    def _value(self, expression: FieldValue) -> Expr:
        item = expression.field
        bits = item.width if item.kind == lang.NUMBER else 0
        if expression.group == "perm":
            return Reg(f"perm.{item.name}", bits)
        if not self.packet:
            return ZERO if bits else UNIT
        if expression.group == "v":
            return Reg(f"v.{field_name(self.prototype, item)}", bits)
        if expression.group == "temp":
            return Reg(f"temp.{item.name}", bits)
        return self._parsed(self.header(item), expression)

    def _parsed(self, register: Reg, expression: lang.Expression) -> Reg:
        if self.mark is not None and register.space == "header" and register.name not in self.parsed:
            raise DescriptionError(
                f"field '{register.name.split('.', 1)[1]}' is used before it is parsed",
                "use it in conditions and lengths of parts after its own.",
                self.at or expression.where,
            )
        return register

    def _contains(self, expression: Contains) -> Reg:
        register = Reg(f"local.has.{expression.part.__name__}", 1)
        if self.mark is not None and register.name not in self.parsed:
            raise DescriptionError(
                f"layout '{expression.part.__name__}' is read before it is parsed",
                "use header_contain(...) in conditions and lengths of parts after it.",
                expression.where,
            )
        return register

    def _property(self, expression: lang.Property) -> Expr:
        name = expression.name
        if name in ("to_active", "to_passive"):
            if not self.prototype.oriented:
                raise DescriptionError(
                    f"{name} of a connectionless parser", "use ConnectionOriented().", expression.where
                )
            return Binary("==", SIDE, Const(1 if name == "to_active" else 0))
        if name == "cur_state":
            if self.prototype.machine is None:
                raise DescriptionError(
                    f"{self.layer.title} has no state machine",
                    "define p.psm, or leave cur_state out.",
                    expression.where,
                )
            return STATE
        if name == "instance":
            return INSTANCE_NUMBER
        if name == "place":
            return INSTANCE_PLACE
        if name == "sdu":
            return SDU
        if name == "time":
            return TIME
        if not self.packet:
            return ZERO if expression.kind == lang.NUMBER else UNIT
        if name == "created":
            return CREATED
        if name == "way":
            return PATH
        if name == "refused":
            if not native_calls(self.prototype.sdu_choice):
                raise DescriptionError(
                    f"'refused' of {self.layer.title}, whose p.sdu calls no function in C",
                    "set p.sdu to the call of one (see Native), or leave this out.",
                    expression.where,
                )
            return REFUSED
        if name == "unit":
            return UNIT
        if name == "cursor":
            return self.mark if self.mark is not None else Reg("mark.end", 32)
        if name == "payload":
            return PAYLOAD if self.mark is None else Slice(UNIT, self.mark, LAST)
        assert name == "payload_len"
        return Length(PAYLOAD) if self.mark is None else Binary("-", Length(UNIT), self.mark)

    def _below(self, expression: lang.Below) -> Expr:
        if expression.name not in self.offers:
            raise DescriptionError(
                f"not every way to {self.layer.title} leads through a layer that offers '{expression.name}'",
                f"let a parser on each way say p.offer({expression.name}=...).",
                expression.where,
            )
        slot = self.offers[expression.name].slot
        if not self.packet:
            return UNIT if slot.is_bytes else ZERO
        return slot

    def bits(self, expression: lang.Expression) -> int:
        """The width of a part of a key or of an offer: of a number, or of bytes of constant length."""
        if isinstance(expression, FieldValue) and isinstance(expression.field.bits, int):
            return expression.field.bits
        if isinstance(expression, lang.Below) and expression.name in self.offers:
            return self.offers[expression.name].bits
        found = self.resolve(expression)
        if is_bytes(found):
            raise DescriptionError(
                "a key or an offer of variable length",
                "use fields of a fixed number of bits.",
                expression.where,
            )
        return width(found)


def serial_width(expression: lang.Expression) -> int:
    """The width of the serial numbers (RFC 1982) that an expression uses, 0 if it uses none."""
    match expression:
        case FieldValue():
            return expression.field.width if expression.field.serial else 0
        case Field():
            return expression.width if expression.serial else 0
        case lang.Binary() if expression.operator in ("+", "-") or expression.operator in (
            "<",
            "<=",
            ">",
            ">=",
        ):
            widths = {serial_width(expression.left), serial_width(expression.right)} - {0}
            if len(widths) > 1:
                raise DescriptionError(
                    "serial numbers of different widths",
                    "declare both fields with the same bits.",
                    expression.where,
                )
            return widths.pop() if widths else 0
        case _:
            return 0


def action_expressions(action: object) -> list[lang.Expression]:
    """All expressions in an action, including nested actions."""
    match action:
        case Choice():
            found = [action.condition]
            for branch in action.branches():
                found += action_expressions(branch)
            return found
        case Block():
            return [item for part in action.actions for item in action_expressions(part)]
        case Assign():
            return [action.expression]
        case NativeCall() | AddAlias():
            return action.expressions()
        case Action():
            return []
        case lang.Expression():
            return [action]
        case _:
            return []


def nested(expression: lang.Expression) -> list[lang.Expression]:
    """An expression and all its subexpressions."""
    found = [expression]
    match expression:
        case lang.Binary():
            found += nested(expression.left) + nested(expression.right)
        case lang.Invert():
            found += nested(expression.operand)
        case lang.Slice():
            found += nested(expression.base)
            found += [] if expression.low is None else nested(expression.low)
            found += [] if expression.high is None else nested(expression.high)
        case lang.LengthOf():
            found += nested(expression.base)
        case lang.Octet():
            found += nested(expression.base) + nested(expression.at)
        case lang.Crc():
            found += nested(expression.data)
        case lang.Checksum():
            found += nested(expression.data)
            for item in expression.pseudo:
                found += nested(item)
        case _:
            pass
    return found
