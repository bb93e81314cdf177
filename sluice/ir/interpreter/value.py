"""Values of a program that is being interpreted: numbers, bytes, and the registers that hold them.

Bytes are a pair: what was captured, and how long they were on the wire.
"""

from __future__ import annotations

from typing import Generic, TypeVar

Value = TypeVar("Value")

Bytes = tuple[bytes, int]

EMPTY: Bytes = (b"", 0)


class InterpreterError(Exception):
    """The program does what no correct program does: a pass or the builder has a bug."""


class Registers(dict[str, Value], Generic[Value]):
    """Registers by name. One that was never set cannot be read."""

    def __missing__(self, name: str) -> Value:
        raise InterpreterError(f"register '{name}' is read before it is set")


class NoInstance(Registers[int]):
    """What stands for the fields of an instance where there is none."""

    def __missing__(self, name: str) -> int:
        raise InterpreterError(f"register '{name}' is read without an instance")

    def __setitem__(self, name: str, value: int) -> None:
        raise InterpreterError(f"register '{name}' is set without an instance")


class ZeroNumbers(Registers[int]):
    """Slots where no packet passed: what was not left is 0."""

    def __missing__(self, name: str) -> int:
        return 0


class NoStrings(Registers[Bytes]):
    """Slots where no packet passed: what was not left is empty."""

    def __missing__(self, name: str) -> Bytes:
        return EMPTY


def clip(value: Bytes, low: int, high: int) -> Bytes:
    """Bytes [low, high), clipped at the end in both measures; nothing when low is beyond high."""
    captured, length = value
    high = min(high, length)
    low = min(low, high)
    return captured[low:high], high - low


def folded_sum(data: bytes) -> int:
    """A number congruent to the sum of the 16-bit words of `data` modulo 0xffff, and 0 only if they all are.

    A last odd byte counts as if a zero followed it (RFC 1071).
    """
    return int.from_bytes(data + b"\0" * (len(data) & 1), "big")


def checksum(data: Bytes, pseudo: int) -> int:
    """The RFC 1071 checksum over `data`, begun with the sum `pseudo`; 0 when `data` was not all captured."""
    captured, length = data
    if len(captured) < length:
        return 0
    total = folded_sum(captured) + pseudo
    return 0xFFFF - (total % 0xFFFF or 0xFFFF) if total else 0xFFFF
