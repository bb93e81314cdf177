"""What one side of a connection sends."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(eq=False, slots=True)
class Stream:
    """The bytes of one side in order, by their position after the SYN.

    Of bytes that were sent twice the first ones count; what lies after a hole waits in `ahead`.
    """

    notes: set[str]
    """What is remarkable, shared with the connection."""
    buffer: int
    """How far ahead of the stream data are not worth a note."""
    start: int | None = None
    """The sequence number of the SYN, when it was seen."""
    data: bytearray = field(default_factory=bytearray)
    ahead: dict[int, int] = field(default_factory=dict)
    seen_end: int = 0
    """One past the highest position seen."""
    fin: int | None = None
    """The position of the FIN, when it was seen."""

    def position(self, sequence: int) -> int:
        """The position of a sequence number: of all that it may be, the one nearest to the end of the data."""
        assert self.start is not None
        position = (sequence - (self.start + 1)) & 0xFFFFFFFF
        return position + ((len(self.data) - position + (1 << 31)) >> 32 << 32)

    def add(self, position: int, payload: bytes) -> None:
        """Takes the payload of a segment."""
        if self.fin is not None and position + len(payload) > self.fin:
            self.notes.add("data-after-fin")
            payload = payload[: max(0, self.fin - position)]
        if position < 0:
            self.notes.add("before-start")
            payload, position = payload[-position:], 0
        if not payload:
            return
        end = position + len(payload)
        if position > len(self.data) and end > len(self.data) + self.buffer:
            self.notes.add("beyond-buffer")
        known = self.data[position:end]
        if known != payload[: len(known)]:
            self.notes.add("changed")
        self._add_new(position + len(known), payload[len(known) :])
        self.seen_end = max(self.seen_end, end)

    def _add_new(self, position: int, payload: bytes) -> None:
        if position == len(self.data) and not self.ahead:
            self.data += payload
            return
        for place, value in enumerate(payload, position):
            if self.ahead.setdefault(place, value) != value:
                self.notes.add("changed")
        while (value := self.ahead.pop(len(self.data), None)) is not None:
            self.data.append(value)

    def finish(self, position: int) -> None:
        """Takes a FIN; the first one counts."""
        if self.fin is not None:
            return
        self.fin = position
        if self.seen_end > position:
            self.notes.add("data-after-fin")

    def has_hole(self) -> bool:
        """Whether data or the FIN lie after a hole."""
        return bool(self.ahead) or (self.fin is not None and self.fin > 0 and self.fin != len(self.data))
