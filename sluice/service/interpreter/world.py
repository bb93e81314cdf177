"""The channels of an instance: bytes that came, and bytes that were sent."""

from __future__ import annotations

from dataclasses import dataclass, field

from sluice.service.grammar.codec import MalformedError, parse, serialise
from sluice.service.grammar.plan import Plan
from sluice.service.interpreter.values import FaultError, Record


@dataclass
class Channel:
    """One end of a connection. `ended`: nothing is to come after `received`."""

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

    def look(self, unit: Plan, name: str, fields: list[str]) -> tuple[Record, int] | None:
        """The message that stands next, and its bytes; None if it is not there as a whole. Raises FaultError."""
        if not self.received:
            return None
        try:
            found = parse(unit, self.received)
        except MalformedError as error:
            raise self._unreadable("BAD_MESSAGE") from error
        if found is None:
            if self.ended:
                raise self._unreadable("TRUNCATED")
            return None
        values = {field: found.values[field] for field in fields}
        return Record(name, values, self.received[: found.end], changed=False), found.end

    def _unreadable(self, reason: str) -> FaultError:
        """What comes after a message that cannot be read cannot be told from its rest, and is dropped."""
        self.received, self.ended = b"", True
        return FaultError(reason)

    def send(self, unit: Plan, message: Record) -> None:
        """Raises FaultError where a value does not fit its field."""
        if self.closed:
            raise FaultError("CLOSED_CHANNEL")
        if message.raw is not None and not message.changed:
            self.sent += message.raw
            return
        try:
            self.sent += serialise(unit, message.fields, message.raw)
        except MalformedError as error:
            raise FaultError("UNFIT") from error
