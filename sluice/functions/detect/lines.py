"""The lines of a rules file: rules, variables, comments. A rule may continue on the next line after a backslash."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sluice.functions.detect.errors import Place, RuleError

RULE_MOST = 1 << 16
"""Characters of one rule. A longer line is refused, so that one that is no rule costs no time."""


@dataclass(frozen=True)
class Option:
    """An option as it is written: `name` or `name:value`, without the semicolon."""

    name: str
    value: str | None
    place: Place


@dataclass(frozen=True)
class Statement:
    """A rule or a variable: the words before the options, and the options of a rule (None: there are none)."""

    place: Place
    head: str
    options: tuple[Option, ...] | None


def read_lines(text: str, file: str) -> Iterator[Statement | RuleError]:
    """The statements of a file. An item that is no statement is yielded as its error, so that a reader may continue."""
    for line, joined in _joined(text):
        place = Place(file, line)
        try:
            if len(joined) > RULE_MOST:
                raise RuleError(place, "rule", f"it has {len(joined)} characters, more than {RULE_MOST}")
            yield _statement(joined, place)
        except RuleError as error:
            yield error


def _joined(text: str) -> Iterator[tuple[int, str]]:
    """The logical lines with the number of the first. A continued one has its newlines, so that lines count."""
    pending: list[str] = []
    first = 0
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        if not pending:
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            first = number
        if line.rstrip().endswith("\\"):
            pending.append(line.rstrip()[:-1])
            continue
        yield first, "\n".join([*pending, line])
        pending = []
    if pending:
        yield first, "\n".join(pending)


def _statement(text: str, place: Place) -> Statement:
    begins = re.search(r"(?<!\$)\(", text)  # $(NAME) is a variable
    if begins is None:
        return Statement(place, text.strip(), None)
    end = text.rstrip()
    if not end.endswith(")"):
        raise RuleError(
            place, "rule", "its options do not end with ')'", "a line that continues ends with a backslash."
        )
    at = begins.start()
    return Statement(place, text[:at].strip(), tuple(_options(text, at + 1, len(end) - 1, place)))


def _options(text: str, at: int, end: int, place: Place) -> Iterator[Option]:
    while True:
        while at < end and text[at].isspace():
            at += 1
        if at >= end:
            return
        where = Place(place.file, place.line + text.count("\n", 0, at))
        stop = _semicolon(text, at, end)
        if stop is None:
            raise RuleError(where, f"option '{text[at:end].strip()[:40]}'", "it does not end with ';'")
        name, colon, value = text[at:stop].partition(":")
        if not name.strip():
            raise RuleError(where, "rule", "an option has no name", "remove the semicolon that follows nothing.")
        yield Option(name.strip().lower(), value.strip() if colon else None, where)
        at = stop + 1


def _semicolon(text: str, at: int, end: int) -> int | None:
    """The semicolon that ends the option at `at`: the first one that is neither escaped nor in quotes."""
    quoted = False
    while at < end:
        letter = text[at]
        if letter == "\\":
            at += 1
        elif letter == '"':
            quoted = not quoted
        elif letter == ";" and not quoted:
            return at
        at += 1
    return None
