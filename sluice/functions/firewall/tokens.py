"""The tokens of a file in nftables' syntax: words, strings, symbols, ends of statements."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sluice.functions.detect.errors import Place, RuleError

END = "\n"
"""The text of a token that ends a statement: a line's end, or a semicolon."""
_TOKEN = re.compile(
    r"(?P<blank>[ \t\r]+|\\[ \t]*\r?\n|\#[^\n]*)"
    r"|(?P<end>[\n;])"
    r'|"(?P<string>[^"\n]*)"'
    r"|(?P<symbol>!=|==|<=|>=|<<|>>|[{}(),=<>!&|^*])"
    r"|(?P<word>[@$A-Za-z0-9_./:%+-]+)"
)


@dataclass(frozen=True)
class Token:
    """A word, a symbol, a string or the end of a statement, with its place."""

    text: str
    place: Place
    string: bool = False


def tokens(text: str, file: str) -> list[Token]:
    """The tokens of a file. Raises RuleError."""
    found: list[Token] = []
    at, line = 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        place = Place(file, line)
        if match is None:
            what = "a string does not end on its line" if text[at] == '"' else "it has no meaning here"
            raise RuleError(place, repr(text[at]), what)
        kind, piece = match.lastgroup, match[0]
        if kind == "end":
            found.append(Token(END, place))
        elif kind == "string":
            found.append(Token(match["string"], place, string=True))
        elif kind == "word":
            found += _words(piece, place)
        elif kind == "symbol":
            found.append(Token(piece, place))
        line += piece.count("\n")
        at = match.end()
    return [*found, Token(END, Place(file, line))]


def _words(piece: str, place: Place) -> list[Token]:
    """A word, and the colon after it, if it is the one between a key and a verdict ('established: accept')."""
    if len(piece) > 1 and piece.endswith(":") and not piece.endswith("::"):
        return [Token(piece[:-1], place), Token(":", place)]
    return [Token(piece, place)]
