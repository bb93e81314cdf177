"""The texts of content and pcre: quotes, escapes, bytes in hexadecimal, slashes and flags."""

from __future__ import annotations

import re

from sluice.functions.detect import buffers
from sluice.functions.detect.errors import Place, RuleError
from sluice.functions.detect.lines import Option
from sluice.functions.detect.model import Content, Pcre

CONTENT_MOST = 1024
"""Bytes of one content. A match must lie within the stored part of a stream, which is larger."""

_ESCAPED = frozenset('"\\;:')


def quoted(option: Option) -> tuple[bool, str]:
    """Whether the value is negated, and the text between its quotes. Raises RuleError."""
    value = option.value or ""
    negated = value.startswith("!")
    value = value[negated:].strip()
    if len(value) < 2 or value[0] != '"':
        raise RuleError(
            option.place, f"option '{option.name}'", "its value is not in quotes", f'write {option.name}:"...";'
        )
    if value[-1] != '"':
        raise RuleError(
            option.place,
            f"option '{option.name}'",
            f"'{value[value.rfind(chr(34)) + 1 :].strip()[:40]}' follows the closing quote",
            'modifiers are options of their own, as in Snort 2: content:"a"; nocase;',
        )
    return negated, value[1:-1]


def read_content(option: Option, buffer: int) -> Content:
    """A content without its modifiers. Raises RuleError."""
    negated, text = quoted(option)
    found = _bytes(text, option.place, option.name)
    if not found:
        raise RuleError(option.place, f"option '{option.name}'", "it is empty", "give at least one byte.")
    if len(found) > CONTENT_MOST:
        raise RuleError(option.place, f"option '{option.name}'", f"it has {len(found)} bytes, more than {CONTENT_MOST}")
    return Content(option.place, found, negated, buffer=buffer)


def _bytes(text: str, place: Place, name: str) -> bytes:
    """The bytes of a content: text with bytes in hexadecimal between bars."""
    item = f"option '{name}'"
    out = bytearray()
    at = 0
    while at < len(text):
        letter = text[at]
        if letter == "|":
            end = text.find("|", at + 1)
            if end < 0:
                raise RuleError(
                    place, item, "a '|' opens bytes in hexadecimal, and none closes them", "a bar itself is |7C|."
                )
            digits = text[at + 1 : end]
            if not re.fullmatch(r"\s*([0-9A-Fa-f]{2}\s*)+", digits):
                raise RuleError(place, item, f"'|{digits[:40]}|' is not bytes in hexadecimal", "write |0D 0A|.")
            out += bytes.fromhex(digits)
            at = end + 1
            continue
        if letter == "\\":
            at += 1
            letter = text[at : at + 1]
            if letter not in _ESCAPED or not letter:
                raise RuleError(
                    place, item, f"'\\{letter}' is no escape", 'escaped are \\" \\\\ \\; and \\:; other bytes are |5C|.'
                )
        elif letter == '"':
            raise RuleError(place, item, "a quote stands within it", 'write \\" or |22|.')
        out += letter.encode("utf-8", "surrogateescape")
        at += 1
    return bytes(out)


_PERL = "ismxAEG"
_END = re.compile(r"\$|\\[bBzZKG]|\(\?[=!(R&P>0-9+-]|\(\*|[+*?}]\+")
"""Parts of an expression by which the bytes after a match may decide whether it is one: also possessive repeats."""
_REPEAT = re.compile(r"[*+?{|]|\\[1-9gk]")
"""Parts by which a search may go over bytes again: repeats, alternatives, and references back."""


def read_pcre(option: Option, buffer: int) -> Pcre:
    """A pcre with its flags. Raises RuleError."""
    negated, text = quoted(option)
    item = f"option '{option.name}'"
    if text.startswith("m") and len(text) > 2 and not text[1].isalnum():
        slash, text = text[1], text[2:]
    elif text.startswith("/"):
        slash, text = "/", text[1:]
    else:
        raise RuleError(option.place, item, "its expression is not between slashes", 'write pcre:"/expression/flags";')
    expression, found, flags = text.rpartition(slash)
    if not found:
        raise RuleError(option.place, item, f"no '{slash}' ends the expression", 'write pcre:"/expression/flags";')
    expression = expression.replace("\\;", ";") if slash != ";" else expression
    made = Pcre(option.place, expression, negated, buffer=buffer)
    named = -1
    for flag in flags:
        if flag in _PERL:
            made.flags += flag
        elif flag == "R":
            made.relative = True
        elif flag in buffers.PCRE_FLAGS:
            if named not in (-1, buffers.PCRE_FLAGS[flag]):
                raise RuleError(option.place, item, f"flag '{flag}' names a second buffer", "write a pcre for each.")
            named = made.buffer = buffers.PCRE_FLAGS[flag]
        elif flag not in "BO":  # raw bytes, which payloads are; and Snort's own limits, in place of which are ours
            raise RuleError(
                option.place,
                item,
                f"there is no flag '{flag}' here",
                "flags are i s m x A E G R U I P H D M C K S Y B O.",
            )
    plain = re.sub(r"\\\\", "", expression)
    made.whole = "E" in made.flags or bool(_END.search(plain))
    made.steps = bool(_REPEAT.search(plain))
    made.anchored = "A" in made.flags or "\\G" in plain
    return made
