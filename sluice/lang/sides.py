"""Layouts for fields that an instance stores for each of its two sides."""

from __future__ import annotations

import copy
from typing import Any

from sluice.lang.errors import DescriptionError, described
from sluice.lang.layout import Field, LayoutType, layout

SIDES = ("active", "passive")


def both_sides(side: object, shared: object = None) -> LayoutType:
    """A layout for p.perm of a connection-oriented parser that has every field of layout `side` once per side.

    Field x becomes active_x and passive_x; the fields of layout `shared` follow. The layout has the name of `side`.
    Raises DescriptionError for a value that is not a layout, and for a duplicate name.
    """
    members: dict[str, Any] = {}
    parts = [(side, f"{name}_") for name in SIDES] + ([] if shared is None else [(shared, "")])
    for part, prefix in parts:
        if not isinstance(part, LayoutType):
            raise DescriptionError(
                f"both_sides is given {described(part)}", "give it classes derived from layout, without parentheses."
            )
        for name, field in part.fields.items():
            if prefix + name in members:
                raise DescriptionError(
                    f"field '{prefix + name}' is there for a side already", "give the shared one another name."
                )
            members[prefix + name] = _copy(field)
    assert isinstance(side, LayoutType)
    made = type(side.__name__, (layout,), members)
    assert isinstance(made, LayoutType)
    return made


def _copy(field: Field) -> Field:
    """The same field, without a layout and a name."""
    found = copy.copy(field)
    found.name, found.layout = "", None
    return found
