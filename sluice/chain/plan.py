"""From a chain to the functions that are compiled with its stack, in order, with those that withhold packets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sluice.chain.description import Chain, Function
from sluice.chain.file_scope import separated
from sluice.engine.events import PythonFunction
from sluice.engine.functions import FunctionError, Wanted, function_path, load_c, load_python, parameters_of
from sluice.hooks.function import CFunction, Functions
from sluice.hooks.keep import keeper
from sluice.hooks.parameter import ParameterError, Value
from sluice.hooks.parameter_text import check_values
from sluice.lang.errors import DescriptionError


@dataclass(frozen=True)
class Member:
    """A function of a chain, as it was read. loaded: with the name that it has in the chain."""

    item: Function
    loaded: CFunction | PythonFunction

    @property
    def name(self) -> str:
        """Its name in the chain."""
        return self.item.name


@dataclass(frozen=True)
class Plan:
    """A chain that was read: its members in order, and the pairs of which one precedes the other in sequence."""

    chain: Chain
    members: tuple[Member, ...]
    earlier: frozenset[tuple[str, str]]

    def is_before(self, one: str, other: str) -> bool:
        """Whether a function precedes another one in sequence."""
        return (one, other) in self.earlier

    def before(self, name: str) -> tuple[str, ...]:
        """The functions before one, in order."""
        return tuple(member.name for member in self.members if self.is_before(member.name, name))

    def c(self) -> list[CFunction]:
        """The functions in C."""
        return [member.loaded for member in self.members if isinstance(member.loaded, CFunction)]

    def python(self) -> list[PythonFunction]:
        """The functions in Python."""
        return [member.loaded for member in self.members if isinstance(member.loaded, PythonFunction)]

    def keeper(self, functions: Sequence[CFunction]) -> CFunction | None:
        """The storage of beginnings of streams for some functions; None if the chain or the functions need none."""
        return keeper(functions, self.chain.keep) if self.chain.keep else None

    def wanted(self) -> Wanted:
        """The program that the engine compiles and runs: all functions in one."""
        texts = separated(
            {function.name: function.text for function in self.c()},
            {function.name: function.path for function in self.c()},
        )
        found = Wanted()
        for member in self.members:
            if isinstance(member.loaded, CFunction):
                function = replace(member.loaded, text=texts[member.name], after=self.before(member.name))
                found.c.append(function)
                found.options.append({name: _text(value) for name, value in member.item.parameters.items()})
            else:
                found.python.append(member.loaded)
        if (keeper := self.keeper(found.c)) is not None:
            found.c.append(keeper)
            found.options.append("")
        hooked = Functions(tuple(found.c))
        for function in found.python:
            function.drops_before = hooked.dropping(self.before(function.label))
        return found


def read_chain(chain: Chain) -> Plan:
    """Read the functions of a chain. Raises DescriptionError, with the line of the chain, and what reading raises."""
    members: list[Member] = []
    seen = set[str]()
    for item in chain.functions():
        members.append(Member(item, loaded_function(item, again=item.path() in seen)))
        seen.add(item.path())
    earlier = frozenset((one.name, other.name) for one, other in chain.arrangement.earlier())
    return Plan(chain, tuple(members), earlier)


def loaded_function(item: Function, again: bool) -> CFunction | PythonFunction:
    """A function of a chain, read. again: its file was read before, so one in Python is executed once more."""
    values = {name: _text(value) for name, value in item.parameters.items()}
    try:
        path = function_path(item.path())
    except FunctionError as error:
        raise DescriptionError(str(error), "a path is relative to the file of the chain.", item.where) from None
    try:
        check_values(parameters_of(str(path)), values)
    except ParameterError as error:
        known = f"`sluice run -f {item.source} --help` lists what the function declares."
        raise DescriptionError(f"{item.source}: {error}", known, item.where) from None
    if path.suffix == ".py":
        function = load_python(path, values, fresh=again)
        function.label = item.name
        return function
    return replace(load_c(path, item.name), label=item.name)


def _text(value: Value) -> str:
    """A value as a user would write it."""
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
