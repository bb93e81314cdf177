"""The place in a program's tokens at which the parser is."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from sluice.service.lang.errors import Place, ServiceError
from sluice.service.lang.lexer import Token, tokens

DEEPEST = 100
"""Blocks and brackets inside one another; more is refused, as each uses the parser's own stack."""

_SEPARATORS = {
    ":": "a colon stands between a name and its type, and before a block.",
    "=": "a single '=' stands between a name and its value.",
    ")": "close the bracket.",
    "]": "close the bracket.",
    "}": "close the bracket.",
}


class Cursor:
    """Reads and consumes tokens."""

    def __init__(self, source: str, file: str) -> None:
        self._tokens = tokens(source, file)
        self._at = 0
        self._depth = 0

    @property
    def token(self) -> Token:
        """The current token."""
        return self._tokens[self._at]

    @property
    def place(self) -> Place:
        return self.token.place

    def ahead(self, count: int = 1) -> Token:
        """The token `count` after the current one; the last one beyond the end."""
        return self._tokens[min(self._at + count, len(self._tokens) - 1)]

    def at(self, *texts: str) -> bool:
        """Whether the current token is one of these marks or keywords."""
        return self.token.kind in ("mark", "keyword") and self.token.text in texts

    def at_word(self, *texts: str) -> bool:
        """Whether the current token is one of these words, which are not reserved."""
        return self.token.kind == "word" and self.token.text in texts

    def at_kind(self, *kinds: str) -> bool:
        return self.token.kind in kinds

    def take(self) -> Token:
        token = self.token
        if token.kind != "end":
            self._at += 1
        return token

    def take_if(self, *texts: str) -> bool:
        """Consume the current token if it is one of these marks or keywords."""
        if self.at(*texts):
            self._at += 1
            return True
        return False

    def take_kind(self, kind: str) -> bool:
        if self.token.kind == kind:
            self._at += 1
            return True
        return False

    def expect(self, text: str, where: str, advice: str = "") -> Token:
        """Consume a mark or keyword that must be there; `where` continues the sentence `'x' is missing ...`."""
        if not self.at(text):
            raise ServiceError(
                self.place,
                f"'{text}' is missing {where}; {self.token} stands there",
                advice or _SEPARATORS.get(text, f"write '{text}' there."),
            )
        return self.take()

    def name(self, what: str, anonymous: bool = False) -> str:
        """Consume a name; `what` is the kind of thing that it names."""
        if self.at_kind("word") or (anonymous and self.at("_")):
            return self.take().text
        if self.at_kind("keyword"):
            raise ServiceError(
                self.place, f"'{self.token.text}' is a word of the language, and cannot be {what}", "use another name."
            )
        raise ServiceError(self.place, f"{what} is missing; {self.token} stands there", "write a name there.")

    def expect_end_of_line(self, after: str) -> None:
        if not self.at_kind("newline", "dedent", "end"):
            raise self.unexpected(after)
        self.take_kind("newline")

    def unexpected(self, after: str) -> ServiceError:
        """The error for a token that does not fit."""
        token = self.token
        if token.kind == "indent":
            return ServiceError(
                token.place,
                "this line is indented more than the one before it, which does not continue here",
                "indent a line more only after ':', '=' or a signature.",
            )
        if token.text in ("else", "except", "initially"):
            matching = {"else": "if", "except": "body", "initially": "for"}[token.text]
            return ServiceError(
                token.place,
                f"'{token.text}' does not follow a '{matching}'",
                f"indent it as the '{matching}' that it belongs to.",
            )
        return ServiceError(
            token.place,
            f"{token} does not fit after {after}",
            "one expression stands on a line; check what is before it.",
        )

    @contextmanager
    def deeper(self) -> Generator[None]:
        """A construct inside another one."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise ServiceError(
                self.place, f"more than {DEEPEST} constructs stand inside one another", "move a part into a function."
            )
        yield
        self._depth -= 1
