"""The storage, in a box, of the parameters and counters that a function declares, and their accessors."""

from __future__ import annotations

from sluice.hooks.declaration import Counters
from sluice.hooks.parameter import Parameter

_TYPES = {"text": "const char *", "number": "uint64_t ", "seconds": "double ", "flag": "bool "}


def parameter_struct(name: str, parameters: tuple[Parameter, ...]) -> list[str]:
    """The struct that stores a function's parameters, its accessor, and the table for reading them from text."""
    if not parameters:
        return []
    rows = [
        f'    {{"{item.name}", SL_{item.kind.upper()}, offsetof(struct {name}_parameters, {item.name}), "{item.value}"}},'
        for item in parameters
    ]
    return [
        *_kept(name, "parameters", [_TYPES[item.kind] + item.name for item in parameters], "parameters"),
        f"static const struct sl_parameter {name}_parameter[] = {{",
        *rows,
        "};",
    ]


def counter_struct(name: str, counters: Counters) -> list[str]:
    """The struct that stores a function's counters, and its accessor."""
    if not counters:
        return []
    return _kept(name, "counters", [f"uint64_t {counter}" for counter, _ in counters], "function_counters")


def _kept(name: str, what: str, members: list[str], where: str) -> list[str]:
    """A struct of a function, of which each box has one, and the C accessor that returns it."""
    constant = "const " if what == "parameters" else ""
    return [
        f"struct {name}_{what} {{",
        *(f"    {member};" for member in members),
        "};",
        f"__attribute__((unused)) static inline {constant}struct {name}_{what} *{name}_{what}(const struct sl_box *box) {{",
        f"    return box->{where}[{name}_index];",
        "}",
    ]
