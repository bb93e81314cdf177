"""The nodes of a program. The checker fills in `type` of every expression, and `binding` of every name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sluice.service.lang.errors import Place
from sluice.service.lang.types import UNKNOWN, Type

if TYPE_CHECKING:
    from sluice.service.grammar.tree import Grammar


@dataclass(eq=False)
class Binding:
    """The meaning of a name. kind: channel, array, parameter, let, loop, local, global, constant or key."""

    name: str
    kind: str
    type: Type
    place: Place
    value: Any = None
    """Of a compile-time parameter; of an array, the most channels that it can have."""


# --- types as written


@dataclass(eq=False)
class TypeExpression:
    """A type as written. kind: integer, string, boolean, ipv4_address, name, list, tuple, dictionary, ref, record,
    variant or nothing (`-`).
    """

    place: Place
    kind: str
    name: str = ""
    items: list[TypeExpression] = field(default_factory=list["TypeExpression"])
    fields: list[FieldDeclaration] = field(default_factory=list["FieldDeclaration"])
    bound: str | int | None = None
    """The cardinality of a list: a number, or a compile-time parameter."""
    annotation: dict[str, Any] = field(default_factory=dict[str, Any])
    """Values are text, numbers, AnnotationName or AnnotationSum."""


@dataclass(frozen=True)
class AnnotationName:
    """A word in an annotation: another field, or a constant such as `true` or `ascii`."""

    name: str


@dataclass(frozen=True)
class AnnotationSum:
    """left + right or left - right."""

    operator: str
    left: Any
    right: Any


@dataclass(eq=False)
class FieldDeclaration:
    """A field of a record or a label of a variant; the name `_` is anonymous."""

    place: Place
    name: str
    type: TypeExpression
    annotation: dict[str, Any] = field(default_factory=dict[str, Any])


# --- expressions


@dataclass(eq=False)
class Expression:
    place: Place
    type: Type = field(default=UNKNOWN, init=False, repr=False)
    narrowed: Type | None = field(default=None, init=False, repr=False)
    """A type whose lists have fewer items than the value might have, which is tested when the program runs."""


@dataclass(eq=False)
class Boolean(Expression):
    value: bool


@dataclass(eq=False)
class Integer(Expression):
    value: int


@dataclass(eq=False)
class Text(Expression):
    value: str


@dataclass(eq=False)
class Address(Expression):
    value: str


@dataclass(eq=False)
class Tuple(Expression):
    items: list[Expression]


@dataclass(eq=False)
class List(Expression):
    items: list[Expression]


@dataclass(eq=False)
class Record(Expression):
    fields: list[tuple[str, Expression]]


@dataclass(eq=False)
class Name(Expression):
    name: str
    binding: Binding | None = field(default=None, init=False, repr=False)


@dataclass(eq=False)
class Hole(Expression):
    """`_`: the dotted operand of a call, the default of a switch, or, after `=>`, no target."""


@dataclass(eq=False)
class Index(Expression):
    base: Expression
    index: Expression


@dataclass(eq=False)
class Field(Expression):
    base: Expression
    name: str


@dataclass(eq=False)
class Item(Expression):
    """An item of a tuple, counted from 1."""

    base: Expression
    number: int


@dataclass(eq=False)
class Unary(Expression):
    operator: str
    operand: Expression


@dataclass(eq=False)
class Binary(Expression):
    operator: str
    left: Expression
    right: Expression


@dataclass(eq=False)
class Typed(Expression):
    value: Expression
    wanted: TypeExpression
    unsafe: bool


@dataclass(eq=False)
class With(Expression):
    base: Expression
    name: str
    value: Expression


@dataclass(eq=False)
class If(Expression):
    condition: Expression
    then: Expression
    otherwise: Expression | None


@dataclass(eq=False)
class Case:
    """A case of a switch; kind (set by the checker): default, guard, label or value."""

    place: Place
    pattern: Expression
    body: Expression
    kind: str = ""
    binding: Binding | None = None


@dataclass(eq=False)
class Switch(Expression):
    subject: Expression
    cases: list[Case]


@dataclass(eq=False)
class Let(Expression):
    name: str
    wanted: TypeExpression | None
    value: Expression
    binding: Binding | None = field(default=None, init=False, repr=False)


@dataclass(eq=False)
class Assign(Expression):
    target: Expression
    value: Expression


@dataclass(eq=False)
class For(Expression):
    name: str
    unordered: bool
    over: Expression
    accumulator: str | None
    start: Expression | None
    body: Expression
    binding: Binding | None = field(default=None, init=False, repr=False)
    accumulated: Binding | None = field(default=None, init=False, repr=False)


@dataclass(eq=False)
class Map(Expression):
    """`map x in e: body`, and `filter x in e: condition`."""

    kind: str
    name: str
    unordered: bool
    over: Expression
    body: Expression
    binding: Binding | None = field(default=None, init=False, repr=False)


@dataclass(eq=False)
class FoldT(Expression):
    """`foldt on CHANNELS ordering ELEMENT LEFT, RIGHT by KEY as NAME: body`."""

    channels: Expression
    element: str
    left: str
    right: str
    key: Expression
    key_name: str
    body: Expression
    bindings: dict[str, Binding] = field(default_factory=dict[str, Binding], init=False, repr=False)


@dataclass(eq=False)
class Argument:
    """An argument: a value, a named value (`name <- e`), or an inverted channel (`-c`)."""

    value: Expression
    name: str | None = None
    inverted: bool = False


@dataclass(eq=False)
class Call(Expression):
    """A call; after checking, `ordered` holds an argument for each parameter of a function or constructor."""

    function: str
    arguments: list[Argument]
    ordered: list[Expression] = field(default_factory=list[Expression], init=False, repr=False)
    kind: str = field(default="", init=False, repr=False)
    """function, built-in, record or label."""


@dataclass(eq=False)
class Dotted(Expression):
    """`e.f(args)`: `e` replaces `_`, or precedes the arguments."""

    operand: Expression
    call: Call


@dataclass(eq=False)
class Send(Expression):
    channel: Expression
    value: Expression


@dataclass(eq=False)
class Receive(Expression):
    channel: Expression
    peek: bool


@dataclass(eq=False)
class Can(Expression):
    what: Expression


@dataclass(eq=False)
class Pipe(Expression):
    """`a; b => f(x) => c`: each message from any source, through the stages."""

    sources: list[Expression]
    stages: list[Expression]
    bindings: list[Binding] = field(default_factory=list[Binding], init=False, repr=False)
    """The input of each stage."""


@dataclass(eq=False)
class Sequence(Expression):
    items: list[Expression]


@dataclass(eq=False)
class Parallel(Expression):
    items: list[Expression]


@dataclass(eq=False)
class CompileTime(Expression):
    value: Expression


# --- declarations


@dataclass(eq=False)
class TypeDeclaration:
    place: Place
    name: str
    type: TypeExpression


@dataclass(eq=False)
class ChannelDeclaration:
    place: Place
    name: str
    receives: TypeExpression
    sends: TypeExpression
    array: bool
    bound: str | int | None = None


@dataclass(eq=False)
class StateDeclaration:
    """`local` or `global` state."""

    place: Place
    name: str
    everywhere: bool
    wanted: TypeExpression | None
    start: Expression
    binding: Binding | None = field(default=None, init=False, repr=False)


@dataclass(eq=False)
class Handler:
    place: Place
    exception: str
    body: Expression


@dataclass(eq=False)
class Body:
    states: list[StateDeclaration]
    expression: Expression
    handlers: list[Handler]


@dataclass(eq=False)
class Process:
    place: Place
    name: str
    constants: list[str]
    channels: list[ChannelDeclaration]
    parameters: list[FieldDeclaration]
    body: Body


@dataclass(eq=False)
class Function:
    place: Place
    name: str
    constants: list[str]
    channels: list[ChannelDeclaration]
    parameters: list[FieldDeclaration]
    results: list[TypeExpression]
    body: Body
    order: list[str] = field(default_factory=list[str])
    """Names of channels and parameters as a call gives them."""


@dataclass(eq=False)
class Program:
    """A parsed file with all that it includes."""

    file: str
    types: list[TypeDeclaration] = field(default_factory=list[TypeDeclaration])
    processes: list[Process] = field(default_factory=list[Process])
    functions: list[Function] = field(default_factory=list[Function])
    grammars: list[Grammar] = field(default_factory=list["Grammar"])
    expressions: list[Expression] = field(default_factory=list[Expression])
    """Of a file that is one expression, `(| e |)`."""
