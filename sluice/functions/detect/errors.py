"""Errors in rules: the file and line, the item that is wrong, and the advice."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """A position in the user's rules."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class RuleError(ValueError):
    """A rule that cannot be used. item: the option or the part of the header that is wrong."""

    def __init__(self, place: Place, item: str, what: str, advice: str = "") -> None:
        super().__init__(f"{place}: {item}: {what}" + (f"\n    {advice}" if advice else ""))
        self.place = place
        self.item = item
        self.what = what
        self.advice = advice


class DetectionError(Exception):
    """Rules as a whole cannot be used (a library or a file is missing); the message has the advice."""
