"""Static types of a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


class Type:
    """A type; `str` gives it as a user writes it."""


@dataclass(frozen=True)
class Basic(Type):
    """integer, string, boolean or ipv4_address; also internal types of the checker."""

    name: str

    def __str__(self) -> str:
        return self.name


INTEGER, STRING, BOOLEAN, ADDRESS = Basic("integer"), Basic("string"), Basic("boolean"), Basic("ipv4_address")
UNKNOWN = Basic("a type that is not known")
NOTHING = Basic("-")
"""Of the side of a channel that carries nothing."""
ANY = Basic("any type")
"""Of an element of `[]`, until it is known."""


@dataclass(frozen=True)
class TupleOf(Type):
    items: tuple[Type, ...]

    def __str__(self) -> str:
        return f"<{' * '.join(map(str, self.items))}>"


UNIT = TupleOf(())


@dataclass(frozen=True)
class ListOf(Type):
    item: Type
    bound: int | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"[{self.item}]" + ("" if self.bound is None or self.item == ANY else f"{{{self.bound}}}")


LIST = 256
"""Items of a list whose type has no cardinality."""


def bound_of(type: ListOf) -> int:
    """The most items of a list."""
    return type.bound if type.bound is not None else LIST


@dataclass(frozen=True)
class DictionaryOf(Type):
    key: Type
    value: Type

    def __str__(self) -> str:
        return f"dictionary [{self.key}] {self.value}"


@dataclass(frozen=True)
class RefTo(Type):
    item: Type

    def __str__(self) -> str:
        return f"ref {self.item}"


@dataclass(eq=False)
class Named(Type):
    """A record or a variant of the program; two of them are the same if they have the same name. An anonymous record
    (`{a = 1}` before its type is known) has no name.
    """

    name: str
    variant: bool = False
    fields: dict[str, Type] = field(default_factory=dict[str, Type])

    def __str__(self) -> str:
        if self.name:
            return self.name
        return "{" + ", ".join(f"{name} : {item}" for name, item in self.fields.items()) + "}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Named):
            return False
        if self.name or other.name:
            return self.name == other.name
        return self.fields == other.fields

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(frozen=True)
class ChannelOf(Type):
    """A channel, for the program: the types that it receives and sends; NOTHING on a side without traffic."""

    receives: Type
    sends: Type
    array: bool = False

    def __str__(self) -> str:
        return f"[{self.receives}/{self.sends}]" if self.array else f"{self.receives}/{self.sends}"


def joined(left: Type, right: Type) -> Type | None:
    """The common type of two types, or None. The element of `[]` joins with every type."""
    if left == ANY or (left == right and not isinstance(left, ListOf)):
        return right
    if right == ANY:
        return left
    match left, right:
        case ListOf(), ListOf():
            item = joined(left.item, right.item)
            return None if item is None else ListOf(item, max((left, right), key=bound_of).bound)
        case TupleOf(), TupleOf() if len(left.items) == len(right.items):
            items = [joined(a, b) for a, b in zip(left.items, right.items, strict=True)]
            return None if None in items else TupleOf(tuple(item for item in items if item is not None))
        case (ListOf(item=item), DictionaryOf()) if item == ANY:
            return right  # `[]` is also the empty dictionary
        case (DictionaryOf(), ListOf(item=item)) if item == ANY:
            return left
        case DictionaryOf(), DictionaryOf():
            key, value = joined(left.key, right.key), joined(left.value, right.value)
            return None if key is None or value is None else DictionaryOf(key, value)
        case Named(), Named() if not left.variant and not right.variant and "" in (left.name, right.name):
            if left.fields.keys() != right.fields.keys():
                return None
            if any(joined(item, right.fields[name]) is None for name, item in left.fields.items()):
                return None
            return left if left.name else right
        case RefTo(), RefTo():
            item = joined(left.item, right.item)
            return None if item is None else RefTo(item)
        case _:
            return None


def widened(type: Type) -> Type:
    """The type of a variable of which the first value is known: its lists have the default cardinality, or more."""
    if not isinstance(type, ListOf):
        return type
    return ListOf(widened(type.item), type.bound if bound_of(type) > LIST else None)


def narrowed(wanted: Type, found: Type) -> Type:
    """The type of a value of type `found` where one is wanted with which it joins. Cardinalities are those wanted."""
    match wanted, found:
        case ListOf(), ListOf():
            item = wanted.item if found.item == ANY else narrowed(wanted.item, found.item)
            return ListOf(item, wanted.bound)
        case TupleOf(), TupleOf():
            return TupleOf(tuple(narrowed(a, b) for a, b in zip(wanted.items, found.items, strict=True)))
        case _:
            return joined(wanted, found) or wanted


def exceeds(found: Type, type: Type) -> bool:
    """Whether a value of type `found` may have a list with more items than `type` permits."""
    match found, type:
        case ListOf(), ListOf():
            return bound_of(found) > bound_of(type) or exceeds(found.item, type.item)
        case TupleOf(), TupleOf():
            return any(exceeds(a, b) for a, b in zip(found.items, type.items, strict=True))
        case _:
            return False


def words(items: Sequence[Type]) -> str:
    """A list of types in a message."""
    return ", ".join(map(str, items)) if items else "nothing"
