"""The C types of values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sluice.service.grammar.lower import parser, structure
from sluice.service.grammar.plan import Item
from sluice.service.grammar.serialise import serialiser, writer
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
    bound_of,
)
from sluice.service.load import Service
from sluice.service.lower.lists import pack, unpack
from sluice.service.lower.named import read_fields

DICTIONARY = 1024
"""Entries of a dictionary."""
TEXTS = 1024
"""Bytes of all strings of a state variable, or of an entry of a dictionary."""
LARGEST_VALUE = 1 << 24
"""Bytes of a value."""


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
        self.read = read_fields(service.checked)
        """Of records whose other fields nothing needs: those that are read."""
        self.sent: set[str] = set()
        """Messages that the program makes or changes, and sends."""
        self.packed: set[str] = set()
        """Those that it puts into lists of other messages."""
        self.declared: dict[str, str] = {}
        """The name in C of each type that has one, by the user's notation."""
        self._open: set[str] = set()
        """Those whose parts are being declared."""
        self.text: list[str] = []
        self.written: set[str] = set()
        """Records that are sent after the program made or changed them."""
        self.sizes: dict[str, int] = {}
        """Bytes of the values of each C type, about."""
        self.entries = DICTIONARY
        self._units: list[Named] = []
        self._helpers: dict[str, str] = {}
        self._codecs: list[str] = []

    def c_type(self, type: Type, place: Place) -> str:
        """The C type of a value. Raises ServiceError for types that are not compiled yet."""
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
            if key in self._open:
                raise ServiceError(
                    place, f"a value of type {type} stands here, which contains itself by 'ref'",
                    "no value of such a type has a bound: use a dictionary with numbers as keys.",
                )  # fmt: skip
            self._open.add(key)
            self._declare(type, key, place)
            self._open.remove(key)
        return self.declared[key]

    def _declare(self, type: Type, key: str, place: Place) -> None:
        match type:
            case RefTo():
                self.declared[key] = self.c_type(type.item, place)
            case Named() if type.variant:
                fields = [("int64_t", "label")]
                fields += [(self.c_type(item, place), f"f_{name}") for name, item in type.fields.items()]
                self._structure(f"v_{type.name}", fields, key, place)
            case Named() if type.name in self.service.units:
                self.declared[key] = f"struct m_{type.name}"
                self.sizes[self.declared[key]] = 64 + 16 * len(type.fields)
                self.text += structure(type.name, self.service.units[type.name], self.service.fields(type))
                self._units.append(type)
            case Named() if type.name:
                fields = [(self.c_type(item, place), f"f_{name}") for name, item in type.fields.items()]
                self._structure(f"r_{type.name}", fields, key, place)
            case TupleOf():
                fields = [(self.c_type(item, place), f"i_{number}") for number, item in enumerate(type.items, 1)]
                self._structure(f"t_{len(self.declared)}", fields or [("char", "nothing")], key, place)
            case ListOf() if type.item != ANY:
                fields = [("uint32_t", "count"), (self.c_type(type.item, place), f"items[{self.capacities[key]}]")]
                self._structure(f"l_{len(self.declared)}", fields, key, place, self.capacities[key])
            case DictionaryOf():
                raise ServiceError(
                    place,
                    f"a value of type {type} stands here",
                    "a dictionary is state: use its name, or an entry of it.",
                )
            case _:
                raise ServiceError(place, f"the type of this is not known ({type})", "say what it is: e typed TYPE.")

    def entry(self, type: Type, place: Place) -> str:
        """The C type of an entry of a dictionary: a value, and the room for its bytes."""
        value = self.c_type(type, place)
        name = f"entry {_key(type)}"
        if name not in self._helpers:
            self._helpers[name] = f"struct e_{len(self._helpers)}"
            room = [] if self.flat(type) else [f"    uint8_t room[{TEXTS}];"]
            self.text += [f"{self._helpers[name]} {{", f"    {value} value;", *room, "};", ""]
        return self._helpers[name]

    def _structure(self, name: str, fields: list[tuple[str, str]], key: str, place: Place, repeated: int = 1) -> None:
        size = 8 + sum(self.size(kind) for kind, _ in fields) * repeated
        if size > LARGEST_VALUE:
            raise ServiceError(
                place,
                f"a value of type {key} takes {size:,} bytes",
                f"give its lists a cardinality, such as [T]{{8}}: a value has at most {LARGEST_VALUE:,} bytes.",
            )
        self.declared[key] = f"struct {name}"
        self.sizes[f"struct {name}"] = size
        self.text += [f"struct {name} {{", *[f"    {kind} {field};" for kind, field in fields], "};", ""]

    def size(self, c_type: str) -> int:
        """Bytes of a C type, about."""
        return {"bool": 1, "char": 1, "uint32_t": 4, "struct service_text": 16}.get(c_type) or self.sizes.get(c_type, 8)

    # --- helpers: C functions over values of one type

    def parts(self, type: Type) -> list[tuple[str, Type]]:
        """The fields in C of a value that has several."""
        match type:
            case TupleOf():
                return [(f"i_{number}", item) for number, item in enumerate(type.items, 1)]
            case Named():
                return [
                    (f"f_{name}", item if self.service.row(type, name) is None else STRING)
                    for name, item in type.fields.items()
                ]
            case _:
                return []

    def flat(self, type: Type) -> bool:
        """Whether a value refers to no bytes elsewhere: no string, and no message."""
        match type:
            case ListOf():
                return self.flat(type.item)
            case Named() if not type.variant and type.name in self.service.units:
                return False
            case TupleOf() | Named():
                return all(self.flat(item) for _, item in self.parts(type))
            case _:
                return type != STRING

    def _helper(
        self, kind: str, type: Type, place: Place, write: Callable[[str, str], list[str]], key: str = ""
    ) -> str:
        name = f"{kind} {key or _key(type)}"
        if name not in self._helpers:
            self._helpers[name] = f"{kind}_{len(self._helpers)}"
            self.text += write(self._helpers[name], self.c_type(type, place))
        return self._helpers[name]

    def same(self, type: Type, place: Place) -> str:
        """A function that compares two values, by pointers."""
        return self._helper("same", type, place, lambda name, c_type: self._same(name, c_type, type, place))

    def _same(self, name: str, c_type: str, type: Type, place: Place) -> list[str]:
        if type == STRING:
            body = ["    return service_same(*a, *b);"]
        elif isinstance(type, ListOf):
            each = self.same(type.item, place)
            body = [
                "    if (a->count != b->count)",
                "        return false;",
                "    for (uint32_t i = 0; i < a->count; i++)",
                f"        if (!{each}(&a->items[i], &b->items[i]))",
                "            return false;",
                "    return true;",
            ]
        elif parts := self.parts(type):
            tests = [f"{self.same(item, place)}(&a->{field}, &b->{field})" for field, item in parts]
            if isinstance(type, Named) and type.variant:
                tests.insert(0, "a->label == b->label")
            body = [f"    return {' && '.join(tests)};"]
        elif isinstance(type, TupleOf):
            body = ["    (void)a;", "    (void)b;", "    return true;"]
        else:
            body = ["    return *a == *b;"]
        return [f"static bool {name}(const {c_type} *a, const {c_type} *b)", "{", *body, "}", ""]

    def within(self, type: Type, place: Place) -> str:
        """A function that tests whether the lists of a value have no more items than the type permits."""
        return self._helper(
            "within", type, place, lambda name, c_type: self._within(name, c_type, type, place), str(type)
        )

    def _within(self, name: str, c_type: str, type: Type, place: Place) -> list[str]:
        tests: list[str] = []
        if isinstance(type, ListOf):
            body = [f"    if (v->count > {bound_of(type)})", "        return false;"]
            if isinstance(type.item, (ListOf, TupleOf)):
                each = self.within(type.item, place)
                body += ["    for (uint32_t i = 0; i < v->count; i++)", f"        if (!{each}(&v->items[i]))"]
                body += ["            return false;"]
        else:
            tests = [
                f"{self.within(item, place)}(&v->{field})"
                for field, item in self.parts(type)
                if isinstance(type, TupleOf) and isinstance(item, (ListOf, TupleOf))
            ]
            body = [] if tests else ["    (void)v;"]
        return [
            f"static bool {name}(const {c_type} *v)", "{", *body, f"    return {' && '.join(tests) or 'true'};", "}", "",
        ]  # fmt: skip

    def texts(self, type: Type, place: Place) -> str:
        """A function that gives the bytes of all strings and messages of a value."""
        return self._helper("texts", type, place, lambda name, c_type: self._texts(name, c_type, type, place))

    def _texts(self, name: str, c_type: str, type: Type, place: Place) -> list[str]:
        if type == STRING:
            body = ["    return v->length;"]
        elif isinstance(type, ListOf):
            body = [
                "    uint64_t sum = 0;",
                "",
                "    for (uint32_t i = 0; i < v->count; i++)",
                f"        sum += {self.texts(type.item, place)}(&v->items[i]);",
                "    return sum;",
            ]
        else:
            parts = [(field, item) for field, item in self.parts(type) if not self.flat(item)]
            sums = [f"{self.texts(item, place)}(&v->{field})" for field, item in parts] or ["0"]
            body = [f"    return {' + '.join(sums)};"]
            if isinstance(type, Named) and not type.variant and type.name in self.service.units:
                body = [
                    "    if (v->m.raw && !v->m.changed)",
                    "        return v->m.total;",
                    f"    return (v->m.raw ? v->m.total : 0) + {' + '.join(sums)};",
                ]
        return [f"static uint64_t {name}(const {c_type} *v)", "{", *body, "}", ""]

    def copy(self, type: Type, place: Place) -> str:
        """A function that moves the bytes of all strings and messages of a value to the target of a pointer."""
        return self._helper("copy", type, place, lambda name, c_type: self._copy(name, c_type, type, place))

    def _copy(self, name: str, c_type: str, type: Type, place: Place) -> list[str]:
        if type == STRING:
            body = ["    service_move_text(v, to);"]
        elif isinstance(type, ListOf):
            each = self.copy(type.item, place)
            body = ["    for (uint32_t i = 0; i < v->count; i++)", f"        {each}(&v->items[i], to);"]
        else:
            parts = [(field, item) for field, item in self.parts(type) if not self.flat(item)]
            body = [f"    {self.copy(item, place)}(&v->{field}, to);" for field, item in parts]
            if isinstance(type, Named) and not type.variant and type.name in self.service.units:
                moved = [f"        v->{field}.at = raw + (v->{field}.at - v->m.raw);" for field, _ in parts]
                moved = [
                    f"        if (v->{field}.at)\n    {line}" for (field, _), line in zip(parts, moved, strict=True)
                ]
                raw = ["    const uint8_t *raw = *to;", ""] if parts else []
                body = [
                    *raw,
                    "    if (v->m.raw) {",
                    "        memcpy(*to, v->m.raw, v->m.total);",
                    "        *to += v->m.total;",
                    "    }",
                    *(["    if (v->m.raw && !v->m.changed) {", *moved, "    } else {"] if parts else []),
                    *(f"    {line}" for line in body),
                    *(["    }"] if parts else []),
                    "    if (v->m.raw)",
                    f"        v->m.raw = {'raw' if parts else '*to - v->m.total'};",
                    "    v->m.origin = NULL;",
                ]
        return [
            f"static void {name}({c_type} *v, uint8_t **to)",
            "{",
            *(body or ["    (void)v;", "    (void)to;"]),
            "}",
            "",
        ]

    def key(self, type: Type, place: Place) -> str:
        """A function that appends a value to a dictionary's key."""
        return self._helper("key", type, place, lambda name, c_type: self._key_of(name, c_type, type, place))

    def _key_of(self, name: str, c_type: str, type: Type, place: Place) -> list[str]:
        if type == STRING:
            test = "service_key_text(key, *v)"
        elif type in (INTEGER, BOOLEAN, ADDRESS):
            test = "service_key_integer(key, *v)"
        elif isinstance(type, (TupleOf, Named)):
            tests = [f"{self.key(item, place)}(&v->{field}, key)" for field, item in self.parts(type)]
            if isinstance(type, Named) and type.variant:
                tests.insert(0, "service_key_integer(key, v->label)")
            test = " && ".join(tests) or "true"
        else:
            raise ServiceError(
                place, f"{type} cannot be the key of a dictionary", "use an integer, a string, or a tuple."
            )
        extra = ["    (void)v;", "    (void)key;"] if test == "true" else []
        return [
            f"static bool {name}(const {c_type} *v, struct service_key *key)",
            "{",
            *extra,
            f"    return {test};",
            "}",
            "",
        ]

    # --- lists in messages

    def unpack(self, row: Item, type: ListOf, place: Place) -> str:
        """A function from the bytes of a message's field to the list that they are; it returns the reason of a fault."""
        return self._codec(f"unpack {row.name} {row.index} {type}", type, place, partial(unpack, row, type))

    def pack(self, row: Item, type: ListOf, place: Place) -> str:
        """The other way. A unit that the program makes is serialised."""
        made = row.element is not None and row.element.name in self.written
        if row.element is not None and made:
            self.packed.add(row.element.name)
        key = f"pack {row.name} {row.index} {_key(type)}"
        return self._codec(key, type, place, partial(pack, row, made))

    def _codec(self, key: str, type: ListOf, place: Place, write: Callable[[str, str, str], list[str]]) -> str:
        if key not in self._helpers:
            self._helpers[key] = f"list_{len(self._helpers)}"
            self._codecs += write(self._helpers[key], self.c_type(type, place), self.c_type(type.item, place))
        return self._helpers[key]

    def parsers(self) -> list[str]:
        """The parsers and serialisers of all messages that are used, and then of the lists in them."""
        out: list[str] = []
        for each in self._units:
            unit, fields = self.service.units[each.name], self.service.fields(each)
            read = self.read.get(each.name)
            out += parser(each.name, unit, fields if read is None else [field for field in fields if field in read])
            if each.name in self.sent | self.packed:
                out += serialiser(each.name, unit, fields)
            if each.name in self.sent:
                out += writer(each.name, unit)
        return out + self._codecs
