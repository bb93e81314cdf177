"""Regular expressions of grammars as deterministic automata over bytes.

Characters, `.` (any byte but the line end), classes `[a-z]` and `[^...]`, `\\d \\s \\w` and their opposites in
capitals, `\\n \\r \\t \\xNN`, groups, `|`, `*`, `+`, `?` and `{n,m}`. A match begins where the field does, and is
the longest one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sluice.service.grammar.scan import EndError, MalformedError
from sluice.service.lang.errors import Place, ServiceError

MOST_STATES = 255
"""Of an automaton: its states are bytes in C, and 255 is the end."""
MOST_PLACES = 2048
"""Of a regular expression, after its repetitions are written out."""
MOST_STEPS = 300_000
"""To compile one: places that follow places, and repetitions, also of nothing."""
DEEPEST = 50
DEAD = 255

_ALL = frozenset(range(256))
_DIGITS = frozenset(b"0123456789")
_SPACES = frozenset(b" \t\r\n\v\f")
_WORDS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_CLASSES = {"d": _DIGITS, "s": _SPACES, "w": _WORDS, "D": _ALL - _DIGITS, "S": _ALL - _SPACES, "W": _ALL - _WORDS}
_ESCAPES = {"n": 10, "r": 13, "t": 9, "v": 11, "f": 12, "0": 0}


@dataclass(frozen=True)
class Automaton:
    """State 0 is the first one; DEAD has no way on."""

    classes: bytes
    """The class of each byte."""
    next: tuple[bytes, ...]
    """Of each state the next one for each class."""
    accepts: tuple[bool, ...]

    def is_final(self, state: int) -> bool:
        """Whether a match ends in this state, as no byte makes it longer."""
        return self.accepts[state] and all(each == DEAD for each in self.next[state])

    def match(self, data: bytes, ended: bool) -> int:
        """The size of the longest match that the bytes begin with. Raises EndError if later bytes can make it
        longer, and MalformedError if there is none.
        """
        state, found = 0, -1
        for at in range(len(data) + 1):
            if self.accepts[state]:
                found = at
            if self.is_final(state):
                return found
            if at == len(data):
                break
            state = self.next[state][self.classes[data[at]]]
            if state == DEAD:
                if found < 0:
                    raise MalformedError("pattern")
                return found
        if not ended or found < 0:
            raise EndError
        return found

    def source(self, name: str) -> list[str]:
        """Its C: a variable of this name."""

        def table(what: str, values: Iterable[int]) -> str:
            return f"static const uint8_t {name}_{what}[] = {{{', '.join(map(str, values))}}};"

        return [
            table("classes", self.classes),
            table("next", (each for row in self.next for each in row)),
            table("accepts", (each + self.is_final(state) for state, each in enumerate(self.accepts))),
            f"static const struct service_automaton {name} = {{{name}_classes, {name}_next, {name}_accepts, "
            f"{len(self.next[0])}}};",
        ]


def compile_pattern(text: str, place: Place) -> Automaton:
    """Raises ServiceError."""
    return _automaton(_Pattern(text, place), place)


@dataclass
class _Part:
    """Of a regular expression: whether it matches nothing, and the places at which it can begin and end."""

    empty: bool
    first: frozenset[int]
    last: frozenset[int]


class _Pattern:
    """The places of a regular expression (Glushkov's construction): a set of bytes each, and those that may follow."""

    def __init__(self, text: str, place: Place) -> None:
        self.text, self.place, self.at, self.depth = text, place, 0, 0
        self.steps = 0
        self.bytes: list[frozenset[int]] = []
        self.follow: list[set[int]] = []
        self.whole = self._choice()
        if self.at < len(text):
            raise self._wrong("a ')' without its '('")

    def _wrong(self, what: str) -> ServiceError:
        return ServiceError(self.place, f"this regular expression has {what}", "see the manual for what it can have.")

    def count(self, steps: int) -> None:
        """Raises ServiceError when the work that it takes is more than any use needs."""
        self.steps += steps
        if self.steps > MOST_STEPS:
            raise ServiceError(
                self.place, "this regular expression takes too long to compile", "use fewer repetitions within others."
            )

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _take(self) -> str:
        found = self._peek()
        if not found:
            raise self._wrong("no end")
        self.at += 1
        return found

    def _new(self, allowed: frozenset[int]) -> _Part:
        if not allowed:
            raise self._wrong("a class without a byte")
        if len(self.bytes) >= MOST_PLACES:
            raise self._wrong(f"more than {MOST_PLACES} characters with its repetitions")
        self.bytes.append(allowed)
        self.follow.append(set())
        here = frozenset([len(self.bytes) - 1])
        return _Part(False, here, here)

    def _choice(self) -> _Part:
        self.depth += 1
        if self.depth > DEEPEST:
            raise self._wrong("too many groups within groups")
        found = self._sequence()
        while self._peek() == "|":
            self._take()
            other = self._sequence()
            found = _Part(found.empty or other.empty, found.first | other.first, found.last | other.last)
        self.depth -= 1
        return found

    def _sequence(self) -> _Part:
        found = _Part(True, frozenset(), frozenset())
        while self._peek() not in ("", "|", ")"):
            found = self._join(found, self._repeated())
        return found

    def _join(self, left: _Part, right: _Part) -> _Part:
        self.count(1 + len(left.last) * len(right.first))
        for each in left.last:
            self.follow[each] |= right.first
        return _Part(
            left.empty and right.empty,
            left.first | right.first if left.empty else left.first,
            left.last | right.last if right.empty else right.last,
        )

    def _repeated(self) -> _Part:
        begin = self.at
        found = self._one()
        end = self.at
        while self._peek() in ("*", "+", "?", "{"):
            mark = self._take()
            if mark == "{":
                low, high = self._bounds()
                found = self._times(begin, end, low, high)
            else:
                if mark != "?":
                    self._loop(found)
                found = _Part(found.empty or mark != "+", found.first, found.last)
            end = self.at
        return found

    def _loop(self, part: _Part) -> None:
        self.count(len(part.last) * len(part.first))
        for each in part.last:
            self.follow[each] |= part.first

    def _bounds(self) -> tuple[int, int | None]:
        end = self.text.find("}", self.at)
        low, comma, high = self.text[self.at : max(end, self.at)].partition(",")
        if end < 0 or not low.isdecimal() or (high and not high.isdecimal()) or len(low + high) > 8:
            raise self._wrong("a repetition that is not {n}, {n,} or {n,m}")
        self.at = end + 1
        most = int(high) if high else None if comma else int(low)
        if most is not None and (most < int(low) or most == 0):
            raise self._wrong("a repetition whose bounds are in the wrong order, or 0")
        return int(low), most

    def _times(self, begin: int, end: int, low: int, high: int | None) -> _Part:
        """What is written from `begin` to `end`, so many times: it is parsed again for each."""
        after, found = self.at, _Part(True, frozenset(), frozenset())
        for number in range(max(low, 1) if high is None else high):
            part = self._again(begin, end)
            if high is None and number == max(low, 1) - 1:
                self._loop(part)
            found = self._join(found, _Part(part.empty or number >= low, part.first, part.last))
        self.at = after
        return found

    def _again(self, begin: int, end: int) -> _Part:
        self.count(1 + end // 64)
        whole, self.text, self.at = self.text, self.text[:end], begin
        try:
            return self._repeated()
        finally:
            self.text = whole

    def _one(self) -> _Part:
        char = self._take()
        if char == "(":
            if self.text.startswith("?:", self.at):
                self.at += 2
            found = self._choice()
            if self._take() != ")":
                raise self._wrong("a '(' without its ')'")
            return found
        if char == "[":
            return self._new(self._class())
        if char == ".":
            return self._new(_ALL - {10})
        if char in "*+?{":
            raise self._wrong(f"'{char}' with nothing before it")
        if char in "^$":
            raise self._wrong(f"'{char}', but a match always begins where its field does")
        return self._new(self._bytes_of(char))

    def _bytes_of(self, char: str) -> frozenset[int]:
        """Of a character that was taken, or of the escape that it begins."""
        return self._escaped() if char == "\\" else self._plain(char)

    def _plain(self, char: str) -> frozenset[int]:
        if ord(char) > 255:
            raise self._wrong("a character above 255")
        return frozenset([ord(char)])

    def _escaped(self) -> frozenset[int]:
        char = self._take()
        if char in _CLASSES:
            return _CLASSES[char]
        if char == "x":
            digits = self.text[self.at : self.at + 2]
            try:
                found = int(digits, 16)
            except ValueError:
                raise self._wrong("a '\\x' without two digits") from None
            self.at += 2
            return frozenset([found])
        if char in _ESCAPES:
            return frozenset([_ESCAPES[char]])
        if char.isalnum():
            raise self._wrong(f"'\\{char}', which has no meaning")
        return self._plain(char)

    def _class(self) -> frozenset[int]:
        found: set[int] = set()
        negative = self._peek() == "^"
        self.at += negative
        begin = self.at
        while self._peek() != "]" or self.at == begin:
            low = self._bytes_of(self._take())
            if len(low) == 1 and self._peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self._take()
                high = self._bytes_of(self._take())
                if len(high) != 1 or min(high) < min(low):
                    raise self._wrong("a range whose ends are in the wrong order")
                low = frozenset(range(min(low), min(high) + 1))
            found |= low
        self._take()
        return _ALL - found if negative else frozenset(found)


def _automaton(pattern: _Pattern, place: Place) -> Automaton:
    """States are sets of places that may have matched the last byte; the first one is that before all."""
    classes, members = _byte_classes(pattern.bytes)
    start: frozenset[int] = frozenset([-1])
    states: dict[frozenset[int], int] = {start: 0}
    order, rows = [start], list[bytes]()
    for state in order:  # grows meanwhile
        following: set[int] = set()
        pattern.count(sum(1 if each < 0 else len(pattern.follow[each]) for each in state))
        for each in state:
            following |= pattern.whole.first if each < 0 else pattern.follow[each]
        row: list[int] = []
        pattern.count(len(members) * len(following) // 16)
        for byte in members:
            target = frozenset(each for each in following if byte in pattern.bytes[each])
            if target and target not in states:
                if len(states) >= MOST_STATES:
                    raise ServiceError(
                        place, f"this regular expression needs more than {MOST_STATES} states", "use a simpler one."
                    )
                states[target] = len(states)
                order.append(target)
            row.append(states[target] if target else DEAD)
        rows.append(bytes(row))
    last = pattern.whole.last
    accepts = tuple(
        not last.isdisjoint(state) or (each == 0 and pattern.whole.empty) for each, state in enumerate(order)
    )
    return Automaton(classes, tuple(rows), accepts)


def _byte_classes(sets: list[frozenset[int]]) -> tuple[bytes, list[int]]:
    """Bytes that no set distinguishes have one class: the class of each byte, and a byte of each class."""
    known: dict[tuple[bool, ...], int] = {}
    classes, members = bytearray(256), list[int]()
    distinct = list(dict.fromkeys(sets))
    for byte in range(256):
        key = tuple(byte in each for each in distinct)
        if key not in known:
            known[key] = len(known)
            members.append(byte)
        classes[byte] = known[key]
    return bytes(classes), members
