"""Messages from a byte stream (DESIGN.md section 3, Streams to messages), or from a packet."""

from __future__ import annotations

from typing import cast

from sluice.lang.errors import DescriptionError, described
from sluice.lang.expression import Expression, to_number
from sluice.lang.where import here

LONGEST = 1 << 17
"""Bytes: no message is longer."""


class Length:
    """How long a layer's next message is, so that it sees whole messages however the stream was cut.

    Above a layer that has no stream (no p.seq) the messages are those of a packet: what that layer passes on is cut
    into messages one behind the other, and nothing is kept for the next packet.

    length: bytes of the whole message, its header included, from fields of the header. Of messages of a packet also
        payload_len may be asked: it is what the packet has behind the header.
    limit: 1 to 131072 bytes; a longer message is not believed.
    resync: what holds of a header where a message begins. Behind a gap, or behind something that is no
        message, the next start is looked for byte by byte; without resync nothing more of that side is
        understood. Of messages of a packet there is none: the rest of the packet is lost.

    Either way event `lost` says so, with its cause (see LOSS_CAUSES). Raises DescriptionError for bytes where
    a number is needed, and for another limit.
    """

    def __init__(self, length: object, limit: int = 1 << 16, resync: object = None) -> None:
        self.where = here()
        advice = "give a number made of fields of the header."
        self.length: Expression = to_number(length, "the length of a message", advice)
        self.resync: Expression | None = None
        if resync is not None:
            self.resync = to_number(resync, "resync=", "compare a field, as in p.header.magic == 7.")
        if not isinstance(cast(object, limit), int) or not 1 <= limit <= LONGEST:
            raise DescriptionError(f"limit={described(limit)}", f"a message has 1 to {LONGEST} bytes.")
        self.limit = limit
