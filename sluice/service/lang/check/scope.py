"""Names in scope at a place of a program, and the checker's data on all declarations."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sluice.service.lang import tree
from sluice.service.lang.errors import Place, ServiceError, Warned, suggest
from sluice.service.lang.types import (
    ADDRESS,
    ANY,
    BOOLEAN,
    INTEGER,
    NOTHING,
    STRING,
    ChannelOf,
    DictionaryOf,
    ListOf,
    Named,
    RefTo,
    TupleOf,
    Type,
    bound_of,
    exceeds,
    joined,
    narrowed,
)

MOST_PARTS = 10_000
"""Of a type: fields, items of tuples, and those of their types."""
_BASIC = {"integer": INTEGER, "string": STRING, "boolean": BOOLEAN, "ipv4_address": ADDRESS, "nothing": NOTHING}


@dataclass(eq=False)
class Signature:
    """A function or a process: its channels and parameters in order, its state, and its return type."""

    name: str
    declaration: tree.Function | tree.Process
    parameters: list[tree.Binding]
    constants: list[tree.Binding]
    result: Type
    states: list[tree.Binding] = field(default_factory=list[tree.Binding])
    calls: list[tuple[str, Place]] = field(default_factory=list[tuple[str, Place]])
    """Functions that its body calls."""

    @property
    def channels(self) -> list[tree.Binding]:
        return [each for each in self.parameters if each.kind in ("channel", "array")]

    @property
    def values(self) -> list[tree.Binding]:
        return [each for each in self.parameters if each.kind == "parameter"]


@dataclass
class Checked:
    """A program whose names and types are known."""

    program: tree.Program
    types: dict[str, Type] = field(default_factory=dict[str, Type])
    labels: dict[str, Named] = field(default_factory=dict[str, Named])
    """Each label of a variant, with that variant."""
    functions: dict[str, Signature] = field(default_factory=dict[str, Signature])
    processes: dict[str, Signature] = field(default_factory=dict[str, Signature])
    warnings: list[Warned] = field(default_factory=list[Warned])
    settings: dict[str, int] = field(default_factory=dict[str, int])
    """Values of compile-time parameters."""
    complete: bool = False
    """Whether the fields of all records are known."""


class Scope:
    """Looks up names and types; has the data that expression checkers share."""

    def __init__(self, checked: Checked) -> None:
        self.checked = checked
        self.names: list[dict[str, tree.Binding]] = []
        self.current: Signature | None = None

    @contextmanager
    def block(self) -> Generator[None]:
        """Names that are introduced inside are unknown after it."""
        self.names.append({})
        yield
        self.names.pop()

    def declare(self, name: str, kind: str, type: Type, place: Place) -> tree.Binding:
        """Introduce a name. Raises ServiceError where it hides another one."""
        found = tree.Binding(name, kind, type, place)
        if name == "_":
            return found
        for known in self.names:
            if name in known:
                raise ServiceError(
                    place,
                    f"'{name}' is already the name of something (line {known[name].place.line})",
                    "use another name: a name has one meaning in a body.",
                )
        self.names[-1][name] = found
        return found

    def find(self, name: str) -> tree.Binding | None:
        for known in reversed(self.names):
            if name in known:
                return known[name]
        return None

    def lookup(self, name: str, place: Place) -> tree.Binding:
        found = self.find(name)
        if found is None:
            if name in self.checked.functions:
                raise ServiceError(
                    place, f"'{name}' is a function, and stands without arguments", f"write {name}(...)."
                )
            everything = [each for known in self.names for each in known]
            raise ServiceError(
                place, f"there is no '{name}' here", suggest(name, everything, "introduce it with 'let'.")
            )
        return found

    def warn(self, place: Place, what: str) -> None:
        self.checked.warnings.append(Warned(place, what))

    # --- types

    def check_parts(self, type: Type, place: Place) -> None:
        """Raises ServiceError for a type with too many parts: a few types that each have another one twice could have
        any number.
        """
        left, count = [type], 0
        while left:
            match left.pop():
                case ListOf(item=item):
                    left.append(item)
                case TupleOf(items=items):
                    left += items
                case DictionaryOf(key=key, value=value):
                    left += (key, value)
                case Named(fields=fields) if self.checked.complete:
                    left += fields.values()
                case _:
                    pass
            count += 1
            if count > MOST_PARTS:
                raise ServiceError(
                    place, f"a value of this type has more than {MOST_PARTS:,} parts", "use lists, or fewer fields."
                )

    def resolve(self, written: tree.TypeExpression) -> Type:
        """The type that is written. Raises ServiceError for a name that is none."""
        found = self._resolve(written)
        self.check_parts(found, written.place)
        return found

    def _resolve(self, written: tree.TypeExpression) -> Type:
        if written.kind in _BASIC:
            return _BASIC[written.kind]
        if written.kind == "name":
            if written.name not in self.checked.types:
                raise ServiceError(
                    written.place,
                    f"there is no type '{written.name}'",
                    suggest(
                        written.name, [*self.checked.types, *list(_BASIC)[:4]], f"declare it: type {written.name}: ..."
                    ),
                )
            return self.checked.types[written.name]
        items = [self.resolve(item) for item in written.items]
        match written.kind:
            case "list":
                return ListOf(items[0], self.cardinality(written.bound, written.place))
            case "tuple":
                return TupleOf(tuple(items))
            case "dictionary":
                if isinstance(items[0], (ListOf, DictionaryOf)):
                    raise ServiceError(
                        written.place,
                        f"{items[0]} cannot be the key of a dictionary",
                        "use an integer, a string, or a tuple.",
                    )
                return DictionaryOf(items[0], items[1])
            case _:
                return RefTo(items[0])

    def cardinality(self, bound: str | int | None, place: Place) -> int | None:
        """A number of items; that of a compile-time parameter if it is set."""
        if not isinstance(bound, str):
            return bound
        known = [] if self.current is None else [each.name for each in self.current.constants]
        if bound not in known:
            raise ServiceError(
                place,
                f"'{bound}' is no compile-time parameter here",
                suggest(bound, known, f"write {{{bound}}} => (...)."),
            )
        return self.checked.settings.get(bound)

    def channel_type(self, written: tree.ChannelDeclaration) -> ChannelOf:
        return ChannelOf(self.resolve(written.receives), self.resolve(written.sends), written.array)

    def coerce(self, node: tree.Expression, wanted: Type, what: str) -> None:
        """Give an expression the type required in its place. `what` begins the message if it has another one."""
        if wanted == ANY:
            return
        found = joined(wanted, node.type)
        if found is None:
            raise ServiceError(
                node.place,
                f"{what} has to be of type {wanted}, and this is {_article(node.type)}",
                "change one of them.",
            )
        exact = narrowed(wanted, found)
        if exceeds(node.type, exact):
            if isinstance(node, tree.List) and isinstance(exact, ListOf) and len(node.items) > bound_of(exact):
                raise ServiceError(
                    node.place,
                    f"{what} has at most {bound_of(exact)} items, and this list has {len(node.items)}",
                    "give its type a larger cardinality: [T]{NUMBER}.",
                )
            node.narrowed = exact
        push(node, exact)


def _article(type: Type) -> str:
    text = str(type)
    return f"of type {text}" if text[0] in "<[{-" or "/" in text else f"{'an' if text[0] in 'aeiou' else 'a'} {text}"


def push(node: tree.Expression, type: Type) -> None:
    """Set the type that is known by now on an expression, and on those that give its value."""
    if isinstance(type, ChannelOf):
        return
    node.type = type
    match node:
        case tree.List():
            for item in node.items:
                if isinstance(type, ListOf):
                    push(item, type.item)
        case tree.Record():
            for name, item in node.fields:
                if isinstance(type, Named):
                    push(item, type.fields[name])
        case tree.Tuple():
            if isinstance(type, TupleOf):
                for item, each in zip(node.items, type.items, strict=True):
                    push(item, each)
        case tree.If():
            push(node.then, type)
            if node.otherwise is not None:
                push(node.otherwise, type)
        case tree.Switch():
            for case in node.cases:
                push(case.body, type)
        case tree.Sequence():
            push(node.items[-1], type)
        case tree.Binary(operator="::" | "@"):
            push(node.right, type)
            if node.operator == "@":
                push(node.left, type)
            elif isinstance(type, ListOf):
                push(node.left, type.item)
        case _:
            pass
