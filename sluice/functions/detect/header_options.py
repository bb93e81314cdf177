"""Options about a packet's headers: dsize, flags, ttl and other numbers."""

from __future__ import annotations

import re
from collections.abc import Callable

from sluice.functions.detect.errors import RuleError
from sluice.functions.detect.lines import Option
from sluice.functions.detect.model import Compare, Flags, Rule

_MOST = {"dsize": 65535, "ttl": 255}

_FORMS: tuple[tuple[re.Pattern[str], Callable[[int, int], tuple[int, int | None]]], ...] = (
    (re.compile(r"([0-9]+)"), lambda a, b: (a, a)),
    (re.compile(r"=\s*([0-9]+)"), lambda a, b: (a, a)),
    (re.compile(r">\s*([0-9]+)"), lambda a, b: (a + 1, None)),
    (re.compile(r">=\s*([0-9]+)"), lambda a, b: (a, None)),
    (re.compile(r"<\s*([0-9]+)"), lambda a, b: (0, a - 1)),
    (re.compile(r"<=\s*([0-9]+)"), lambda a, b: (0, a)),
)
_BETWEEN = {
    "dsize": re.compile(r"([0-9]+)\s*<>\s*([0-9]+)"),
    "ttl": re.compile(r"([0-9]+)\s*-\s*([0-9]+)"),
}


def _error(option: Option, what: str, advice: str = "") -> RuleError:
    return RuleError(option.place, f"option '{option.name}'", what, advice)


def _compare(rule: Rule, option: Option) -> None:
    """A number, a bound, or a range. Snort's `a<>b` of dsize has both ends in it."""
    name, value = option.name, (option.value or "").strip()
    most = _MOST[name]
    negated = value.startswith("!")
    value = value[negated:].strip()
    low, high = _read(option, value, most)
    if low > high or high > most:
        raise _error(option, f"'{option.value}' has no number from 0 to {most}", "it would never match.")
    rule.compares.append(Compare(name, low, high, negated))


def _read(option: Option, value: str, most: int) -> tuple[int, int]:
    if len(value) > 32:
        raise _error(option, f"'{value[:40]}' is no number")
    if option.name == "ttl" and (half := re.fullmatch(r"([0-9]+)-|-([0-9]+)", value)):
        return int(half[1] or 0), int(half[2] or most)
    if between := _BETWEEN[option.name].fullmatch(value):
        return int(between[1]), int(between[2])
    for form, bounds in _FORMS:
        if match := form.fullmatch(value):
            low, high = bounds(int(match[1]), 0)
            return low, most if high is None else high
    raise _error(option, f"'{value}' is no number or range", f"write {option.name}:64; {option.name}:<64; or a range.")


_BITS = {"F": 1, "S": 2, "R": 4, "P": 8, "A": 16, "U": 32, "E": 64, "C": 128, "2": 64, "1": 128, "0": 0}


def _letters(option: Option, text: str) -> int:
    bits = 0
    for letter in text.upper():
        if letter not in _BITS:
            raise _error(option, f"there is no flag '{letter}'", "flags are F S R P A U C E, or 0 for none.")
        bits |= _BITS[letter]
    return bits


def _flags(rule: Rule, option: Option) -> None:
    if rule.protocols != 1:
        raise _error(option, "the rule's protocol is not tcp", "only TCP has flags.")
    text, comma, ignored = (option.value or "").replace(" ", "").partition(",")
    mode = text[:1] if text[:1] in ("+", "*", "!") and text[:1] else ""
    mode = mode or (text[-1:] if text[-1:] in ("+", "*", "!") and text[-1:] else "")
    letters = text.strip("+*!") if mode else text
    if not letters or (comma and not ignored):
        raise _error(option, f"'{(option.value or '')[:40]}' names no flag", "write flags:S; flags:+SA; or flags:S,CE;")
    rule.flags = Flags(_letters(option, letters), mode, _letters(option, ignored))


HEADER_OPTIONS: dict[str, Callable[[Rule, Option], None]] = {"dsize": _compare, "ttl": _compare, "flags": _flags}
