"""The parameters and the counters that a function in C declares."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sluice.hooks.c_words import C_WORDS
from sluice.hooks.marks import Mark
from sluice.hooks.parameter import Parameter, ParameterError

Counters = tuple[tuple[str, str], ...]
"""Of each counter the name, and what it counts."""


def read_parameters(marks: Sequence[Mark]) -> tuple[Parameter, ...]:
    """The parameters that SLUICE_PARAMETER declares. Raises ParameterError, with the line."""
    found: dict[str, Parameter] = {}
    for mark in marks:
        if mark.kind != "parameter":
            continue
        if len(mark.arguments) != 4:
            raise ParameterError(f'{mark.where}: a parameter is SLUICE_PARAMETER(name, kind, value, "what it is for")')
        name, kind, value, help = mark.arguments
        _check_name(mark, "parameter", name, found)
        try:
            found[name] = Parameter(name, kind, value, help)
        except ParameterError as error:
            raise ParameterError(f"{mark.where}: {error}") from None
    return tuple(found.values())


def read_counters(marks: Sequence[Mark]) -> Counters:
    """The counters that SLUICE_COUNTER declares. Raises ParameterError, with the line."""
    found: dict[str, str] = {}
    for mark in marks:
        if mark.kind != "counter":
            continue
        if len(mark.arguments) != 2:
            raise ParameterError(f'{mark.where}: a counter is SLUICE_COUNTER(name, "what it counts")')
        name, help = mark.arguments
        _check_name(mark, "counter", name, found)
        found[name] = help
    return tuple(found.items())


def _check_name(mark: Mark, what: str, name: str, found: Collection[str]) -> None:
    if not name.isidentifier():
        raise ParameterError(f"{mark.where}: '{name}' is no name of a {what}: write a word of letters, digits and _")
    if name in C_WORDS:
        raise ParameterError(f"{mark.where}: '{name}' is a word of C: give the {what} another name")
    if name in found:
        raise ParameterError(f"{mark.where}: there is a {what} '{name}' already: give this one another name")
