"""The tokens of the text of a grammar."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from sluice.service.lang.errors import Place, ServiceError

_TOKEN = re.compile(
    r"""(?P<space>\s+ | \#[^\n]*)
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*(?:::[A-Za-z_][A-Za-z0-9_]*)?)
      | (?P<number>0[xX][0-9a-fA-F]+ | 0+(?![0-9]) | [1-9][0-9]*)
      | (?P<text>"(?:[^"\\\n]|\\.)*")
      | (?P<mark>\$\$ | -> | \.\. | == | != | <= | >= | << | >> | && | \|\| | [-+*/&|^!~<>=?:;,.(){}\[\]%])
      | (?P<bad>.)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    place: Place
    at: int
    """Its offset in the text."""


class TokenParser:
    """Takes the tokens of a text one by one."""

    def __init__(self, text: str, file: str, line: int) -> None:
        self.text, self.file_name = text, file
        self.tokens: list[Token] = []
        self.at = 0
        self.scan(0, Place(file, line, 1))

    def scan(self, at: int, place: Place) -> None:
        """The tokens from an offset on."""
        line, begin = place.line, at - place.column + 1
        while at < len(self.text):
            match = _TOKEN.match(self.text, at)
            assert match is not None
            here = Place(place.file, line, at - begin + 1)
            kind = match.lastgroup or ""
            if kind != "space":
                self.tokens.append(Token(kind, match.group(), here, at))
            newlines = match.group().count("\n")
            if newlines:
                line += newlines
                begin = at + match.group().rindex("\n") + 1
            at = match.end()
        self.tokens.append(Token("end", "", Place(place.file, line), at))

    @property
    def token(self) -> Token:
        found = self.tokens[self.at]
        if found.kind == "bad":
            raise ServiceError(found.place, f"the character {found.text!r} has no meaning in a grammar", "remove it.")
        return found

    def take(self) -> Token:
        found = self.token
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return found

    def take_if(self, *texts: str) -> bool:
        if self.token.kind in ("mark", "word") and self.token.text in texts:
            self.take()
            return True
        return False

    def expect(self, text: str, where: str) -> None:
        if text == ">" and self.token.text == ">>":  # the ends of two types
            place = replace(self.token.place, column=self.token.place.column + 1)
            self.tokens[self.at] = Token("mark", ">", place, self.token.at + 1)
            return
        if not self.take_if(text):
            there = f"'{self.token.text}'" if self.token.text else "the end"
            raise ServiceError(
                self.token.place, f"'{text}' is missing {where}; {there} stands there", f"write '{text}' there."
            )

    def name(self, what: str) -> str:
        if self.token.kind != "word":
            raise ServiceError(
                self.token.place, f"{what} is missing; '{self.token.text}' stands there", "write a name."
            )
        return self.take().text


def unescape(token: Token) -> str:
    """The characters of a string in quotes."""

    def one(match: re.Match[str]) -> str:
        text = match.group(1)
        if text[0] == "x":
            return chr(int(text[1:], 16))
        known = {"r": "\r", "n": "\n", "t": "\t", "0": "\0", "\\": "\\", '"': '"'}
        if text not in known:
            raise ServiceError(
                token.place, f"'\\{text}' is no character", 'write \\r, \\n, \\t, \\0, \\\\, \\" or \\xNN.'
            )
        return known[text]

    return re.sub(r"\\(x[0-9a-fA-F]{2}|.)", one, token.text[1:-1])
