"""Messages from a byte stream (DESIGN.md section 3, Streams to messages)."""

from __future__ import annotations

from sluice.lang.errors import DescriptionError
from sluice.lang.expression import BYTES, Expression, to_expression
from sluice.lang.where import here


class Length:
    """How long a layer's next message is, so that it sees whole messages however the stream was cut.

    length: bytes of the whole message, its header included, from fields of the header.
    limit: 1 to 131072; a longer message is not believed.
    resync: what holds of a header where a message begins. Behind a gap, or behind something that is no message, the
        next start is looked for byte by byte; without resync nothing more of that side is understood.
    Either way event `lost` says so, with its cause (see LOSS_CAUSES).
    """

    def __init__(self, length: object, limit: int = 1 << 16, resync: object = None) -> None:
        self.where = here()
        self.length: Expression = to_expression(length)
        self.resync: Expression | None = None if resync is None else to_expression(resync)
        for what, expression in (("length", self.length), ("resync", self.resync)):
            if expression is not None and expression.kind == BYTES:
                raise DescriptionError(
                    f"the {what} of a message is bytes", "give a number made of header fields.", self.where
                )
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= 1 << 17:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DescriptionError(f"limit={limit!r}", "a message has 1 to 131072 bytes.", self.where)
        self.limit = limit
