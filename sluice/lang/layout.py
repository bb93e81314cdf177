"""Layouts: the formats of headers, and the shapes of temp, perm and callback data.

    class udp_hdr(layout):
        sport = UInt(16)
        dport = UInt(16)

The order of the members is the order of the fields. A field of up to 64 bits is an unsigned number in network order;
a longer one, or one whose length is an expression of earlier fields, is a byte slice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sluice.lang.errors import DescriptionError, did_you_mean
from sluice.lang.expression import BYTES, NUMBER, Expression, to_expression
from sluice.lang.where import Where, here

ORDERS = ("big", "little")


class Field(Expression):
    """A member of a layout.

    `bits` is its length: a whole number, or an expression over earlier fields. `const`: what a header must have
    there. `init`: what temp or perm starts from. `serial`: RFC 1982 arithmetic in the field's width.
    """

    def __init__(
        self,
        bits: int | Expression,
        const: int | None = None,
        init: int | Expression | None = None,
        order: str = "big",
        serial: bool = False,
    ) -> None:
        super().__init__()
        if isinstance(bits, bool) or not isinstance(bits, (int, Expression)):
            raise DescriptionError(f"the length of a field is a number of bits, not {bits!r}", "write Bit(8), or Bit(len << 3).")
        if isinstance(bits, int) and bits <= 0:
            raise DescriptionError(f"a field of {bits} bits", "a field has at least one bit.")
        self.bits = bits
        self.order = order
        self.serial = serial
        self.name = ""
        self.layout: type[layout] | None = None
        if order not in ORDERS:
            raise DescriptionError(f"unknown byte order '{order}'", "the order is 'big' or 'little'.")
        if order == "little" and (not isinstance(bits, int) or bits % 8 or bits > 64):
            raise DescriptionError("a little-endian field has whole bytes, at most 8", "use 8, 16, ... or 64 bits.")
        if self.kind == BYTES and (const is not None or serial):
            raise DescriptionError(
                "const= and serial= are for numbers, and a field of more than 64 or of variable bits is a byte slice",
                "split the field, or compare a number field beside it.",
            )
        if self.kind == BYTES and init is not None:
            raise DescriptionError("init= is for numbers of at most 64 bits", "a byte slice starts empty.")
        if isinstance(bits, int) and bits <= 64:
            for what, number in (("const", const), ("init", init)):
                if isinstance(number, int) and not 0 <= number < 1 << bits:
                    raise DescriptionError(f"{what}={number} does not fit in {bits} bits", f"give a number below {1 << bits}.")
        if const is not None and not isinstance(const, int):
            raise DescriptionError("const= is a whole number", "compare with an expression in p.require(...) instead.")
        self.const = const
        self.init = None if init is None else to_expression(init)

    @property
    def kind(self) -> str:  # type: ignore[override]
        return NUMBER if isinstance(self.bits, int) and self.bits <= 64 else BYTES

    @property
    def width(self) -> int:
        """Bits of a number field."""
        assert isinstance(self.bits, int)
        return self.bits

    def __repr__(self) -> str:
        owner = self.layout.__name__ if self.layout else "?"
        return f"{owner}.{self.name}"


def Bit(  # noqa: N802 - the paper's name
    length: int | Expression,
    const: int | None = None,
    init: int | Expression | None = None,
    order: str = "big",
    serial: bool = False,
) -> Any:
    """A field of `length` bits; see Field."""
    return Field(length, const, init, order, serial)


UInt = Bit


class _Members(dict[str, Any]):
    """Namespace of a layout's body: refuses a second field of the same name, which Python would silently accept."""

    def __setitem__(self, name: str, value: Any) -> None:
        if isinstance(self.get(name), Field):
            raise DescriptionError(f"field '{name}' is defined twice in one layout", "give the second one another name.")
        if isinstance(value, Field):
            if value.name:
                raise DescriptionError(
                    f"'{name}' is the same field as '{value.name}'", f"give '{name}' a Bit(...) of its own."
                )
            value.name = name
        super().__setitem__(name, value)


class LayoutType(type):
    """Metaclass of layouts: collects the fields in order; layouts add up to a header."""

    fields: dict[str, Field]
    where: Where

    @classmethod
    def __prepare__(cls, name: str, bases: tuple[type, ...], /, **kwargs: Any) -> _Members:
        return _Members()

    def __new__(cls, name: str, bases: tuple[type, ...], members: _Members) -> LayoutType:
        made = super().__new__(cls, name, bases, dict(members))
        made.fields = {}
        for base in bases:
            made.fields.update(getattr(base, "fields", {}))
        made.where = here()
        for key, value in members.items():
            if isinstance(value, Field):
                value.layout = made  # type: ignore[assignment]
                made.fields[key] = value
            elif not key.startswith("__") and bases and not callable(value):
                raise DescriptionError(f"'{key}' in layout '{name}' is not a field", f"write {key} = Bit(n).")
        return made

    def __add__(cls, other: object) -> HeaderFormat:
        return HeaderFormat([cls]) + other

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise DescriptionError(f"layout '{cls.__name__}' has no field '{name}'", did_you_mean(name, cls.fields))


class layout(metaclass=LayoutType):  # noqa: N801 - the paper's name
    """Base of all layouts."""


class AnyUntil:
    """A list of type-length-value parts: parse whichever of `layouts` fits, while `condition` holds.

    An alternative is chosen by the `const=` of its first field; one without const fits always, so it comes last.
    With `end`, a position in the header in bytes, no alternative reads past it, and the cursor goes there however
    the list ended. A part that is not understood ends the list and is counted; the packet goes on.
    """

    def __init__(self, layouts: object, condition: Expression, end: object = None) -> None:
        self.where = here()
        if not isinstance(layouts, (list, tuple)) or not layouts:
            raise DescriptionError("AnyUntil needs a list of layouts", "write AnyUntil([a, b], condition).")
        self.layouts: list[LayoutType] = []
        for item in layouts:  # pyright: ignore[reportUnknownVariableType]
            if not isinstance(item, LayoutType):
                raise DescriptionError(f"AnyUntil lists layouts, and {item!r} is none", "give classes derived from layout.")
            if not item.fields:
                raise DescriptionError(f"layout '{item.__name__}' has no fields", "an alternative reads at least one byte.")
            self.layouts.append(item)
        for earlier in self.layouts[:-1]:
            first = next(iter(earlier.fields.values()))
            if first.const is None:
                raise DescriptionError(
                    f"'{earlier.__name__}' fits everything, so the alternatives behind it are never tried",
                    "put it last, or give its first field a const=.",
                )
        self.condition = to_expression(condition)
        self.end = None if end is None else to_expression(end)

    def __add__(self, other: object) -> HeaderFormat:
        return HeaderFormat([self]) + other


class HeaderFormat:
    """Parts of a header one behind the other: layouts, If(...) >> layout, AnyUntil(...)."""

    def __init__(self, parts: list[Any]) -> None:
        from sluice.lang.choice import Choice

        for part in parts:
            if not isinstance(part, (LayoutType, AnyUntil, Choice)):
                raise DescriptionError(
                    f"{getattr(part, '__name__', repr(part))} cannot be part of a header",
                    "a header is made of layouts, If(...) >> layout, and AnyUntil(...).",
                )
        self.parts = parts

    def __add__(self, other: object) -> HeaderFormat:
        return HeaderFormat(self.parts + header_format(other).parts)

    def layouts(self) -> Iterator[LayoutType]:
        """All layouts of the header, wherever they stand in it."""
        from sluice.lang.choice import Choice

        for part in self.parts:
            if isinstance(part, LayoutType):
                yield part
            elif isinstance(part, AnyUntil):
                yield from part.layouts
            else:
                assert isinstance(part, Choice)
                for branch in part.branches():
                    yield from header_format(branch).layouts()


def header_format(value: object) -> HeaderFormat:
    """A header format from what a user wrote: a layout, a sum of parts, a choice, a list."""
    if isinstance(value, HeaderFormat):
        return value
    return HeaderFormat([value])
