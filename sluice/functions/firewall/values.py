"""Reads tokens one by one, and the values of matches: numbers, names, addresses, ranges, sets, definitions."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import NoReturn

from sluice.functions.detect.errors import Place, RuleError
from sluice.functions.detect.ranges import Ranges, union
from sluice.functions.firewall.names import Type
from sluice.functions.firewall.tokens import END, Token

DEPTH_MOST = 16
"""Definitions that refer to definitions, and files that include files."""
_NUMBER = re.compile(r"0x[0-9a-fA-F]{1,16}|[0-9]{1,19}")


class Cursor:
    """A place in tokens."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.at = 0

    @property
    def token(self) -> Token:
        """The next token."""
        return self.tokens[min(self.at, len(self.tokens) - 1)]

    @property
    def place(self) -> Place:
        """Its place."""
        return self.token.place

    @property
    def done(self) -> bool:
        """Whether all tokens were read."""
        return self.at >= len(self.tokens)

    def is_(self, *texts: str) -> bool:
        """Whether the next token is one of these words or symbols."""
        return not self.done and not self.token.string and self.token.text in texts

    def take(self, *texts: str) -> bool:
        """Read the next token if it is one of these."""
        if not self.is_(*texts):
            return False
        self.at += 1
        return True

    def next(self, what: str) -> Token:
        """The next token, which is `what`."""
        token = self.token
        if self.done or (token.text == END and not token.string):
            raise RuleError(token.place, "rule", f"it ends where {what} is expected")
        self.at += 1
        return token

    def expect(self, text: str) -> None:
        """Read this word or symbol."""
        token = self.next(f"'{text}'")
        if token.string or token.text != text:
            raise RuleError(token.place, f"'{token.text}'", f"'{text}' is expected here")

    def number(self, what: str) -> int:
        """A number."""
        token = self.next(what)
        if not _NUMBER.fullmatch(token.text):
            raise RuleError(token.place, f"'{token.text}'", f"{what} is expected here")
        return int(token.text, 0) if token.text.startswith("0x") else int(token.text)

    def skip_ends(self) -> None:
        """Read the ends of statements that follow."""
        while self.take(END):
            pass

    def end(self) -> None:
        """The end of a statement: a line's end, a semicolon, or the brace that ends the block."""
        if not self.done and not self.is_("}") and not self.take(END):
            raise RuleError(self.place, f"'{self.token.text}'", "it does not follow what stands before it")


class Names:
    """The definitions of a file: variables by their tokens, and sets by their type and ranges."""

    def __init__(self) -> None:
        self.variables: dict[str, tuple[Token, ...]] = {}
        self.sets: dict[str, tuple[Type, Ranges]] = {}


def values(cursor: Cursor, names: Names, of: Type, depth: int = 0) -> Ranges:
    """The values that follow: one, a set in braces, a named set, or a definition."""
    if cursor.take("{"):
        return _elements(cursor, names, of, depth)
    token = cursor.token
    if not token.string and token.text.startswith("@"):
        cursor.at += 1
        kind, ranges = names.sets.get(token.text[1:], (None, ()))
        if kind is None:
            raise RuleError(token.place, f"'{token.text}'", "there is no such set in this table")
        if kind.bits != of.bits:
            raise RuleError(token.place, f"'{token.text}'", "its elements have another type than the field")
        return ranges
    if not token.string and token.text.startswith("$"):
        defined = _defined(cursor, names, depth)
        found = values(defined, names, of, depth + 1)
        if not defined.done:
            what = f"its definition goes on after one value, with '{defined.token.text}'"
            raise RuleError(token.place, f"'{token.text}'", what, "write several values as a set: { A, B }")
        return found
    return one(cursor, of)


def _defined(cursor: Cursor, names: Names, depth: int) -> Cursor:
    token = cursor.next("a definition")
    defined = names.variables.get(token.text[1:])
    if defined is None:
        raise RuleError(
            token.place, f"'{token.text}'", "it is not defined", f"add a line: define {token.text[1:]} = ..."
        )
    if depth >= DEPTH_MOST:
        raise RuleError(token.place, f"'{token.text}'", "its definition refers to itself")
    return Cursor(defined)


def _elements(cursor: Cursor, names: Names, of: Type, depth: int) -> Ranges:
    found: list[tuple[int, int]] = []
    cursor.skip_ends()
    while not cursor.take("}"):
        found += values(cursor, names, of, depth)
        if cursor.is_("timeout", "expires", "counter", ".", "comment"):
            refuse(cursor.token, "attributes of elements and concatenations are not read")
        cursor.skip_ends()
        if not cursor.take(",") and not cursor.is_("}"):
            raise RuleError(cursor.place, f"'{cursor.token.text}'", "',' or '}' is expected here")
        cursor.skip_ends()
    if not found:
        raise RuleError(cursor.place, "set", "it has no element")
    return union(found)


def one(cursor: Cursor, of: Type) -> Ranges:
    """One value, prefix or range."""
    token = cursor.next("a value")
    low = _whole(token, of)
    if low is not None:
        return (low,)
    first, dash, last = token.text.rpartition("-")
    if dash:
        left, right = _whole(Token(first, token.place), of), _whole(Token(last, token.place), of)
        if left is not None and right is not None:
            if left[0] > right[1]:
                raise RuleError(token.place, f"'{token.text}'", "the range ends before it begins")
            return ((left[0], right[1]),)
    raise RuleError(token.place, f"'{token.text}'", f"it is no {_what(of)}")


def _what(of: Type) -> str:
    words = {"ipv4": "IPv4 address", "ipv6": "IPv6 address", "ether": "link address"}
    if of.kind in words:
        return words[of.kind]
    return f"number below {1 << of.bits}" + (f", nor one of {', '.join(of.names)}" if 0 < len(of.names) < 20 else "")


def _whole(token: Token, of: Type) -> tuple[int, int] | None:
    text = token.text
    if of.kind in ("ipv4", "ipv6"):
        try:
            network = (ipaddress.IPv4Network if of.kind == "ipv4" else ipaddress.IPv6Network)(text, strict=False)
        except ValueError:
            return None
        return int(network[0]), int(network[-1])
    if of.kind == "ether":
        if not re.fullmatch(r"(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}", text):
            return None
        number = int(text.replace(":", ""), 16)
        return number, number
    if text in of.names:
        return of.names[text], of.names[text]
    if not _NUMBER.fullmatch(text):
        return None
    number = int(text, 0) if text.startswith("0x") else int(text)
    return (number, number) if number < 1 << of.bits else None


def refuse(token: Token, why: str) -> NoReturn:
    """Refuse features of nftables that this function does not have."""
    raise RuleError(token.place, f"'{token.text}'", why)
