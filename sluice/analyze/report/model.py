"""The result of the analyses, as the tool prints it in JSON."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from typing import Any

from sluice.analyze.errors import AnalyzeError

VERSION = 5
"""Of the tool's JSON."""


@dataclass(frozen=True)
class Place:
    """A line of a source file, and the function that contains it; a line of 0 is not known."""

    file: str
    line: int
    function: str = ""


@dataclass(frozen=True)
class Use:
    """A line of packet processing that uses a variable."""

    place: Place
    direct: bool
    """By name; else through a pointer."""


@dataclass(frozen=True)
class Update:
    """A line of packet processing that may change a variable, or memory that is reached from it."""

    place: Place
    chain: tuple[str, ...]
    """The objects from the variable to the written memory, in words; empty for a variable in a register."""
    path: str
    """packet; exit if no packet is received afterwards; reload if only after a signal"""


@dataclass(frozen=True)
class Memory:
    """An object to which pointers of variables lead."""

    name: str
    """In words."""
    writes: tuple[tuple[tuple[Place, str], ...], ...]
    """The lines of packet processing that may change it, and their paths as in Update. Memory that the same
    instructions may change shares parts."""
    paths: frozenset[str]


@dataclass(frozen=True)
class Key:
    """A field of packets by which the program finds the part of a variable that belongs to a flow."""

    field: str
    """`struct.member`, `+OFFSET` where the program has no structure, or `*` if the offset is not constant"""
    place: Place
    """Where it is read from the packet."""
    access: Place
    """Where an entry is found by it."""


@dataclass(frozen=True)
class Impact:
    """How the output of packets or logs depends on a variable."""

    function: str
    """The output function."""
    place: Place
    path: tuple[Place, ...]
    """From the output back to the variable."""


@dataclass(frozen=True)
class Variable:
    """A persistent variable."""

    name: str
    kind: str
    """global, static, local or parameter"""
    type: str
    function: str
    """That declares it; empty for a global."""
    declared: Place
    constant: bool
    top_level: bool
    points_to: list[str]
    """The targets of pointers in it, in words."""
    named: list[Place]
    """Uses in packet processing, by name."""
    users: list[tuple[Place, ...]]
    """Uses through pointers. Variables to which the same pointers lead share parts."""
    has_memory: bool
    """Else it is in registers only."""
    own: list[Update]
    """Updates of the variable itself, in packet processing."""
    reached: list[tuple[Memory, int]]
    """Memory that packet processing may change and what leads to it: each with the position in this list of what is
    before it in its chain, or -1. Variables share it, as large programs have much."""
    paths: frozenset[str]
    """On which paths it, or memory that is reached from it, is updated: packet, exit, reload."""
    overwritten: bool
    """Updated, and always overwritten before it is read: it carries nothing to the next packet."""
    key: list[Key]
    """The flowspace; empty if the variable belongs to all flows."""
    key_complete: bool
    """False if the slices became too large, so that the key is not known."""
    impacts_packet: Impact | None
    impacts_log: Impact | None
    loop: Place | None
    """Over whose iterations a local variable persists."""

    @property
    def uses(self) -> list[Use]:
        """In packet processing: one for each line."""
        found = dict.fromkeys(itertools.chain(*self.users), False) | dict.fromkeys(self.named, True)
        places = sorted(found, key=lambda place: (place.file, place.line))
        return [Use(place, found[place]) for place in places]

    @property
    def updates(self) -> list[Update]:
        """In packet processing: one for each line, by the shortest chain."""
        found = {(one.place, one.path): one for one in self.own}
        chains: list[tuple[str, ...]] = []
        for memory, before in self.reached:
            chain = (*(chains[before] if before >= 0 else ()), memory.name)
            chains.append(chain)
            is_own = self.has_memory and before < 0
            for line in () if is_own else itertools.chain(*memory.writes):
                if line not in found:
                    found[line] = Update(line[0], chain, line[1])
        return sorted(found.values(), key=lambda one: (one.place.file, one.place.line, one.chain))

    @property
    def is_state(self) -> bool:
        """Packet processing updates it, and a later packet may read the update."""
        return "packet" in self.paths and not self.overwritten

    @property
    def fields(self) -> list[str]:
        return list(dict.fromkeys(key.field for key in self.key))


@dataclass(frozen=True)
class Procedure:
    """A function that processes packets."""

    name: str
    declared: Place | None
    called_at: Place | None
    """A call by which it was reached; None for one that receives packets."""
    role: str
    """called, receives, callback, thread or signal"""


@dataclass(frozen=True)
class Receive:
    """A call that receives packets."""

    place: Place
    function: str
    source: str


@dataclass(frozen=True)
class Analysis:
    """All of it."""

    module: str
    totals: dict[str, int]
    receive: list[Receive]
    loops: list[Place]
    procedures: list[Procedure]
    variables: list[Variable]
    unknown_functions: dict[str, list[Place]]
    inline_assembly: list[Place]
    unknown_code: list[Place]
    not_receive: list[tuple[Place, str]]
    assumed: dict[str, str]
    """What the user declared harmless, and the reason; it may be empty."""
    missing: list[str]
    """Functions and variables of the program that have no bitcode."""
    without_debug_info: list[str]
    seconds: dict[str, float]
    points_to: dict[str, int]
    json: dict[str, Any]

    @property
    def top_level(self) -> list[Variable]:
        return [variable for variable in self.variables if variable.top_level]

    @property
    def updateable(self) -> list[Variable]:
        """All that may change after the first packet was received."""
        return [variable for variable in self.variables if variable.paths]

    @property
    def state(self) -> list[Variable]:
        """Of the updateable ones, those that carry something from packet to packet."""
        return [variable for variable in self.variables if variable.is_state]

    @property
    def overwritten(self) -> list[Variable]:
        return [one for one in self.variables if one.overwritten and "packet" in one.paths]

    @property
    def other_paths(self) -> list[Variable]:
        """Updated on exit and reload paths only."""
        return [one for one in self.variables if one.paths and "packet" not in one.paths]

    def count(self, kind: str) -> int | None:
        """Variables of the state that impact `packet` or `log` output; None if the program has no such output."""
        if not self.json["outputs"][kind]:
            return None
        return sum(1 for one in self.state if (one.impacts_packet if kind == "packet" else one.impacts_log))


def read(module: str, found: dict[str, Any]) -> Analysis:
    """The analysis of a module from the tool's JSON."""
    if found.get("version") != VERSION:
        raise AnalyzeError(f"the tool's report has version {found.get('version')}, not {VERSION}: rebuild the tool")
    assumptions = found["assumptions"]
    without = found["without_debug_info"]
    writes = [tuple((_place(line), line["path"]) for line in lines) for lines in found["writes"]]
    memory = [_memory(one, writes) for one in found["memory"]]
    users = [tuple(_places(lines)) for lines in found["users"]]
    return Analysis(
        module=module,
        totals=found["totals"],
        receive=[Receive(_place(one), one["function"], one["source"]) for one in found["receive"]],
        loops=[_place(one) for one in found["loops"]],
        procedures=[_procedure(one) for one in found["procedures"]],
        variables=sorted((_variable(one, memory, users) for one in found["variables"]), key=_order),
        unknown_functions={name: _places(calls) for name, calls in assumptions["unknown_functions"].items()},
        inline_assembly=_places(assumptions["inline_assembly"]),
        unknown_code=_places(assumptions["unknown_code"]),
        not_receive=[(_place(one), one["reason"]) for one in assumptions["not_receive"]],
        assumed={one["what"]: one["reason"] for one in assumptions["harmless"]},
        missing=[*found["missing"]["functions"], *found["missing"]["variables"]],
        without_debug_info=[*without["functions"], *without["variables"]],
        seconds=found["seconds"],
        points_to=found["points_to"],
        json=found,
    )


def _place(found: dict[str, Any]) -> Place:
    return Place(found["file"], found["line"], found.get("in", ""))


def _places(found: list[dict[str, Any]]) -> list[Place]:
    return list(dict.fromkeys(_place(one) for one in found))


def _memory(found: dict[str, Any], writes: list[tuple[tuple[Place, str], ...]]) -> Memory:
    numbers: list[int] = found["writes"]
    own = tuple(writes[number] for number in numbers)
    return Memory(found["name"], own, frozenset(path for lines in own for _, path in lines))


def _variable(found: dict[str, Any], memory: list[Memory], users: list[tuple[Place, ...]]) -> Variable:
    pointed_to: list[int] = found["points_to"]
    groups: list[int] = found["users"]
    numbers: list[int] = found["reached"][::2]
    positions = {number: position for position, number in enumerate(numbers)} | {-1: -1}
    reached = [(memory[one], positions[before]) for one, before in zip(numbers, found["reached"][1::2], strict=True)]
    chain = (found["memory"],) if "memory" in found else ()
    own = [Update(_place(one), chain, one["path"]) for one in found["updates"]]
    paths = {one.path for one in own}.union(*(one.paths for one, before in reached if before >= 0 or not chain))
    return Variable(
        name=found["name"],
        kind=found["kind"],
        type=found["type"],
        function=found["function"],
        declared=_place(found["declared"]),
        constant=found["constant"],
        top_level=found["top_level"],
        points_to=sorted({memory[number].name for number in pointed_to}),
        named=_places(found["uses"]),
        users=[users[number] for number in groups],
        has_memory=bool(chain),
        own=own,
        reached=reached,
        paths=frozenset(paths),
        overwritten=found["overwritten"],
        key=[Key(one["field"], _place(one), _place(one["access"])) for one in found["key"]],
        key_complete=found["key_complete"],
        impacts_packet=_impact(found.get("impacts_packet")),
        impacts_log=_impact(found.get("impacts_log")),
        loop=_place(found["loop"]) if "loop" in found else None,
    )


def _impact(found: dict[str, Any] | None) -> Impact | None:
    return Impact(found["function"], _place(found), tuple(_places(found["path"]))) if found else None


def _procedure(found: dict[str, Any]) -> Procedure:
    declared, called = found.get("declared"), found.get("called_at")
    return Procedure(
        found["name"], _place(declared) if declared else None, _place(called) if called else None, found["role"]
    )


def _order(variable: Variable) -> tuple[str, int, str]:
    return variable.declared.file, variable.declared.line, variable.name


def common_folder(analysis: Analysis) -> str:
    """The folder below which the sources lie, to name them from there."""
    files = {variable.declared.file for variable in analysis.variables if os.path.isabs(variable.declared.file)}
    files |= {one.place.file for one in analysis.receive if os.path.isabs(one.place.file)}
    try:
        return os.path.commonpath([os.path.dirname(file) for file in files if not file.startswith("/usr/include")])
    except ValueError:
        return ""
