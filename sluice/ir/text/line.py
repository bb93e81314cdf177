"""A line of the text form: a tokenizer that reads from left to right."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from sluice.ir.expression import ARITHMETIC, COMPARISONS, LOGICAL, Reg
from sluice.lang.where import NOWHERE, Where

_WORD = r"""[^\s,:;'"\\()]+"""
BLOCK = rf"{_WORD}(?:[ :]{_WORD})*"
"""Block names that need no quotes: words separated by single spaces or colons."""
STRING = r"'(?:[^'\\]|\\.)*'"

_TOKEN = re.compile(
    rf"\s*(?:(?P<string>{STRING})|(?P<number>\d+)|(?P<name>[^\W\d][\w.*#@]*)"
    r"|(?P<operator><<|>>|==|!=|<=|>=|&&|\|\||[-+*/%&|^<>])(?:\.(?P<serial>\d+))?|(?P<mark>[()\[\],:#=]))"
)
FLAGS = ("carried", "resyncs", "record", "bundled", "half", "begins", "costly")
"""Properties of a layer that it has or has not: fields of LayerProgram, and the words for them."""
OPERATORS = frozenset(ARITHMETIC + COMPARISONS + LOGICAL)
_REST = re.compile(r"\s*(?:; ?(?P<comment>.*))?")
_FLOAT = re.compile(r"\s*((?:\d+\.?\d*(?:e[-+]?\d+)?)|inf)")


class IrSyntaxError(ValueError):
    """The text is not valid IR."""


class Token(NamedTuple):
    """A token of a line: its kind, its text (for a string, without quotes and escapes), and the position of its end."""

    kind: str
    text: str
    serial: int
    end: int


def unquote(text: str) -> str:
    """The value of a string of the text form."""

    def character(match: re.Match[str]) -> str:
        if match[1] is not None:
            return chr(int(match[1], 16))
        return match[2]

    return re.sub(r"\\(?:u\{([0-9a-f]+)\}|(.))", character, text[1:-1])


class Line:
    """Reads a line from left to right, without going back."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def look(self) -> Token | None:
        """The next token, None at the end."""
        match = _TOKEN.match(self.text, self.at)
        if match is None:
            return None
        kind = "operator" if match["operator"] else match.lastgroup or ""
        text = unquote(match[kind]) if kind == "string" else match[kind]
        return Token(kind, text, int(match["serial"] or 0), match.end())

    def next(self) -> Token:
        """Consume the next token, which must exist."""
        token = self.look()
        if token is None:
            rest = self.text[self.at :].strip()
            raise IrSyntaxError(f"cannot read '{rest}'" if rest else "the line ends too early")
        self.at = token.end
        return token

    def take(self, text: str) -> bool:
        """Consume a mark if it is the next token. Returns whether it was."""
        token = self.look()
        if token is None or token.kind == "string" or token.text != text:
            return False
        self.at = token.end
        return True

    def expect(self, text: str) -> None:
        """Consume a mark that must come next."""
        if self.take(text):
            return
        token = self.look()
        rest = self.text[self.at :].strip()
        if token is None and rest:
            raise IrSyntaxError(f"cannot read '{rest}'")
        raise IrSyntaxError(f"missing '{text}'" + (f" before '{rest}'" if rest else ""))

    def number(self) -> int:
        """Consume a number that must come next."""
        sign = -1 if self.take("-") else 1
        token = self.next()
        if token.kind != "number":
            raise IrSyntaxError(f"expected a number, found '{token.text}'")
        return sign * int(token.text)

    def block(self) -> str:
        """Consume the name of a block that must come next."""
        match = re.compile(rf"\s*(?:({STRING})|({BLOCK}))").match(self.text, self.at)
        if match is None:
            raise IrSyntaxError(f"expected the name of a block before '{self.text[self.at :].strip()}'")
        self.at = match.end()
        return unquote(match[1]) if match[1] is not None else match[2]

    def name(self, what: str) -> str:
        """Consume a name, quoted or not, that must come next."""
        token = self.next()
        if token.kind not in ("name", "string"):
            raise IrSyntaxError(f"expected {what}, found '{token.text}'")
        return token.text

    def names(self, what: str, end: str) -> tuple[str, ...]:
        """Names separated by commas, up to the mark `end`."""
        found: list[str] = []
        while not self.take(end):
            found.append(self.name(what))
            if not self.take(","):
                self.expect(end)
                break
        return tuple(found)

    def words(self, *words: str) -> None:
        """Consume words that must come next."""
        for word in words:
            self.expect(word)

    def seconds(self) -> float:
        """Consume a number of seconds, possibly with a fraction, that must come next."""
        match = _FLOAT.match(self.text, self.at)
        if match is None:
            raise IrSyntaxError(f"expected seconds before '{self.text[self.at :].strip()}'")
        self.at = match.end()
        return float(match[1])

    def end(self) -> Where:
        """Only a comment may follow. Returns the line of the description that it names, or NOWHERE."""
        rest = _REST.fullmatch(self.text, self.at)
        if rest is None:
            raise IrSyntaxError(f"unexpected '{self.text[self.at :].strip()}'")
        file, colon, number = (rest["comment"] or "").rpartition(":")
        return Where(file, int(number)) if colon and number.isdecimal() else NOWHERE

    def register(self) -> Reg:
        """Consume a register with its type."""
        name = self.name("a register")
        self.expect(":")
        kind = self.next().text
        match = re.fullmatch(r"bytes|u([1-9]\d*)", kind)
        if match is None:
            raise IrSyntaxError(f"'{kind}' is no type: 'bytes', or 'u' and the number of bits")
        return Reg(name, int(match[1] or 0))

    def registers(self, end: str) -> Iterator[Reg]:
        """Registers with their types, separated by commas, up to the mark `end`."""
        while not self.take(end):
            yield self.register()
            if not self.take(","):
                self.expect(end)
                return


@contextmanager
def in_line(number: int) -> Generator[None, None, None]:
    """Adds the line `number` to errors raised inside."""
    try:
        yield
    except IrSyntaxError as error:
        raise IrSyntaxError(f"line {number}: {error}") from None


def written_by(line: Line) -> list[Reg]:
    """The registers before the `=`; none if there is no `=`."""
    start = line.at
    token = line.look()
    if token is None:
        return []
    line.at = token.end
    typed = line.take(":")
    line.at = start
    return list(line.registers("=")) if typed else []
