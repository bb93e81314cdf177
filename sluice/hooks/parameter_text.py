"""The parameters that a user gives to a function: read from one text, or given as values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sluice.hooks.parameter import Parameter, ParameterError, Value
from sluice.lang.errors import did_you_mean


def read_parameters(parameters: Sequence[Parameter], given: str) -> dict[str, Value]:
    """The values of all parameters, from NAME=VALUE,NAME=VALUE; of a flag NAME alone says yes.

    A comma ends a value only where a parameter's name follows, so a value may have commas of its own. The runtime
    (parameters.h) reads them in the same way. Raises ParameterError.
    """
    return check_values(parameters, split_parameters(parameters, given))


def split_parameters(parameters: Sequence[Parameter], given: str) -> dict[str, str]:
    """The texts that are given, by name; of a flag that is named alone, "yes". Raises ParameterError."""
    values: dict[str, str] = {}
    named = {item.name: item for item in parameters}
    text = given
    while text:
        name = re.split("[=,]", text, maxsplit=1)[0]
        item = named.get(name)
        if item is None or not _begins(item, text):
            known = ", ".join(other.usage for other in parameters)
            raise ParameterError(
                f"there is no parameter '{name}': {did_you_mean(name, named)} Known are {known}."
                if item is None
                else f"parameter '{name}' is given as {item.usage}"
            )
        text = text[len(name) :]
        end = next((m.start() for m in re.finditer(",", text) if _next(named, text[m.end() :])), len(text))
        value, text = text[:end], text[end + 1 :]
        values[name] = value[1:] if value else "yes"
        item.read(values[name])  # also one that a later value replaces: the runtime refuses it, too
    return values


def check_values(parameters: Sequence[Parameter], given: Mapping[str, str]) -> dict[str, Value]:
    """The values of all parameters, of which some are given by name. Raises ParameterError."""
    named = {item.name: item for item in parameters}
    for name in given:
        if name not in named:
            raise ParameterError(f"there is no parameter '{name}': {did_you_mean(name, named)}")
    return {item.name: item.read(given.get(item.name, item.value)) for item in parameters}


def _begins(item: Parameter, text: str) -> bool:
    return text[len(item.name) : len(item.name) + 1] == "=" or item.kind == "flag"


def _next(named: dict[str, Parameter], text: str) -> bool:
    item = named.get(re.split("[=,]", text, maxsplit=1)[0])
    return item is not None and _begins(item, text)
