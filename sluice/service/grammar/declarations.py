"""The declarations of a file of grammars: units, constants, labels, other names of types, views, and other files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sluice.service.grammar.expand import expand
from sluice.service.grammar.parser import UnitParser
from sluice.service.grammar.tokens import unescape
from sluice.service.grammar.tree import Grammar, Value, WireField, WireType
from sluice.service.lang.errors import Place, ServiceError, suggest

FOLDER = Path(__file__).resolve().parent.parent / "grammars"
"""Of the grammars included in Sluice."""
SUFFIX = ".grammar"


def parse_grammar(text: str, file: str, line: int) -> Grammar:
    """One declaration, which begins at a line of a file; expand() is left to the caller. Raises ServiceError."""
    units = [each for each in _File(text, file, line, set()).parse().types.values() if isinstance(each, Grammar)]
    if len(units) != 1:
        raise ServiceError(Place(file, line), "a unit belongs here", "write type NAME = unit { ... };")
    return units[0]


def parse_grammars(text: str, file: str, line: int = 1) -> list[Grammar]:
    """All units of a file that can be messages: those without parameters, also of files that it includes. Raises
    ServiceError.
    """
    types = _File(text, file, line, {str(Path(file).resolve())}).parse().types
    units = [each for each in types.values() if isinstance(each, Grammar)]
    return [expand(each, types) for each in units if not each.parameters]


class _File(UnitParser):
    def __init__(
        self, text: str, file: str, line: int, open_files: set[str], others: dict[str, _File] | None = None
    ) -> None:
        super().__init__(text, file, line)
        self.types: dict[str, Grammar | WireType] = {}
        self.open_files = open_files
        """This file and those that include it."""
        self.others = {} if others is None else others
        """Files that were read, by their paths: several may include one."""

    def parse(self) -> _File:
        while self.token.kind != "end":
            self._declaration()
        return self

    def _declaration(self) -> None:
        place = self.token.place
        if self.take_if("module"):
            self.name("the name of the module")
            self.expect(";", "after the module's name")
        elif self.take_if("%"):
            self._default()
        elif self.take_if("import", "include"):
            self._other_file(place)
        elif self.take_if("instantiate"):
            self._view(place)
        else:
            self.take_if("export")
            if self.take_if("const"):
                self._constant(place)
            elif self.take_if("type"):
                self._type(place)
            else:
                raise ServiceError(
                    place,
                    f"'{self.token.text}' does not begin a declaration of a grammar",
                    "write type NAME = unit { ... }; or const NAME = VALUE; functions belong into the program.",
                )

    def _default(self) -> None:
        """A property of all units that follow, as `%byteorder = big;`; one without a value has no meaning here."""
        if self.token.kind == "word" and self.tokens[self.at + 1].text == ";":
            self.take()
            self.take()
            return
        found = Grammar(self.token.place, "")
        self.property(found)
        if found.expressions:
            raise ServiceError(found.place, "this property depends on a message", "write it in a unit.")
        self.defaults |= found.properties

    def _declare(self, place: Place, name: str, type: Grammar | WireType) -> None:
        if self.types.get(name, type) is not type:
            raise ServiceError(place, f"the unit '{name}' is declared twice", "rename one of them.")
        self.types[name] = type

    def _type(self, place: Place) -> None:
        name = self.name("the name of a unit")
        self.expect("=", f"after 'type {name}'")
        if self.take_if("unit"):
            self._declare(place, name, self.unit(place, name))
        elif self.token.text in ("enum", "bitset"):
            self._labels(place, name, self.take().text == "bitset")
        else:
            self._declare(place, name, self.type())
        self.take_if(";")

    def _labels(self, place: Place, name: str, bits: bool) -> None:
        """`enum { A = 1, B }`: numbers that go on from the one before; `bitset { A, B }`: one bit each."""
        self.labels.add(name)
        self._declare(place, name, WireType(place, "labels", name=name))
        self.expect("{", f"before the labels of '{name}'")
        number = 0
        while not self.take_if("}"):
            label = self.name("a label")
            if self.take_if("="):
                token = self.take()
                if token.kind != "number":
                    raise ServiceError(token.place, f"'{token.text}' is no number", "write LABEL = NUMBER.")
                number = int(token.text, 0)
            if f"{name}::{label}" in self.constants:
                raise ServiceError(place, f"'{label}' stands twice in '{name}'", "rename one of them.")
            self.constants[f"{name}::{label}"] = Value(place, "number", number=1 << number if bits else number)
            number += 1
            if self.token.text != "}":
                self.expect(",", f"after the label '{label}'")

    def _constant(self, place: Place) -> None:
        name = self.name("the name of a constant")
        if self.take_if(":"):
            self.type()
        self.expect("=", f"after 'const {name}'")
        if name in self.constants:
            raise ServiceError(place, f"the constant '{name}' is declared twice", "rename one of them.")
        self.constants[name] = self.value()
        self.expect(";", f"after the constant '{name}'")

    def _view(self, place: Place) -> None:
        """`instantiate unit A as B { FIELD; %PROPERTY = VALUE; };`: the unit by another name. Fields are parsed as a
        program names them, so that their list is only checked.
        """
        self.expect("unit", "after 'instantiate'")
        of = self.name("the name of a unit")
        self.expect("as", f"after 'instantiate unit {of}'")
        name = self.name("the name of the view")
        source = self.types.get(of)
        if not isinstance(source, Grammar):
            units = [each for each, type in self.types.items() if isinstance(type, Grammar)]
            raise ServiceError(place, f"there is no unit '{of}'", suggest(of, units))
        found = replace(source, name=name, properties=dict(source.properties), expressions=dict(source.expressions))
        known = [each.name for each in source.items if isinstance(each, WireField)]
        self.expect("{", f"before the fields of '{name}'")
        while not self.take_if("}"):
            if self.take_if("%"):
                self.property(found)
                continue
            token = self.token
            field = self.name("a field")
            if field not in known:
                raise ServiceError(token.place, f"the unit '{of}' has no field '{field}'", suggest(field, known))
            self.attributes()
            self.expect(";", f"after the field '{field}'")
        self._declare(place, name, found)
        self.take_if(";")

    def _other_file(self, place: Place) -> None:
        """`import a.b;` is a/b.grammar next to this file, or a grammar of Sluice; `include "FILE";` is that file."""
        if self.token.kind == "text":
            path = Path(self.file_name).parent / unescape(self.take())
        else:
            parts = [self.name("the name of a grammar")]
            while self.take_if("."):
                parts.append(self.name("the name of a grammar"))
            path = Path(self.file_name).parent.joinpath(*parts).with_suffix(SUFFIX)
            if not path.exists() and len(parts) == 1:
                path = FOLDER / f"{parts[0]}{SUFFIX}"
        self.expect(";", "after the name of a file")
        whole = str(path.resolve())
        if whole in self.open_files:
            raise ServiceError(place, f"{path} includes itself", "remove one of the two.")
        if whole not in self.others:
            try:
                text = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise ServiceError(place, f"{path} cannot be read: {error}", "name a grammar's file.") from error
            self.others[whole] = _File(text, str(path), 1, {*self.open_files, whole}, self.others).parse()
        other = self.others[whole]
        for name, type in other.types.items():
            self._declare(place, name, type)
        self.constants |= other.constants
        self.labels |= other.labels
