"""A program with the grammars of its messages: the input of the interpreter and of the compiler."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sluice.service.grammar.annotated import annotated_unit
from sluice.service.grammar.expand import expand, parts_of
from sluice.service.grammar.plan import Item, Plan, plan
from sluice.service.grammar.ready import find_grammars
from sluice.service.grammar.tree import Grammar
from sluice.service.lang import tree
from sluice.service.lang.check.program import check_program
from sluice.service.lang.check.scope import Checked, Signature
from sluice.service.lang.errors import Place, ServiceError, Warned, suggest
from sluice.service.lang.parser.program import parse_program, parse_source
from sluice.service.lang.types import INTEGER, NOTHING, STRING, UNKNOWN, ChannelOf, ListOf, Named, Type

SERVICES = Path(__file__).resolve().parent / "services"
PORTS = 16
"""Channels and channel arrays of a process; service.h has the same number."""


@dataclass
class Service:
    """A checked program, and the unit of each record that is sent or received."""

    checked: Checked
    units: dict[str, Plan] = field(default_factory=dict[str, Plan])

    cache: int = 0
    """MiB of the cache of HTTP responses that the program's first lines give; 0: none."""

    refused: dict[str, ServiceError] = field(default_factory=dict[str, ServiceError])
    """Why the annotations of a record do not describe a unit: an error where the record is sent or received."""

    @property
    def warnings(self) -> list[Warned]:
        return self.checked.warnings

    def row(self, type: Type, name: str) -> Item | None:
        """The item of a message's field whose value is a list; else None. A message has the bytes of the list."""
        if not isinstance(type, Named) or type.variant or type.name not in self.units:
            return None
        return self.units[type.name].by_name[name] if isinstance(type.fields.get(name), ListOf) else None

    def fields(self, record: Named) -> list[str]:
        """The fields of a record that its unit has."""
        return list(record.fields)

    def process(self, name: str | None = None) -> Signature:
        """The process of a name, or the only one. Raises ServiceError."""
        known = self.checked.processes
        place = Place(self.checked.program.file, 1)
        if name is None:
            if len(known) == 1:
                return next(iter(known.values()))
            if not known:
                raise ServiceError(place, "this program has no process", "write process NAME: (CHANNELS).")
            raise ServiceError(place, "this program has several processes", f"choose one: {', '.join(sorted(known))}.")
        if name not in known:
            raise ServiceError(place, f"there is no process '{name}'", suggest(name, known))
        return known[name]

    def protocols(self, process: Signature) -> tuple[str, ...]:
        """Names in ALPN (RFC 7301, section 6) of the protocol of a process; none if it has no such name."""
        units = [self.units[each.name] for each in _records(process) if each.name in self.units]
        framings = [item.framing for unit in units for item in unit.items if item.kind == "tail"]
        return ("http/1.1",) if any(each.startswith("http_") for each in framings) else ()

    def accepts_web(self, process: Signature, channel: int) -> bool:
        """Whether a channel of a process receives requests of HTTP."""
        return self._receives(process.channels[channel].type, "http_request")

    def reads_web(self, process: Signature) -> bool:
        """Whether a channel of a process receives responses of HTTP."""
        return any(self._receives(each.type, "http_response") for each in process.channels)

    def _receives(self, type: Type, framing: str) -> bool:
        unit = self.units.get(str(type.receives)) if isinstance(type, ChannelOf) else None
        return unit is not None and unit.tail is not None and unit.tail.framing == framing

    def unit(self, type: Type, place: Place) -> Plan:
        """The unit of a channel's messages. Raises ServiceError."""
        if not isinstance(type, Named) or type.variant:
            raise ServiceError(place, f"{type} has no form on the wire", "a channel of a process carries a record.")
        if type.name in self.refused:
            raise self.refused[type.name]
        if type.name not in self.units:
            raise ServiceError(
                place,
                f"nothing says how '{type.name}' stands on the wire",
                f"name a grammar that has a unit '{type.name}' (--grammar), or declare that unit here.",
            )
        return self.units[type.name]


def load_file(path: str, grammars: Sequence[str] = (), settings: dict[str, int] | None = None) -> Service:
    """Read and check a program: a file, or a ready service. `grammars` are names or files; without any, those that the
    program's first line names count. Raises ServiceError.
    """
    path = find_program(path)
    program, warnings = parse_program(path)
    said = _first_lines(path)
    service = _load(program, warnings, grammars or said.get("grammar", "").replace(",", " ").split(), settings)
    service.cache = _cache_size(said.get("cache", "0"), path)
    return service


def ready_services() -> list[str]:
    """Names of the services included in Sluice."""
    return sorted(each.stem for each in SERVICES.glob("*.fk"))


def find_program(name: str) -> str:
    """The file of a program: of a ready service, or the file itself."""
    return str(SERVICES / f"{name}.fk") if name in ready_services() and not Path(name).exists() else name


def _first_lines(path: str) -> dict[str, str]:
    """The settings in the comments at the beginning, such as `# grammar: http`."""
    found: dict[str, str] = {}
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        said = re.match(r"#\s*(grammar|cache)s?:\s*(.*)", line)
        if said is None:
            break
        found.setdefault(said[1], said[2])
    return found


def _cache_size(text: str, path: str) -> int:
    if not text.strip().isdigit() or int(text) > 1 << 20:
        raise ServiceError(Place(path, 2), f"'{text}' is no size of a cache", f"write # cache: N, MiB up to {1 << 20}.")
    return int(text)


def load_source(
    source: str, grammars: Sequence[str] = (), settings: dict[str, int] | None = None, file: str = "program.fk"
) -> Service:
    """The same of a text."""
    program, warnings = parse_source(source, file)
    return _load(program, warnings, grammars, settings)


def _load(
    program: tree.Program, warnings: list[Warned], grammars: Sequence[str], settings: dict[str, int] | None
) -> Service:
    service = Service(check_program(program, settings, warnings))
    known: dict[str, Grammar] = {}
    for grammar in program.grammars:
        if grammar.name in known:
            raise ServiceError(grammar.place, f"the unit '{grammar.name}' is declared twice", "rename one of them.")
        known[grammar.name] = grammar
    for name in grammars:
        for grammar in find_grammars(name):
            known.setdefault(grammar.name, grammar)
    declared = dict(known)
    used = {record.name for each in service.checked.processes.values() for record in _records(each)}
    own = {each.name for each in program.grammars}.difference(*map(parts_of, program.grammars))
    for grammar in program.grammars:
        if grammar.parameters:
            del known[grammar.name]  # it is a part of others only
        else:
            known[grammar.name] = expand(grammar, declared)
    for declaration in program.types:  # annotations count where no unit is given
        if declaration.name in used and declaration.name not in known:
            try:
                grammar = annotated_unit(declaration, service.checked.warnings)
                if grammar is not None:
                    service.units[declaration.name] = plan(grammar)
            except ServiceError as error:
                service.refused[declaration.name] = error
    for name, grammar in known.items():
        record = service.checked.types.get(name)
        if isinstance(record, Named) and not record.variant:
            found = plan(grammar)
            _match(record, found, program, grammar, service.checked.types)
            service.units[name] = found
        elif name in own:
            plan(grammar)  # for its mistakes
    for signature in service.checked.processes.values():
        if len(signature.channels) > PORTS:
            raise ServiceError(
                signature.declaration.place,
                f"'{signature.name}' has {len(signature.channels)} channels",
                f"use at most {PORTS}.",
            )
    return service


def _match(record: Named, unit: Plan, program: tree.Program, grammar: Grammar, types: dict[str, Type]) -> None:
    """Each field of a record is one of its unit, of the same type. Items in a row are a string, their bytes, or a list:
    of integers, or of the records of their unit.
    """
    declaration = next(each for each in program.types if each.name == record.name)
    places = {each.name: each.place for each in declaration.type.fields}
    items = unit.by_name
    for name, type in record.fields.items():
        if name not in items:
            raise ServiceError(
                places[name], f"the unit '{unit.name}' ({grammar.place}) has no field '{name}'", suggest(name, items)
            )
        wanted = STRING if items[name].is_text else INTEGER
        items_of = _items_of(items[name])
        if isinstance(type, ListOf) and items_of is not None:
            wanted = ListOf(types.get(items_of, UNKNOWN) if items_of else INTEGER)
        if type != wanted:
            as_list = f", or [{items_of or INTEGER}]" if items_of is not None else ""
            raise ServiceError(
                places[name],
                f"'{name}' is {type} here, and {STRING if as_list else wanted}{as_list} in the unit '{unit.name}' "
                f"({grammar.place})",
                f"write {name} : {STRING if as_list else wanted}{as_list}.",
            )


def _items_of(item: Item) -> str | None:
    """The unit of the items in a row that are a field's bytes; empty if they are integers, None if there are none."""
    if item.integer is not None:
        return ""
    return item.element.name if item.element is not None else None


def _records(process: Signature) -> list[Named]:
    """The records that the channels of a process carry."""
    found = [each for _, type in channel_types(process) for each in carried(type)]
    return [each for each in found if isinstance(each, Named) and not each.variant]


def channel_types(signature: Signature) -> list[tuple[tree.Binding, ChannelOf]]:
    """The channels of a process with their types."""
    return [(each, each.type) for each in signature.channels if isinstance(each.type, ChannelOf)]


def carried(type: ChannelOf) -> list[Type]:
    """The types that a channel carries, in either direction."""
    return [each for each in (type.receives, type.sends) if each != NOTHING]
