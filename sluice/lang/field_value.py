"""Fields of parsers as values in expressions."""

from __future__ import annotations

from sluice.lang.expression import Expression
from sluice.lang.layout import Field, LayoutType
from sluice.lang.owner import Owner


class FieldValue(Expression):
    """Field `field` of the header, temp or perm of `owner` (`group`), or of its virtual ordered packets (`v`)."""

    def __init__(self, owner: Owner, group: str, field: Field) -> None:
        super().__init__()
        self.owner = owner
        self.group = group
        self.field = field

    @property
    def kind(self) -> str:  # type: ignore[override]
        return self.field.kind


class Contains(Expression):
    """1 if the packet's header contained `part` (a layout or a field of it)."""

    def __init__(self, owner: Owner, part: LayoutType) -> None:
        super().__init__()
        self.owner = owner
        self.part = part
