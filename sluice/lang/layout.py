"""Layouts: the formats of headers, and the fields of temp, perm and callback data.

    class udp_hdr(layout):
        sport = UInt(16)
        dport = UInt(16)

The order of the members is the order of the fields. A field of up to 64 bits is an unsigned number in network order. A
longer one, or one whose length is an expression of earlier fields, is a byte slice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from sluice.lang.choice import Choice, Else, If, Part, joined_by_comma
from sluice.lang.errors import DescriptionError, described, did_you_mean
from sluice.lang.expression import BYTES, NUMBER, Expression, Number, to_number
from sluice.lang.where import Where, here

ORDERS = ("big", "little")


class Field(Expression):
    """A member of a layout, made by `Bit` or `UInt`, which document the parameters."""

    def __init__(
        self,
        bits: int | Expression,
        const: int | None = None,
        init: int | None = None,
        order: str = "big",
        serial: bool = False,
    ) -> None:
        super().__init__()
        if isinstance(bits, bool) or not isinstance(cast(object, bits), (int, Expression)):
            raise DescriptionError(
                f"the length of a field is a number of bits, not {described(bits)}",
                "write Bit(8), or Bit(n << 3) with a field n before it that counts bytes.",
            )
        if isinstance(bits, int) and bits <= 0:
            raise DescriptionError(f"a field of {bits} bits", "a field has at least one bit.")
        if isinstance(bits, Expression) and bits.kind == BYTES:
            raise DescriptionError(
                "the length of a field is a number of bits, not bytes",
                "use a field of at most 64 bits in it.",
            )
        self.bits = bits
        self.order = order
        self.serial = serial
        self.name = ""
        self.layout: LayoutType | None = None
        if order not in ORDERS:
            raise DescriptionError(f"unknown byte order {order!r}", "the order is 'big' or 'little'.")
        if order == "little" and (not isinstance(bits, int) or bits % 8 or bits > 64):
            raise DescriptionError("a little-endian field has whole bytes, at most 8", "use 8, 16, ... or 64 bits.")
        if self.kind == BYTES and (const is not None or serial):
            raise DescriptionError(
                "const= and serial= are for numbers, and this field is a byte slice",
                "a number has a constant length of at most 64 bits; split the field.",
            )
        if self.kind == BYTES and init is not None:
            raise DescriptionError("init= is for numbers of at most 64 bits", "a byte slice starts empty.")
        if const is not None and not isinstance(cast(object, const), int):
            raise DescriptionError(
                f"const= is {described(const)}, not a whole number",
                "compare with an expression in p.require(...) instead.",
            )
        if init is not None and not isinstance(cast(object, init), int):
            raise DescriptionError("init= is not a constant", "give a whole number, and compute in p.prep.")
        if isinstance(bits, int) and bits <= 64:
            for what, number in (("const", const), ("init", init)):
                if number is not None and not 0 <= number < 1 << bits:
                    raise DescriptionError(
                        f"{what}={number} does not fit in {bits} bits",
                        f"give a number from 0 to {(1 << bits) - 1}.",
                    )
        self.const = const
        self.init: Expression | None = None if init is None else Number(init)

    @property
    def kind(self) -> str:  # type: ignore[override]
        return NUMBER if isinstance(self.bits, int) and self.bits <= 64 else BYTES

    @property
    def width(self) -> int:
        """The number of bits of a number field."""
        assert isinstance(self.bits, int)
        return self.bits

    def __repr__(self) -> str:
        owner = self.layout.__name__ if self.layout else "?"
        return f"{owner}.{self.name}"


def Bit(  # noqa: N802 - the paper's name
    length: int | Expression,
    const: int | None = None,
    init: int | None = None,
    order: str = "big",
    serial: bool = False,
) -> Any:
    """A field of `length` bits: a positive integer, or an expression over earlier fields, in bits.

    A field with a constant length of at most 64 bits is an unsigned number. Any other field is a byte slice, which
    begins and ends at a byte. Bits are taken from the most significant one on.

    const: the value that the header must have. Another value is malformed or, in an AnyUntil, selects another
        alternative.
    init: the initial value of a field of temp, perm or a callback's layout (default 0).
    order: "big" (network order) or "little", for fields of 1 to 8 whole bytes that begin at a byte.
    serial: serial numbers (RFC 1982): + and - wrap at the field's width, and < <= > >= compare modulo it.

    const and init are integers that fit in the field. Raises DescriptionError for invalid values.
    """
    return Field(length, const, init, order, serial)


UInt = Bit
"""The same as `Bit`, for fields that are read as a number of several bytes."""


class VarintField(Field):
    """A variable-length integer, made by `Varint`, which documents it."""

    def __init__(self, const: int | None) -> None:
        super().__init__(62, const)


def Varint(const: int | None = None) -> Any:  # noqa: N802 - as Bit and UInt
    """A variable-length integer of RFC 9000, 16: a number of up to 62 bits in 1, 2, 4 or 8 bytes.

    It begins at a byte, and its first two bits encode the number of bytes. The encoding need not be the shortest.

    const: the value that the header must have; another value is malformed. It cannot distinguish the alternatives of an
        AnyUntil.

    Only in headers. Raises DescriptionError for a const that does not fit in 62 bits.
    """
    return VarintField(const)


class BytesField(Field):
    """Bytes of any length, made by `Bytes`, which documents it."""

    def __init__(self) -> None:
        super().__init__(_ANY_LENGTH)


_ANY_LENGTH = 1 << 32
"""More bits than a number has, so that the field is a byte slice."""


def Bytes() -> Any:  # noqa: N802 - as Bit and UInt
    """Bytes of any length, in the layout of a callback or of temp: a slice of a packet or of a stream.

    A callback in C gets `sl_bytes`, one in Python `bytes`: the captured part. Not in headers, where a field has a
    length, and not in perm, which stores numbers.
    """
    return BytesField()


RESERVED = ("fields", "where")
"""Attributes of layouts themselves, which fields must not be named after."""


class _Members(dict[str, Any]):
    """The namespace of a layout's body. It refuses, at the line of the mistake, what Python would silently accept."""

    def __setitem__(self, name: str, value: Any) -> None:
        if name == "__annotations__":
            value = _Annotations(self)
        elif isinstance(value, Field):
            self._check(name, value)
            value.name = name
        elif not name.startswith("__"):
            raise DescriptionError(
                f"'{name}' in layout '{self['__qualname__'].rpartition('.')[2]}' is not a field",
                f"write {name} = Bit(n); put anything else outside the class.",
            )
        super().__setitem__(name, value)

    def _check(self, name: str, value: Field) -> None:
        if name in self:
            raise DescriptionError(
                f"field '{name}' is defined twice in one layout", "give the second one another name."
            )
        if name in RESERVED or name.startswith("__"):
            raise DescriptionError(f"'{name}' cannot be the name of a field", "choose another name.")
        if value.name:
            raise DescriptionError(
                f"'{name}' is the same field as '{value.name}'", f"give '{name}' a Bit(...) of its own."
            )


class _Annotations(dict[str, Any]):
    """Refuses `name: UInt(16)`, which would define no field."""

    def __init__(self, members: _Members) -> None:
        super().__init__()
        self._members = members

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in self._members:
            raise DescriptionError(f"'{name}' is annotated and not assigned", f"write {name} = Bit(n), with '='.")
        super().__setitem__(name, value)


class HeaderPart(Part):
    """A part of a header."""

    of_header = True

    @classmethod
    def sum_of(cls, parts: list[Any]) -> HeaderFormat:
        return HeaderFormat(parts)


class LayoutType(HeaderPart, type):
    """Metaclass of layouts: collects the fields in order; layouts joined by `+` form a header."""

    fields: dict[str, Field]
    where: Where

    @classmethod
    def __prepare__(cls, name: str, bases: tuple[type, ...], /, **kwargs: Any) -> _Members:
        return _Members()

    def __new__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> LayoutType:
        if not isinstance(members, _Members):  # of a layout made by type(name, (layout,), members)
            given, members = members, _Members()
            for key, value in {"__qualname__": name, **given}.items():
                members[key] = value
        for base in bases:
            if getattr(base, "fields", None):
                raise DescriptionError(
                    f"layout '{name}' is derived from layout '{base.__name__}'",
                    f"derive it from layout alone; for a header write {base.__name__} + {name}.",
                )
        made = super().__new__(cls, name, bases, {**members, "__annotations__": {}})
        made.fields = {}
        made.where = here()
        for key, value in members.items():
            if isinstance(value, Field):
                value.layout = made
                made.fields[key] = value
        return made

    def __call__(cls, *arguments: object) -> Any:
        raise DescriptionError(
            f"layout '{cls.__name__}' is called",
            f"use the class itself: {cls.__name__}, without parentheses.",
        )

    def __repr__(cls) -> str:
        return cls.__name__

    def __add__(cls, other: object) -> HeaderFormat:
        return HeaderFormat([cls]) + other

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise DescriptionError(f"layout '{cls.__name__}' has no field '{name}'", did_you_mean(name, cls.fields))


class layout(metaclass=LayoutType):  # noqa: N801 - the paper's name
    """Base of all layouts. A derived class has Bit(...) and UInt(...) members, in order.

    The class itself represents the layout (`p.header = some_layout`) and is never called. Layouts and other parts of a
    header are joined by `+`. Raises DescriptionError, at the member's line, for a member that is not a field and for a
    duplicate name.
    """


class AnyUntil(HeaderPart):
    """A list of type-length-value parts: parses the alternative that matches, while `condition` holds.

    alternatives: layouts, or sums of parts that begin with one. They are distinguished by the `const=` of their first
        fields, which have the same length. An alternative whose first field has no const always matches, so it comes
        last.
    condition: a number; the list ends when it is 0. It may use `p.cursor` and fields that were parsed before.
    count: the maximum number of parts. With it, the condition may be omitted.
    end: a position, in bytes from the start of the header. No alternative reads past it, and the cursor is set to it
        however the list ended.
    limit: parts that are read at most, for lists that a sender may make long; more end the list and are counted.

    A part that matches no alternative ends the list and is counted; the packet continues. If an alternative occurs
    several times in the list, its fields have the values of the last occurrence.
    """

    def __init__(
        self,
        alternatives: object,
        condition: object = 1,
        end: object = None,
        count: object = None,
        limit: int | None = None,
    ) -> None:
        self.where = here()
        if not isinstance(alternatives, (list, tuple)) or not alternatives:
            raise DescriptionError("AnyUntil needs a list of layouts", "write AnyUntil([a, b], condition).")
        self.alternatives: list[HeaderFormat] = []
        self.layouts: list[LayoutType] = []
        """The layout that each alternative begins with."""
        for item in cast(Iterable[object], alternatives):
            first = item.parts[0] if isinstance(item, HeaderFormat) else item
            if not isinstance(first, LayoutType):
                raise DescriptionError(
                    f"AnyUntil lists layouts, and {described(item)} is none",
                    "give classes derived from layout, or sums that begin with one.",
                )
            if not first.fields:
                raise DescriptionError(
                    f"layout '{first.__name__}' has no fields", "an alternative reads at least one byte."
                )
            self.alternatives.append(header_format(item))
            self.layouts.append(first)
            if self.alternatives[-1].has_list():
                raise DescriptionError(
                    f"the alternative that begins with '{first.__name__}' has a list of its own",
                    "a list cannot stand in another: give it a layer of its own, or read it as bytes.",
                )
        self._check_first_fields()
        self.condition = to_number(condition, "the condition of AnyUntil", "compare something, as in p.cursor < n.")
        self.count = None if count is None else to_number(count, "count=", "give a number, as in p.header.count.")
        self.end = None if end is None else to_number(end, "end=", "give a position in bytes, as in p.header.len << 2.")
        if limit is not None and (type(limit) is not int or limit < 1):
            raise DescriptionError(f"limit={described(limit)}", "give a whole number of parts, 1 at least.")
        self.limit = limit

    def _check_first_fields(self) -> None:
        known: dict[int, str] = {}
        first = next(iter(self.layouts[0].fields.values()))
        for number, item in enumerate(self.layouts, 1):
            field, name = next(iter(item.fields.values())), item.__name__
            if field.const is None:
                if number < len(self.layouts):
                    raise DescriptionError(
                        f"'{name}' fits everything, so the alternatives after it are never tried",
                        "put it last, or give its first field a const=.",
                    )
                continue
            if isinstance(field, VarintField):
                raise DescriptionError(
                    f"'{name}' begins with a Varint(const={field.const}), whose bytes differ from packet to packet",
                    "tell alternatives apart by a Bit(n, const=...); or read the number, and use If(...) after it.",
                )
            if (field.width, field.order) != (first.width, first.order):
                raise DescriptionError(
                    f"'{self.layouts[0].__name__}' and '{name}' begin with fields of another length or order",
                    "alternatives are told apart by one first field: give it the same bits everywhere.",
                )
            if field.const in known:
                raise DescriptionError(
                    f"'{known[field.const]}' and '{name}' both begin with const={field.const}",
                    "only the first would ever be tried; give each a const of its own.",
                )
            known[field.const] = name

    def __add__(self, other: object) -> HeaderFormat:
        return HeaderFormat([self]) + other


class HeaderFormat(HeaderPart):
    """Consecutive parts of a header: layouts, If(...) >> layout, AnyUntil(...)."""

    def __init__(self, parts: list[Any]) -> None:
        plain: list[LayoutType] = []
        for part in parts:
            if isinstance(part, If):
                raise part.without_body()
            if isinstance(part, Else):
                raise part.without_if()
            if isinstance(part, LayoutType):
                _refuse_any_length(part)
                if part in plain:
                    raise DescriptionError(
                        f"layout '{part.__name__}' stands twice in one header",
                        "give the second place a layout of its own.",
                    )
                plain.append(part)
            elif isinstance(part, Choice):
                for branch in part.branches():
                    header_format(branch)
            elif not isinstance(part, AnyUntil):
                raise DescriptionError(
                    f"{described(part)} cannot be part of a header",
                    joined_by_comma(part)
                    or "a header is made of layouts, If(...) >> layout, and AnyUntil(...), joined by '+'.",
                )
        self.parts = parts

    def __add__(self, other: object) -> HeaderFormat:
        return HeaderFormat(self.parts + header_format(other).parts)

    def layouts(self) -> Iterator[LayoutType]:
        """All layouts of the header, including nested ones."""
        for part in self.parts:
            if isinstance(part, LayoutType):
                yield part
            elif isinstance(part, AnyUntil):
                for alternative in part.alternatives:
                    yield from alternative.layouts()
            else:
                assert isinstance(part, Choice)
                for branch in part.branches():
                    yield from header_format(branch).layouts()

    def has_list(self) -> bool:
        """Whether the header contains an AnyUntil."""
        return any(
            isinstance(part, AnyUntil)
            or (isinstance(part, Choice) and any(header_format(branch).has_list() for branch in part.branches()))
            for part in self.parts
        )


def _refuse_any_length(part: LayoutType) -> None:
    """A field of a header has a length."""
    for field in part.fields.values():
        if isinstance(field, BytesField):
            raise DescriptionError(
                f"Bytes() in layout '{part.__name__}' of a header",
                "give the field its length in bits, as in Bit(n << 3); what follows the header is p.payload.",
                field.where,
            )


def header_format(value: object) -> HeaderFormat:
    """Convert a user's layout, sum of parts, choice or AnyUntil to a header format."""
    if isinstance(value, HeaderFormat):
        return value
    return HeaderFormat([value])
