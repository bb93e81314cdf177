"""What a function in C declares of itself: parameters and counters, read from its lines and kept in its box."""

from __future__ import annotations

import re

from sluice.hooks.c_words import C_WORDS
from sluice.hooks.parameter import Parameter, ParameterError

Counters = tuple[tuple[str, str], ...]
"""Of each counter the name, and what it counts."""

_PARAMETER = re.compile(
    r"""^SLUICE_PARAMETER\(\s*(\w+)\s*,\s*(\w+)\s*,\s*("(?:[^"\\]|\\.)*"|[\w.]+)\s*,\s*((?:"(?:[^"\\]|\\.)*"\s*)+)\)""",
    re.MULTILINE,
)
_COUNTER = re.compile(r"""^SLUICE_COUNTER\(\s*(\w+)\s*,\s*((?:"(?:[^"\\]|\\.)*"\s*)+)\)""", re.MULTILINE)
_ANY_COUNTER = re.compile(r"^SLUICE_COUNTER\(", re.MULTILINE)
_ANY_PARAMETER = re.compile(r"^SLUICE_PARAMETER\b.*", re.MULTILINE)


def read_parameters(text: str, path: str) -> tuple[Parameter, ...]:
    """What the SLUICE_PARAMETER lines of a function declare. Raises ParameterError, with the line."""
    found: dict[str, Parameter] = {}
    for line in _ANY_PARAMETER.finditer(text):
        where = _where(path, text, line.start())
        match = _PARAMETER.match(text, line.start())
        if match is None:
            raise ParameterError(f'{where}: a parameter is SLUICE_PARAMETER(name, kind, value, "what it is for")')
        name, kind, value, help = match.groups()
        plain = value[1:-1] if value.startswith('"') else value
        try:
            parameter = Parameter(name, kind, plain, _words(help))
        except ParameterError as error:
            raise ParameterError(f"{where}: {error}") from None
        if name in C_WORDS:
            raise ParameterError(f"{where}: '{name}' is a word of C: give the parameter another name")
        if name in found:
            raise ParameterError(f"{where}: there is a parameter '{name}' already: give this one another name")
        found[name] = parameter
    return tuple(found.values())


def read_counters(text: str, path: str) -> Counters:
    """What the SLUICE_COUNTER lines of a function declare. Raises ParameterError, with the line."""
    found: dict[str, str] = {}
    for line in _ANY_COUNTER.finditer(text):
        where = _where(path, text, line.start())
        match = _COUNTER.match(text, line.start())
        if match is None:
            raise ParameterError(f'{where}: a counter is SLUICE_COUNTER(name, "what it counts")')
        name, help = match.groups()
        if name in C_WORDS:
            raise ParameterError(f"{where}: '{name}' is a word of C: give the counter another name")
        if name in found:
            raise ParameterError(f"{where}: there is a counter '{name}' already: give this one another name")
        found[name] = _words(help)
    return tuple(found.items())


def _where(path: str, text: str, at: int) -> str:
    return f"{path}:{text.count(chr(10), 0, at) + 1}"


def _words(literals: str) -> str:
    """The text of string literals that stand behind each other."""
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', literals))
