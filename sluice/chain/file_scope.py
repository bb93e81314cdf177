"""Names at file scope of functions in C, made different where functions of a chain would share them.

All functions of a chain are compiled as one unit. Two instances of one function, and functions of different authors,
may define the same names: statics, types, enumeration constants, macros. A name that one function defines at file scope
and another one uses becomes NAME__FUNCTION in the text of the first. Fields of structs, and words that mean layers,
events, parameters and counters, do not change. Nor do names that the linker knows from elsewhere: those that are only
declared `extern`, and those of a library's headers, next to a file of SLUICE_SOURCE in another folder. Functions that
use the same library share these.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sluice.hooks.c_words import C_WORDS
from sluice.hooks.subscription import HookError

_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
    | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    | (?P<directive>(?<![^\n])[ \t]*\#[ \t]*(?:\\\n|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|//[^\n]*|/\*.*?\*/|[^\n])*)
    | (?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
    | (?P<word>[A-Za-z_]\w*)
    | (?P<arrow>->)
    | (?P<space>\s+)
    | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(\w+)")
_KEPT_DIRECTIVES = ("include", "line", "pragma", "error")
_TAGGED = ("struct", "union", "enum")
_NO_FUNCTION = (
    "__attribute__",
    "_Static_assert",
    "static_assert",
    "_Alignas",
    "__extension__",
    "__typeof__",
    "if",
    "while",
    "sizeof",
)
_MEANT = {
    "SLUICE_ON": (0, 1), "SLUICE_ON_DEMAND": (0, 1), "SLUICE_EVENT": (0, 1, 2), "SLUICE_TIMER": (0, 1),
    "SLUICE_KEEP": (0,), "SLUICE_CONTROL": (0,), "SLUICE_PARAMETER": (0, 1), "SLUICE_PARAMETER_OF": (1,),
    "SLUICE_COUNTER": (0,), "SLUICE_COUNTER_OF": (1,), "SLUICE_WRITES": (0, 1), "SLUICE_NEEDS": (0,),
    "SLUICE_REGISTER": (1, 2), "SLUICE_DEREGISTER": (1, 2), "SLUICE_REGISTER_FLOW": (1, 2),
    "SLUICE_DEREGISTER_FLOW": (1, 2), "SLUICE_ARM": (1, 2), "SLUICE_DISARM": (1, 2), "SLUICE_ARM_BOX": (1,),
    "SLUICE_DISARM_BOX": (1,), "SLUICE_PUBLISH": (0, 1, 2, 3, 4, 5, 6, 7), "SLUICE_EMIT": (1,),
    "SLUICE_PUBLISH_AS": (0, 1, 2, 3, 4, 5, 6, 7), "SLUICE_EXPECT": (0, 1, 2, 3, 4, 5, 6, 7),
}  # fmt: skip
"""Of macros, the arguments that are no names of C."""


@dataclass
class Token:
    """A token of C. kind: comment, string, directive, number, word, arrow, space or other."""

    kind: str
    text: str


def separated(texts: Mapping[str, str], paths: Mapping[str, str] | None = None) -> dict[str, str]:
    """The texts of functions, by name, in which none shares a name at file scope with another one.

    paths: their files, for messages and for the folders of libraries. Raises HookError where a macro makes names at
    file scope.
    """
    for name, text in texts.items() if len(texts) > 1 else ():
        _check_macros(text, (paths or {}).get(name, name))
    tokens = {name: list(tokens_of(text)) for name, text in texts.items()}
    words = {name: set(_words(found)) for name, found in tokens.items()}
    out: dict[str, str] = {}
    for name, found in tokens.items():
        others = set[str]().union(*(words[other] for other in words if other != name))
        shared = file_scope_names(texts[name]) & others
        shared -= file_scope_names(_of_libraries(texts[name], (paths or {}).get(name, name))) if shared else set()
        out[name] = _renamed(found, {word: f"{word}__{name}" for word in shared}) if shared else texts[name]
    return out


_SOURCE = re.compile(r'SLUICE_SOURCE\(\s*"([^"\n]+)"')
_MARKER = re.compile(r'# \d+ "((?:[^"\\\n]|\\.)*)" ([12])$')


def _of_libraries(text: str, path: str) -> str:
    """The parts of a function's text that are headers of libraries (includes.py marks where headers begin and end)."""
    own = Path(path).parent
    folders = {(own / source).resolve().parent for source in _SOURCE.findall(text)} - {own.resolve()}
    if not folders:
        return ""
    found: list[str] = []
    inside: list[bool] = []
    for line in text.splitlines(keepends=True):
        match = _MARKER.match(line.rstrip())
        if match is None:
            found.append(line if any(inside) else "")
        elif match[2] == "1":
            inside.append(Path(match[1]).resolve().parent in folders)
        elif inside:
            inside.pop()
    return "".join(found)


_PASTES = re.compile(r"""("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|//[^\n]*|/\*.*?\*/)|(\#)""", re.DOTALL)


def _check_macros(text: str, path: str) -> None:
    """Raise HookError for a use, at file scope, of a macro with # or ##: the names that it makes cannot be known."""
    makes: dict[str, str] = {}
    depth, line = 0, 1
    for token in tokens_of(text):
        if token.kind == "directive" and (match := re.match(r"\s*#\s*define\s+(\w+)(.*)", token.text, re.DOTALL)):
            if any(found[2] for found in _PASTES.finditer(match[2])):
                makes[match[1]] = match[1]
            for name in re.findall(r"[A-Za-z_]\w*", match[2]):  # a macro that uses such a macro
                if name in makes:
                    makes.setdefault(match[1], makes[name])
        elif token.kind == "other":
            depth += {"{": 1, "}": -1}.get(token.text, 0)
        elif token.kind == "word" and depth == 0 and token.text in makes:
            raise HookError(
                f"{path}:{line}: macro '{token.text}' is used at file scope, and makes names or texts by # or ##, so "
                "names of functions of the chain could not be kept apart\n"
                "    write out what it expands to, or use it inside of functions only."
            )
        line += token.text.count("\n")


def file_scope_names(text: str) -> set[str]:
    """The names that a text in C defines at file scope: functions, variables, types, constants, macros."""
    found: set[str] = set()
    code = [token for token in tokens_of(text) if token.kind not in ("comment", "space")]
    for token in code:
        if token.kind == "directive" and (match := re.match(r"[ \t]*#[ \t]*define[ \t]+(\w+)", token.text)):
            found.add(match[1])
    code = [token for token in code if token.kind != "directive"]
    found |= _tags(code)
    code = _without_attributes(code)
    statement: list[Token] = []
    at = 0
    while at < len(code):
        token = code[at]
        after = code[at + 1].text if at + 1 < len(code) else ""
        if token.kind == "word" and token.text.startswith("SLUICE_"):
            at = _closing(code, at + 1) + 1 if after == "(" else at + 1
            continue
        if token.text == "{":
            end = _closing(code, at)
            body = bool(statement) and statement[-1].text == ")"
            statement.append(Token("body", "{}"))
            if body or not statement[:-1]:  # of a function, or of a macro such as SLUICE_ON
                found |= _defined(statement)
                statement = []
            at = end + 1
            continue
        statement.append(token)
        if token.text == ";":
            found |= _defined(statement)
            statement = []
        at += 1
    return found


def _tags(code: list[Token]) -> set[str]:
    """Tags of types, also of those within others, which are at file scope, too, and constants of enumerations."""
    found: set[str] = set()
    for at, token in enumerate(code[:-2]):
        if token.text in _TAGGED:
            opens = at + 1 + (code[at + 1].kind == "word")
            if code[opens].text == "{":
                found |= {code[at + 1].text} - {"{"}
                found |= _constants(code[opens + 1 : _closing(code, opens)]) if token.text == "enum" else set()
    return found


def _without_attributes(code: list[Token]) -> list[Token]:
    """The tokens without __attribute__((...)) and _Alignas(...), which may follow the name."""
    out: list[Token] = []
    at = 0
    while at < len(code):
        if code[at].text in ("__attribute__", "_Alignas") and at + 1 < len(code) and code[at + 1].text == "(":
            at = _closing(code, at + 1) + 1
        else:
            out.append(code[at])
            at += 1
    return out


def _constants(tokens: list[Token]) -> set[str]:
    """The constants of an enumeration."""
    found: set[str] = set()
    depth, first = 0, True
    for token in tokens:
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(token.text, 0)
        if first and token.kind == "word":
            found.add(token.text)
            first = False
        first = first or (token.text == "," and depth == 0)
    return found


def _defined(statement: list[Token]) -> set[str]:
    """The names that a declaration at file scope declares."""
    depth, value, pointed, before = 0, False, False, ""
    found: set[str] = set()
    typed = any(token.text == "typedef" for token in statement)
    if statement[0].text == "extern" and not any(token.kind == "body" or token.text == "=" for token in statement):
        return found
    ends = [*statement, Token("", ""), Token("", "")]
    for token, after, following in zip(statement, ends[1:], ends[2:], strict=False):
        if token.text in "([":
            depth += 1
        elif token.text in ")]":
            depth -= 1
        elif depth == 0 and token.text == "=":
            value = True
        elif depth == 0 and token.text == ",":
            value = False
        named = token.kind == "word" and token.text not in _NO_FUNCTION and token.text not in C_WORDS and not value
        if named and depth == 0 and after.text == "(" and not typed and token is not statement[0]:  # that is a macro
            return found | {token.text}  # a function; its parameters follow
        if named and depth == 0 and after.text == "(" and typed and before != "typedef" and following.text != "*":
            return found | {token.text}  # typedef int name(...)
        if named and depth == 0 and after.text in (";", "=", ",", "["):
            found.add(token.text)
        if named and depth == 1 and after.text in (")", "[", "(") and pointed and not found:
            found.add(token.text)  # int (*name)(...), int (*name[2])(...), typedef or not
        pointed = (token.text == "*" and (pointed or before == "(")) or (
            pointed and token.text in ("const", "volatile")
        )
        before = token.text
    return found


def _closing(tokens: list[Token], at: int) -> int:
    """The place of the bracket that closes the one at `at`."""
    depth = 0
    for place in range(at, len(tokens)):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(tokens[place].text, 0)
        if depth == 0:
            return place
    return len(tokens) - 1


def tokens_of(text: str) -> Iterator[Token]:
    """The tokens of a text in C, which together are the text."""
    return (Token(match.lastgroup or "", match[0]) for match in _TOKEN.finditer(text))


def _words(tokens: list[Token]) -> Iterator[str]:
    """All words of the code, those of directives included."""
    for token in tokens:
        if token.kind == "word":
            yield token.text
        elif token.kind == "directive":
            yield from re.findall(r"[A-Za-z_]\w*", token.text)


def _renamed(tokens: list[Token], names: dict[str, str]) -> str:
    """The text with these names replaced where they refer to file scope."""
    out: list[str] = []
    code = [place for place, token in enumerate(tokens) if token.kind not in ("comment", "space", "directive")]
    kept = _fields(tokens, code) | _meant(tokens, code)
    for place, token in enumerate(tokens):
        if token.kind == "word" and place not in kept:
            out.append(names.get(token.text, token.text))
        elif token.kind == "directive":
            out.append(_directive(token.text, names))
        else:
            out.append(token.text)
    return "".join(out)


def _directive(text: str, names: dict[str, str]) -> str:
    """A directive with the names in it replaced; those in strings and after . and -> stay."""
    match = _DIRECTIVE.match(text)
    if match is None or match[1] in _KEPT_DIRECTIVES:
        return text
    return text[: match.end()] + _renamed(list(tokens_of(text[match.end() :])), names)


def _fields(tokens: list[Token], code: list[int]) -> set[int]:
    """The places of words that are fields: after . or ->, and declared in a struct or union."""
    found: set[int] = set()
    inside: list[bool] = []
    struct = False
    for number, place in enumerate(code):
        text = tokens[place].text
        before = tokens[code[number - 1]].text if number else ""
        after = tokens[code[number + 1]].text if number + 1 < len(code) else ""
        if text == "{":
            inside.append(struct)
            struct = False
        elif text == "}" and inside:
            inside.pop()
        elif text in ("struct", "union"):
            struct = True
        elif tokens[place].kind == "word":
            tagged = before in _TAGGED
            if before in (".", "->") or (inside and inside[-1] and not tagged and after in (";", ",", "[", ":")):
                found.add(place)
        elif text not in ("*",):
            struct = False
    return found


def _meant(tokens: list[Token], code: list[int]) -> set[int]:
    """The places of words in arguments that mean layers, events, parameters and the like."""
    found: set[int] = set()
    for number, place in enumerate(code):
        if tokens[place].text not in _MEANT or number + 1 >= len(code) or tokens[code[number + 1]].text != "(":
            continue
        argument, depth = 0, 0
        for inner in code[number + 1 :]:
            text = tokens[inner].text
            depth += {"(": 1, "{": 1, "[": 1, ")": -1, "}": -1, "]": -1}.get(text, 0)
            if depth == 0:
                break
            argument += text == "," and depth == 1
            if argument in _MEANT[tokens[place].text]:
                found.add(inner)
    return found
