"""A parameter of a function: what a user may set after the function's colon, and what a text for it means."""

from __future__ import annotations

import re
from dataclasses import dataclass

KINDS = {"text": "TEXT", "number": "N", "seconds": "SECONDS", "flag": ""}
"""Kinds of parameters, and how help writes a value of one."""

Value = str | int | float | bool


class ParameterError(ValueError):
    """A parameter, or what is given for one, that makes no sense; the message says what to do."""


@dataclass(frozen=True)
class Parameter:
    """A parameter: its kind (see KINDS), its value where none is given, as a user would write it, and what it is for.

    Raises ParameterError for a kind that is none, and for a value that is not of the kind.
    """

    name: str
    kind: str
    value: str
    help: str

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ParameterError(f"'{self.kind}' is no kind of parameter: it is one of {', '.join(KINDS)}")
        self.read(self.value)

    def read(self, text: str) -> Value:
        """What a text means. A number may be decimal or, after 0x, hexadecimal; a flag is yes or no."""
        match self.kind:
            case "text":
                return text
            case "number" if re.fullmatch(r"[0-9]+|0x[0-9a-fA-F]+", text):
                number = int(text, 16 if text.startswith("0x") else 10)
                if number < 1 << 64:
                    return number
            case "seconds" if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
                return float(text)
            case "flag" if text in ("yes", "no"):
                return text == "yes"
            case _:
                pass
        wanted = {"number": "a number from 0 on", "seconds": "seconds, as 2.5", "flag": "yes or no"}[self.kind]
        raise ParameterError(f"parameter '{self.name}' is {wanted}, not '{text}'")

    @property
    def usage(self) -> str:
        """How it is given."""
        return self.name if self.kind == "flag" else f"{self.name}={KINDS[self.kind]}"
