"""Places in a program, and messages about mistakes: the place, the mistake, and the advice."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a program: the file as the user named it, line and column counted from 1."""

    file: str
    line: int
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class ServiceError(Exception):
    """A program or a grammar that Sluice refuses.

    `place` is its position in the user's file, `what` the mistake, `advice` what to write instead.
    """

    def __init__(self, place: Place, what: str, advice: str) -> None:
        self.place = place
        self.what = what
        self.advice = advice
        super().__init__(f"{place}: {what}\n    {advice}")


@dataclass(frozen=True, slots=True)
class Warned:
    """Something that is allowed and probably not meant."""

    place: Place
    what: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}"


def suggest(name: str, known: Iterable[str], otherwise: str = "nothing of that kind is defined.") -> str:
    """Advice for an unknown name: the closest known one, else all of them."""
    names = sorted(set(known))
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return f"did you mean '{close[0]}'?"
    if not names:
        return otherwise
    return "known here: " + ", ".join(names[:24]) + ("." if len(names) <= 24 else ", ...")
