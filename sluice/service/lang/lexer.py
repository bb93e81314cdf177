"""Characters to tokens, with the off-side rule: indentation becomes INDENT and DEDENT, as in Python.

A newline follows each DEDENT, too: a line ends after its block. Inside brackets, lines do not count. A line that begins
with a word that cannot begin an expression (`ordering`, `by`, `=>`, ...) continues the line before it, at any column:
listing 3 of the paper is laid out so. A unit grammar in a program (`type NAME = unit { ... };`) is one token that holds
its text; the grammar's own parser reads it.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from sluice.service.lang.errors import Place, ServiceError

KEYWORDS = frozenset(
    "type typed integer string boolean record variant list tuple ipv4_address dictionary ref if else local global let "
    "in except for initially map unordered mod abs and or not True False address_to_int int_to_address with switch can "
    "unsafe_cast size include process proc fun".split()
)
"""Words that are no names, but after a dot."""

LARGEST = (1 << 63) - 1

_TOKEN = re.compile(
    r"""(?P<space>[ ]+) | (?P<comment>\#[^\n]*)
      | (?P<address>\d+\.\d+\.\d+\.\d+) | (?P<number>\d+)
      | (?P<word>[A-Za-z][A-Za-z0-9_']* | _[A-Za-z0-9_']+)
      | (?P<text>"[^"\n]*")
      | (?P<mark>\(type\| | \(\| | \|\) | @: | :@ | \.\.\. | \.\. | :: | := | => | -> | <- | <= | >= | != | <> | \?\?
               | [-+*/=<>@:;,.()\[\]{}|!?_])
      | (?P<bad>.)""",
    re.VERBOSE,
)
_UNIT = re.compile(r"(?:export[ \t]+)?type[ \t]+[A-Za-z_][A-Za-z0-9_]*[ \t]*=", re.ASCII)
_CONTINUES = frozenset({"ordering", "by", "initially", "=>", "and", "or", "mod", "with", "::", "->", "."})
_OPEN, _CLOSE = {"(": ")", "[": "]", "{": "}", "(|": "|)", "(type|": "|)"}, frozenset({")", "]", "}", "|)"})


@dataclass(frozen=True, slots=True)
class Token:
    """kind: word, number, text, address, mark, keyword, unit, newline, indent, dedent or end."""

    kind: str
    text: str
    place: Place

    def __str__(self) -> str:
        plain = {
            "newline": "the end of the line",
            "indent": "a deeper indentation",
            "dedent": "the end of the indented block",
            "end": "the end of the program",
        }
        return plain.get(self.kind, f"'{self.text}'")


def tokens(source: str, file: str) -> list[Token]:
    """The tokens of a program; the last one is `end`. Raises ServiceError."""
    return list(_Lexer(source, file).run())


class _Lexer:
    def __init__(self, source: str, file: str) -> None:
        self.lines = source.replace("\r\n", "\n").split("\n")
        self.file = file
        self.columns = [0]
        self.open: list[Token] = []
        self.last: Token | None = None

    def run(self) -> Iterator[Token]:
        number = 0
        while number < len(self.lines):
            line = self.lines[number]
            if not self.open and _UNIT.match(line):
                yield from self._end_line(number)
                number = yield from self._unit(number)
                continue
            found = list(self._line(line, number + 1))
            if found:
                yield from self._layout(found)
                for token in found:
                    self._bracket(token)
                    self.last = token
                    yield token
            number += 1
        if self.open:
            start = self.open[-1]
            raise ServiceError(
                start.place, f"'{start.text}' is not closed", f"write '{_OPEN[start.text]}' where it ends."
            )
        yield from self._end_line(len(self.lines) - 1)
        yield Token("end", "", Place(self.file, len(self.lines), 1))

    def _end_line(self, number: int) -> Iterator[Token]:
        """Ends the current line and all blocks."""
        place = Place(self.file, number + 1, 1)
        if self.last is not None:
            yield Token("newline", "", self.last.place)
            self.last = None
        while len(self.columns) > 1:
            self.columns.pop()
            yield Token("dedent", "", place)
            yield Token("newline", "", place)

    def _layout(self, found: list[Token]) -> Iterator[Token]:
        """The tokens between the line before and this one: none inside brackets, else a newline and blocks."""
        if self.open:
            return
        first = found[0]
        if self.last is not None and first.text in _CONTINUES and first.kind in ("word", "keyword", "mark"):
            return
        column = first.place.column - 1
        if self.last is not None:
            yield Token("newline", "", self.last.place)
        if column > self.columns[-1]:
            if self.last is None:
                raise ServiceError(first.place, "the first line is indented", "begin it at the first column.")
            self.columns.append(column)
            yield Token("indent", "", first.place)
        while column < self.columns[-1]:
            self.columns.pop()
            yield Token("dedent", "", first.place)
            yield Token("newline", "", first.place)
        if column != self.columns[-1]:
            known = ", ".join(str(c) for c in self.columns)
            raise ServiceError(
                first.place,
                f"this line is indented by {column}, and no block that is open begins there",
                f"indent it as the block that it belongs to (open here: {known} spaces).",
            )

    def _line(self, line: str, number: int) -> Iterator[Token]:
        at = 0
        while at < len(line):
            place = Place(self.file, number, at + 1)
            match = _TOKEN.match(line, at)
            assert match is not None
            kind, text = match.lastgroup or "", match.group()
            at = match.end()
            if kind in ("space", "comment"):
                continue
            if kind == "bad":
                raise _bad(text, place)
            if kind == "word" and text in KEYWORDS:
                kind = "keyword"
            if kind == "number" and at < len(line) and (line[at].isalpha() or line[at] == "_"):
                raise ServiceError(
                    place, f"'{text}{line[at]}...' is neither a number nor a name", "begin a name with a letter."
                )
            if kind == "number" and int(text) > LARGEST:
                raise ServiceError(place, f"{text} is too large", f"an integer is at most {LARGEST}.")
            if kind == "address" and any(int(part) > 255 for part in text.split(".")):
                raise ServiceError(place, f"{text} is not an IPv4 address", "each of its four parts is at most 255.")
            yield Token(kind, text[1:-1] if kind == "text" else text, place)

    def _bracket(self, token: Token) -> None:
        if token.kind != "mark":
            return
        if token.text in _OPEN:
            self.open.append(token)
        elif token.text in _CLOSE:
            if not self.open:
                raise ServiceError(token.place, f"'{token.text}' closes nothing", "remove it.")
            start = self.open.pop()
            if _OPEN[start.text] != token.text:
                raise ServiceError(
                    token.place,
                    f"'{token.text}' does not close the '{start.text}' of line {start.place.line}",
                    f"write '{_OPEN[start.text]}' first.",
                )

    def _unit(self, number: int) -> Generator[Token, None, int]:
        """A grammar's declaration, from its line to the `;` that ends it; returns the line after it."""
        depth, place, taken = 0, Place(self.file, number + 1, 1), number
        for at in range(number, len(self.lines)):
            code = re.sub(r'"[^"]*"|#.*', "", self.lines[at])
            depth += code.count("{") - code.count("}")
            taken = at + 1
            if depth <= 0 and code.rstrip().endswith((";", "}")):
                yield Token("unit", "\n".join(self.lines[number:taken]), place)
                return taken
        raise ServiceError(place, "this type does not end", "a grammar's declaration ends with '};'.")


def _bad(text: str, place: Place) -> ServiceError:
    if text == "\t":
        return ServiceError(place, "there is a tab here", "indent with spaces: a tab has no width of its own.")
    if text == '"':
        return ServiceError(place, "this string does not end on its line", "close it with a double quote.")
    if text == "'":
        return ServiceError(place, "a string stands in double quotes", 'write "..." instead.')
    if text == "%":
        return ServiceError(place, "there is no operator '%'", "write 'mod' for the remainder.")
    if text == "&":
        return ServiceError(place, "there is no operator '&'", "write 'and'.")
    return ServiceError(place, f"the character {text!r} has no meaning in FLICK", "remove it.")
