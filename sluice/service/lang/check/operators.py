"""Types of operators."""

from __future__ import annotations

from abc import abstractmethod

from sluice.service.lang import tree
from sluice.service.lang.check.scope import Scope
from sluice.service.lang.errors import ServiceError, suggest
from sluice.service.lang.types import (
    ADDRESS,
    ANY,
    BOOLEAN,
    INTEGER,
    STRING,
    ChannelOf,
    DictionaryOf,
    ListOf,
    Named,
    TupleOf,
    Type,
    joined,
)

ARITHMETIC = ("+", "-", "*", "/", "mod")
ORDERED = (INTEGER, STRING, ADDRESS)


class OperatorChecker(Scope):
    """Types of operators, fields and indices."""

    @abstractmethod
    def check(self, node: tree.Expression, used: bool = True) -> Type:
        """The type of an expression; `used`: whether its value is."""

    def value(self, node: tree.Expression, what: str) -> Type:
        """The type of an expression that must have a value."""
        found = self.check(node)
        if isinstance(found, ChannelOf):
            raise ServiceError(node.place, f"{what} is a channel, and not a value", "receive from it first: ? channel.")
        return found

    def want(self, node: tree.Expression, type: Type, what: str) -> None:
        """Check an expression that must have a type."""
        self.value(node, what)
        self.coerce(node, type, what)

    def unary(self, node: tree.Unary) -> Type:
        if node.operator == "size":
            found = self.check(node.operand)
            if not isinstance(found, (ChannelOf, ListOf, DictionaryOf)) and found != STRING:
                raise ServiceError(
                    node.place, f"'size' of {found}", "it takes a channel, a list, a dictionary or a string."
                )
            return INTEGER
        wanted, result = {
            "not": (BOOLEAN, BOOLEAN),
            "address_to_int": (ADDRESS, INTEGER),
            "int_to_address": (INTEGER, ADDRESS),
        }.get(node.operator, (INTEGER, INTEGER))
        self.want(node.operand, wanted, f"the operand of '{node.operator}'")
        return result

    def binary(self, node: tree.Binary) -> Type:
        operator = node.operator
        if operator in ARITHMETIC or operator == "..":
            for side in (node.left, node.right):
                self.want(side, INTEGER, f"the operand of '{operator}'")
            if operator in ("/", "mod") and isinstance(node.right, tree.Integer) and node.right.value == 0:
                raise ServiceError(node.right.place, f"'{operator}' by zero", "divide by another number.")
            return INTEGER if operator != ".." else ListOf(INTEGER)
        if operator in ("and", "or"):
            for side in (node.left, node.right):
                self.want(side, BOOLEAN, f"the operand of '{operator}'")
            return BOOLEAN
        left, right = (
            self.value(node.left, f"the left side of '{operator}'"),
            self.value(node.right, f"the right side of '{operator}'"),
        )
        if operator == "::":
            return self._cons(node, left, right)
        if operator == "@":
            return self._append(node, left, right)
        both = joined(left, right)
        if both is None:
            raise ServiceError(
                node.place, f"'{operator}' compares {left} with {right}", "compare values of the same type."
            )
        if isinstance(both, DictionaryOf):
            raise ServiceError(node.place, f"'{operator}' of dictionaries", "compare their entries, or their len().")
        self.coerce(node.left, both, "the left side")
        self.coerce(node.right, both, "the right side")
        if operator not in ("=", "!=") and both not in ORDERED:
            raise ServiceError(
                node.place, f"'{operator}' of {both}", "only integers, strings and addresses have an order."
            )
        return BOOLEAN

    def _cons(self, node: tree.Binary, left: Type, right: Type) -> Type:
        if not isinstance(right, ListOf):
            raise ServiceError(
                node.place, f"'::' puts an item before a list, and its right side is {right}", "write item :: list."
            )
        item = joined(right.item, left)
        if item is None:
            raise ServiceError(
                node.place, f"'::' puts {left} before a list of {right.item}", "a list has items of one type."
            )
        self.coerce(node.left, item, "the item")
        return ListOf(item, None if right.bound is None else right.bound + 1)

    def _append(self, node: tree.Binary, left: Type, right: Type) -> Type:
        if left == STRING and right == STRING:
            return STRING
        if not isinstance(left, ListOf) or not isinstance(right, ListOf):
            raise ServiceError(node.place, f"'@' joins lists or strings, not {left} and {right}", "write list @ list.")
        both = joined(left, right)
        if not isinstance(both, ListOf):
            raise ServiceError(node.place, f"'@' joins {left} with {right}", "a list has items of one type.")
        bound = left.bound + right.bound if left.bound is not None and right.bound is not None else None
        return ListOf(both.item, bound)

    def field(self, node: tree.Field) -> Type:
        base = self.value(node.base, f"what '.{node.name}' is taken of")
        if not isinstance(base, Named) or base.variant:
            raise ServiceError(node.place, f"{base} has no field '{node.name}'", "only a record has fields.")
        node.name = self.field_name(base, node.name, node)
        return base.fields[node.name]

    def field_name(self, record: Named, name: str, node: tree.Expression) -> str:
        """The field that is meant. An abbreviation that fits one field is accepted: listing 3 of the paper has
        `e1.val` for `value`.
        """
        if name in record.fields:
            return name
        longer = [each for each in record.fields if each.startswith(name)]
        if len(longer) == 1:
            self.warn(node.place, f"the record {record} has no field '{name}': '{longer[0]}' is taken")
            return longer[0]
        raise ServiceError(node.place, f"the record {record} has no field '{name}'", suggest(name, record.fields))

    def item(self, node: tree.Item) -> Type:
        base = self.value(node.base, f"what '.{node.number}' is taken of")
        if not isinstance(base, TupleOf):
            raise ServiceError(node.place, f"{base} has no item {node.number}", "only a tuple has numbered items.")
        if not 1 <= node.number <= len(base.items):
            raise ServiceError(
                node.place, f"a tuple of {len(base.items)} has no item {node.number}", "its items are counted from 1."
            )
        return base.items[node.number - 1]

    def index(self, node: tree.Index) -> Type:
        base = self.check(node.base)
        if isinstance(base, ChannelOf):
            if not base.array:
                raise ServiceError(
                    node.place, "a single channel has no index", "remove it, or declare an array: [t/t] name."
                )
            self.want(node.index, INTEGER, "the index of a channel")
            return ChannelOf(base.receives, base.sends)
        if isinstance(base, ListOf):
            self.want(node.index, INTEGER, "the index of an item")
            return base.item
        if isinstance(base, DictionaryOf):
            self.want(node.index, base.key, "the key of this dictionary")
            return base.value
        raise ServiceError(node.place, f"{base} has no index", "only a channel array, a list or a dictionary has one.")

    def with_(self, node: tree.With) -> Type:
        base = self.value(node.base, "what 'with' changes")
        if not isinstance(base, Named) or base.variant:
            raise ServiceError(
                node.place, f"'with' changes a field of a record, and this is {base}", "use it on a record."
            )
        node.name = self.field_name(base, node.name, node)
        self.want(node.value, base.fields[node.name], f"the field '{node.name}'")
        return base

    def typed(self, node: tree.Typed) -> Type:
        wanted = self.resolve(node.wanted)
        if node.unsafe:
            self.value(node.value, "what is cast")
            return wanted
        self.want(node.value, wanted, "what is declared here")
        return wanted

    def record(self, node: tree.Record) -> Type:
        fields: dict[str, Type] = {}
        for name, item in node.fields:
            if name in fields:
                raise ServiceError(item.place, f"the field '{name}' is given twice", "remove one of them.")
            fields[name] = self.value(item, f"the field '{name}'")
        same = [
            each
            for each in self.checked.types.values()
            if isinstance(each, Named) and not each.variant and joined(each, Named("", fields=fields)) is not None
        ]
        if len(same) == 1:
            for name, item in node.fields:
                self.coerce(item, same[0].fields[name], f"the field '{name}'")
            return same[0]
        found = Named("", fields=fields)
        self.check_parts(found, node.place)
        return found

    def list(self, node: tree.List) -> Type:
        item: Type = ANY
        for each in node.items:
            found = joined(item, self.value(each, "an item of this list"))
            if found is None:
                raise ServiceError(
                    each.place, f"a list of {item} has an item of type {each.type}", "a list has items of one type."
                )
            item = found
        for each in node.items:
            self.coerce(each, item, "an item")
        return ListOf(item, len(node.items))
