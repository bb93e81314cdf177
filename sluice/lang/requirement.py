"""What `p.require` demands of well-formed packets."""

from __future__ import annotations

from sluice.lang.expression import Expression, Property, children
from sluice.lang.field_value import FieldValue
from sluice.lang.layout import Field
from sluice.lang.parser import OF_INSTANCE, PrototypeParts
from sluice.lang.where import here


class Requirement:
    """A condition that well-formed packets satisfy."""

    def __init__(self, condition: Expression, reason: str, option: str | None) -> None:
        self.where = here()
        self.condition = condition
        self.reason = reason
        self.option = option

    def after_prep(self, p: PrototypeParts) -> bool:
        """Whether it uses values of `p` that are known only after prep: temp, perm, the instance."""

        def asks(item: Expression) -> bool:
            match item:
                case FieldValue():
                    own = item.owner.prototype is p and item.group in ("temp", "perm")
                case Property():
                    own = item.owner.prototype is p and item.name in OF_INSTANCE
                case Field():
                    own = item.layout is not None and item.layout in (p.temp_layout, p.perm_layout)
                case _:
                    own = False
            return own or any(map(asks, children(item)))

        return asks(self.condition)
