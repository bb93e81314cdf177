"""The C types of values."""

from __future__ import annotations

from sluice.service.grammar.lower import parser, serialiser, structure
from sluice.service.lang.errors import Place, ServiceError
from sluice.service.lang.types import (
    ADDRESS,
    ANY,
    BOOLEAN,
    INTEGER,
    STRING,
    DictionaryOf,
    ListOf,
    Named,
    RefTo,
    TupleOf,
    Type,
)
from sluice.service.load import Service

LIST = 256
"""Items of a list whose type has no cardinality."""


def bound_of(type: ListOf) -> int:
    """The most items of a list."""
    return type.bound if type.bound is not None else LIST


def _key(type: Type) -> str:
    """A type without the cardinalities of its lists: these have one C type, whatever their cardinality, so that one can
    be assigned to another.
    """
    match type:
        case ListOf():
            return f"[{_key(type.item)}]"
        case TupleOf():
            return f"<{' * '.join(map(_key, type.items))}>"
        case _:
            return str(type)


class Values:
    """Declares the C types that a program uses."""

    def __init__(self, service: Service, capacities: dict[str, int] | None = None) -> None:
        self.service = service
        self.capacities: dict[str, int] = capacities if capacities is not None else {}
        """The largest cardinality of the lists of each type of items that have been declared so far."""
        self.declared: dict[str, str] = {}
        """The name in C of each type that has one of its own, by how a user writes it."""
        self.text: list[str] = []
        self.written: set[str] = set()
        """Records that are sent after the program made or changed them."""
        self._units: list[Named] = []

    def c_type(self, type: Type, place: Place) -> str:
        """The C type of a value. Raises ServiceError for what is not compiled yet."""
        if type in (INTEGER, ADDRESS):
            return "int64_t"
        if type == BOOLEAN:
            return "bool"
        if type == STRING:
            return "struct service_text"
        key = _key(type)
        if isinstance(type, ListOf):
            self.capacities[key] = max(1, bound_of(type), self.capacities.get(key, 0))
        if key not in self.declared:
            self._declare(type, key, place)
        return self.declared[key]

    def _declare(self, type: Type, key: str, place: Place) -> None:
        match type:
            case Named() if type.variant:
                fields = [("int64_t", "label")]
                fields += [(self.c_type(item, place), f"f_{name}") for name, item in type.fields.items()]
                self._structure(f"v_{type.name}", fields, key)
            case Named() if type.name in self.service.units:
                self.declared[key] = f"struct m_{type.name}"
                self.text += structure(type.name, self.service.units[type.name], self.service.fields(type))
                self._units.append(type)
            case Named() if type.name:
                fields = [(self.c_type(item, place), f"f_{name}") for name, item in type.fields.items()]
                self._structure(f"r_{type.name}", fields, key)
            case TupleOf():
                fields = [(self.c_type(item, place), f"i_{number}") for number, item in enumerate(type.items, 1)]
                self._structure(f"t_{len(self.declared)}", fields or [("char", "nothing")], key)
            case ListOf() if type.item != ANY:
                fields = [("uint32_t", "count"), (self.c_type(type.item, place), f"items[{self.capacities[key]}]")]
                self._structure(f"l_{len(self.declared)}", fields, key)
            case DictionaryOf() | RefTo():
                raise not_yet(place, f"a value of type {type}")
            case _:
                raise ServiceError(place, f"the type of this is not known ({type})", "say what it is: e typed TYPE.")

    def _structure(self, name: str, fields: list[tuple[str, str]], key: str) -> None:
        self.declared[key] = f"struct {name}"
        self.text += [f"struct {name} {{", *[f"    {kind} {field};" for kind, field in fields], "};", ""]

    def parsers(self) -> list[str]:
        """The parsers and serialisers of all messages that are used."""
        out: list[str] = []
        for each in self._units:
            unit, fields = self.service.units[each.name], self.service.fields(each)
            out += parser(each.name, unit, fields)
            if each.name in self.written:
                out += serialiser(each.name, unit, fields)
        return out


def not_yet(place: Place, what: str) -> ServiceError:
    """The error for what the interpreter runs and the compiler does not."""
    return ServiceError(
        place, f"{what} is not compiled yet", "express it differently; the interpreter and --check accept it."
    )
