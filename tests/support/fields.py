"""Reports every field of a parser's header by an event, for tests that compare the fields with the sent ones."""

from __future__ import annotations

from typing import Any

from sluice.lang import Assign, Bit, Callback, layout
from sluice.lang.expression import NUMBER

BYTES = 999
"""The width of a field that holds bytes: any length that no number has."""


def tell_fields(parser: Any) -> Any:
    """Add an event `fields` to the parser, with all fields of its header in their order, and return the parser.

    A field whose name occurs in several layouts is called LAYOUT_FIELD.
    """
    named: dict[str, Any] = {}
    same = parser.header_fields()
    for part in parser.format.layouts():
        for name, field in part.fields.items():
            named[name if len(same[name]) == 1 else f"{part.__name__}_{name}"] = field
    members = {name: Bit(field.width if field.kind == NUMBER else BYTES) for name, field in named.items()}
    data: Any = type(f"{parser.name}_fields", (layout,), members)
    action: Any = Callback(data)
    for name, field in named.items():
        action = Assign(data.fields[name], field) + action
    parser.event.fields = action
    return parser
