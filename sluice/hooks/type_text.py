"""The definition of a C type, with those that it is made of: whether two versions of a function declare the same."""

from __future__ import annotations

from collections.abc import Iterator

from sluice.hooks.marks import MARK, tokens_of

_TAGGED = ("struct", "union", "enum")


def type_text(preprocessed: str, kind: str, runtime: str) -> str:
    """The declarations that a type follows from, without comments and line ends. Types of the runtime, below the folder
    `runtime`, and of the system are named only: they are the same for all versions.
    """
    parts = list(_declarations(preprocessed, runtime))
    wanted, found = _words(kind), dict[int, str]()
    while True:
        more = [at for at, (names, _) in enumerate(parts) if at not in found and names & wanted]
        if not more:
            return "\n".join([kind, *(found[at] for at in sorted(found))])
        for at in more:
            found[at] = parts[at][1]
            wanted |= _words(parts[at][1])


def _words(text: str) -> set[str]:
    return {word for word in text.split() if word.isidentifier() and word not in _TAGGED}


def _declarations(preprocessed: str, runtime: str) -> Iterator[tuple[set[str], str]]:
    """The names that each declaration of a type defines, and its text; functions and objects are left out."""
    depth, current = 0, list[str]()
    for token in tokens_of(preprocessed):
        if token.file.startswith((runtime, "/usr/")) or (token.text == MARK and not current):
            continue
        current.append(token.text)
        depth += {"{": 1, "(": 1, "[": 1, "}": -1, ")": -1, "]": -1}.get(token.text, 0)
        if depth:
            continue
        body = current.index("{") if "{" in current else len(current)
        function = token.text == "}" and "(" in current[:body]
        if token.text == ";" or function or (token.text == ")" and current[0] == "("):
            if not function and (names := _defined(current, body)):
                yield names, " ".join(current)
            current = []


def _defined(words: list[str], body: int) -> set[str]:
    """The names that a declaration defines: tags with a body, constants of an enum, and the name of a typedef."""
    found: set[str] = set()
    for at, word in enumerate(words[:-1]):
        if word in _TAGGED and "{" in words[at + 1 : at + 3]:
            found |= {words[at + 1]} - {"{"}
            if word == "enum":
                found |= {name for name in words[at + 1 :] if name.isidentifier()}
    if words[0] == "typedef":
        found |= {words[-2]} if words[-2].isidentifier() else {word for word in words[1:] if word.isidentifier()}
    return found
