"""Messages from a byte stream (DESIGN.md section 3, Streams to messages), or from a packet."""

from __future__ import annotations

from typing import cast

from sluice.lang.errors import DescriptionError, described, to_flag
from sluice.lang.expression import Expression, to_number
from sluice.lang.where import here

LONGEST = 1 << 17
"""The maximum length of a message in bytes."""


class Length:
    """The length of a layer's next message, so that the layer gets whole messages however the stream was segmented.

    Above a layer without a stream (no p.seq), messages are those of a packet: what that layer forwards is cut into
    consecutive messages, and nothing is stored for the next packet.

    length: the length of the whole message in bytes, with its header, computed from fields of the header. For messages
        of a packet, payload_len may be used too: the number of bytes of the packet after the header.
    limit: 1 to 131072 bytes. A message that claims to be longer is not accepted.
    resync: a condition that a header satisfies where a message begins. After a gap, or after bytes that form no
        message, the next start is searched byte by byte. Without resync, the rest of that side is not parsed. Messages
        of a packet have no resync: the rest of the packet is lost.
    bundled: whether each message costs about as much as a packet, as a frame in an aggregate does. The box bounds how
        many of these are cut from packets (its settings `bundle` and `bundle_mean`); the rest of the packet, or of what
        a packet delivers of a stream, is lost.
    half: whether two bundled messages cost as much as a packet, as chunks in an association do: each counts half
        towards `bundle_mean`.
    begins: whether messages begin instances, of this layer or of layers above: of messages that are not bundled, the
        same bound counts those that do.

    In each of these cases, event `lost` gives the cause (see LOSS_CAUSES). Raises DescriptionError for bytes where a
    number is needed, for a limit out of range, and for half= without bundled=.
    """

    def __init__(
        self,
        length: object,
        limit: int = 1 << 16,
        resync: object = None,
        *,
        bundled: bool = False,
        half: bool = False,
        begins: bool = False,
    ) -> None:
        self.where = here()
        advice = "give a number made of fields of the header."
        self.length: Expression = to_number(length, "the length of a message", advice)
        self.resync: Expression | None = None
        if resync is not None:
            self.resync = to_number(resync, "resync=", "compare a field, as in p.header.magic == 7.")
        if not isinstance(cast(object, limit), int) or not 1 <= limit <= LONGEST:
            raise DescriptionError(f"limit={described(limit)}", f"a message has 1 to {LONGEST} bytes.")
        self.limit = limit
        self.bundled = to_flag(bundled, "bundled=")
        self.half = to_flag(half, "half=")
        if self.half and not self.bundled:
            raise DescriptionError("half= of messages that are not bundled", "write bundled=True, half=True.")
        self.begins = to_flag(begins, "begins=")
