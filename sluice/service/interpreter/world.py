"""The channels of an instance: bytes that came, and bytes that were sent."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

from sluice.service.grammar import scan
from sluice.service.grammar.codec import MalformedError, Parsed, evaluate, parse, property_of, serialise
from sluice.service.grammar.plan import Plan
from sluice.service.interpreter.values import FaultError, Record

NOTES = 16
"""Requests without an answer that the parser of answers needs."""
INTERIMS = 16
"""Interim responses of HTTP to a request that are taken; runtime/service.h has the same number."""


@dataclass
class Channel:
    """One end of a connection. `ended`: no byte follows `received`."""

    port: int
    index: int
    received: bytes = b""
    ended: bool = False
    sent: bytearray = field(default_factory=bytearray)
    closed: bool = False
    """Nothing more will be sent."""

    @property
    def over(self) -> bool:
        return self.ended and not self.received

    notes: list[int] = field(default_factory=list[int])
    """Of the requests that were sent, for the parser of their answers."""
    interims: int = 0
    sum_in: int = 0
    sum_out: int = 0

    def look(self, unit: Plan, name: str, fields: list[str]) -> tuple[Record, int] | None:
        """The next message, and its bytes; None if it is incomplete. Raises FaultError."""
        if not self.received:
            return None
        note = self.notes[0] if self.notes else 0
        try:
            found = parse(unit, self.received, note, self.ended)
        except MalformedError as error:
            raise self._unreadable("BAD_MESSAGE") from error
        if found is None:
            if self.ended:
                raise self._unreadable("TRUNCATED")
            return None
        if property_of(unit, found, "end"):
            raw = self.received[: found.end - 4]
            wrong = zlib.crc32(raw, self.sum_in) != property_of(unit, found, "checksum") % (1 << 32)
            fault = self._unreadable("CHECKSUM")
            if wrong and "checksum" in unit.expressions:
                raise fault
            return None
        try:
            raw = _blanked(unit, found, self.received[: found.end])
        except MalformedError as error:
            raise self._unreadable("BAD_MESSAGE") from error
        values = {field: found.values[field] for field in fields}
        line = evaluate(unit.expressions["mute"], found.values, 0, found.note) if "mute" in unit.expressions else b""
        if isinstance(line, bytes) and line:
            muted = scan.mute(line)
            raw = raw.replace(line, muted, 1)
            values = {field: muted if value == line else value for field, value in values.items()}
        return Record(name, values, raw, changed=False, parsed=found, note=note), found.end

    def took(self, unit: Plan, message: Record, size: int) -> None:
        """A message was received. Raises FaultError for an interim response too many."""
        found = message.parsed
        assert found is not None
        if unit.tail is not None and unit.tail.framing == "http_response":
            self.interims = 0 if property_of(unit, found, "final", 1) else self.interims + 1
            if self.interims > INTERIMS:
                raise self._unreadable("INTERIM")
        self.received = self.received[size:]
        if "checksum" in unit.expressions:
            self.sum_in = zlib.crc32(message.raw or b"", self.sum_in)
        if self.notes and property_of(unit, found, "final", 1):
            self.notes.pop(0)
        if property_of(unit, found, "last") or found.open:
            self.received, self.ended = b"", True

    def _unreadable(self, reason: str) -> FaultError:
        """The bytes after a malformed message cannot be separated from its rest, and are dropped."""
        self.received, self.ended = b"", True
        return FaultError(reason)

    def send(self, unit: Plan, message: Record) -> None:
        """Raises FaultError where a value does not fit its field."""
        if self.closed:
            raise FaultError("CLOSED_CHANNEL")
        data = message.raw
        if data is None or message.changed:
            try:
                data = serialise(unit, message.fields, message.raw, message.note)
            except MalformedError as error:
                raise FaultError("UNFIT") from error
        came = message.parsed is not None and not message.changed
        found = message.parsed if came else parse(unit, data, message.note, True)
        if found is not None and property_of(unit, found, "answered", 1) and len(self.notes) < NOTES:
            self.notes.append(property_of(unit, found, "note") % 256)
        if "checksum" in unit.expressions:
            self.sum_out = zlib.crc32(data, self.sum_out)
        self.sent += data

    def finish(self, unit: Plan) -> None:
        """Ends sending: the bytes that end a stream of such messages."""
        if unit.finish is not None and not self.closed:
            self.sent += unit.finish
            if "checksum" in unit.expressions:
                self.sent += zlib.crc32(unit.finish, self.sum_out).to_bytes(4, "big")
        self.closed = True


def _blanked(unit: Plan, found: Parsed, raw: bytes) -> bytes:
    """The bytes of a message without hop-by-hop fields. Raises MalformedError."""
    if "hops" not in unit.expressions:
        return raw
    fill = unit.expressions.get("fill")
    put = evaluate(fill, found.values, 0, found.note) if fill is not None else b""
    block = evaluate(unit.expressions["hops"], found.values, 0, found.note)
    start, end = next(span for span, item in zip(found.spans, unit.items, strict=True) if item.kind == "headers")
    assert isinstance(put, bytes) and isinstance(block, bytes)
    return raw[:start] + scan.hops(block, put) + raw[end - 2 :]
