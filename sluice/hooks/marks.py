"""The marks that declarations leave in the output of the C preprocessor (runtime/function/declarations.h).

`-E` does with a source what the compilation does: comments are gone, conditions are decided, macros are expanded, and
headers of the function's own are included. So what is read here is what the compiler sees.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

MARK = "SLUICE_DECLARED"

_TOKEN = re.compile(
    r"""(?P<line>^\#(?:[ ]line)?[ ](?P<number>\d+)(?:[ ]"(?P<file>(?:[^"\\]|\\.)*)")?.*$)
    | (?P<newline>\n)
    | (?P<string>"(?:[^"\\\n]|\\.)*")
    | (?P<char>'(?:[^'\\\n]|\\.)*')
    | (?P<word>[A-Za-z_]\w*)
    | (?P<number_>\.?\d(?:[eEpP][+-]|[\w.])*)
    | (?P<arrow>->)
    | (?P<other>[^\s])
    """,
    re.MULTILINE | re.VERBOSE,
)


_MARKER = re.compile(r'^#(?: line)? \d+ "(?P<file>(?:[^"\\\n]|\\.)*)"(?P<flags>[ \d]*)$', re.MULTILINE)
"""A line marker. Of the flags that follow the file's name, 3 says that the file is a system header."""


@dataclass(frozen=True)
class Mark:
    """A declaration: its kind, its arguments (strings without quotes, other tokens joined), and where it stands."""

    kind: str
    arguments: tuple[str, ...]
    file: str
    line: int

    @property
    def where(self) -> str:
        """FILE:LINE of the user's source."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    file: str
    line: int


def read_marks(tokens: list[Token]) -> list[Mark]:
    """All marks in the output of the preprocessor, in their order."""
    found: list[Mark] = []
    for at, token in enumerate(tokens):
        if token.kind == "word" and token.text == MARK and at + 1 < len(tokens) and tokens[at + 1].text == "(":
            kind, *arguments = _arguments(tokens, at + 2)
            found.append(Mark(kind, tuple(arguments), token.file, token.line))
    return found


def without_headers(text: str, runtime: str) -> str:
    """The output of the preprocessor without the headers in the folder `runtime`, which declare nothing for a function,
    and without system headers that have no mark. They are most of the text.
    """
    markers = [*_MARKER.finditer(text)]
    starts = [marker.start() for marker in markers]
    kept = [text[: starts[0]]] if starts else [text]
    for marker, end in zip(markers, [*starts[1:], len(text)], strict=True):
        part = text[marker.start() : end]
        system = "3" in marker["flags"].split()
        if not marker["file"].startswith(runtime) and not (system and MARK not in part):
            kept.append(part)
    return "".join(kept)


ACCESSES = {("->", "field"): "fields", ("instance", "+"): "key"}
"""Accesses without an accessor, by two tokens: all fields of a layer's instances, and the memory of an instance, which
may be its key. Each with what the function then needs.
"""


def read_accesses(tokens: list[Token]) -> list[Mark]:
    """A mark of what a source needs for each of its ACCESSES."""
    return [
        Mark("needs", (ACCESSES[one.text, other.text],), one.file, one.line)
        for one, other in pairwise(tokens)
        if (one.text, other.text) in ACCESSES
    ]


def tokens_of(text: str) -> list[Token]:
    """The tokens of the output of the preprocessor, each with its place in the user's source."""
    found: list[Token] = []
    file, line = "", 1
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        if match["line"] is not None:
            line = int(match["number"]) - 1  # the newline after the line marker counts one
            file = _unquoted(f'"{match["file"]}"') if match["file"] is not None else file
        elif kind == "newline":
            line += 1
        else:
            found.append(Token(kind, match[0], file, line))
    return found


def _arguments(tokens: list[Token], at: int) -> list[str]:
    """The arguments of a mark, of which the first token is at `at`, up to the closing parenthesis."""
    depth, current = 0, list[Token]()
    found: list[str] = []
    for token in tokens[at:]:
        if depth == 0 and token.text in (",", ")"):
            found.append(_joined(current))
            current = []
            if token.text == ")":
                return found
            continue
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        current.append(token)
    return found


def _joined(tokens: list[Token]) -> str:
    """One argument. String literals that follow each other are one string."""
    if tokens and all(token.kind == "string" for token in tokens):
        return "".join(_unquoted(token.text) for token in tokens)
    return " ".join(token.text for token in tokens)


def _unquoted(literal: str) -> str:
    """The text of a string literal; of escapes those that the preprocessor makes (octal), and a newline."""
    return re.sub(r"\\([0-7]{3}|.)", _escaped, literal[1:-1])


def _escaped(match: re.Match[str]) -> str:
    if len(match[1]) == 3:
        return chr(int(match[1], 8))
    return "\n" if match[1] == "n" else match[1]
