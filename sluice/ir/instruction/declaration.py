"""Instructions of the IR, each declared once: its operands, and what it reads and writes besides them.

An operand is `write` (a register that it sets), `read` (an expression), `leads_to` (the name of a possible next block),
or a plain constant of the instruction. What is not an operand (the packet, the table, the sequence, the outside world)
is a Resource: READS and WRITES name the resources of an instruction. Passes, the verifier, the interpreter and the text
form all work from these declarations. Instructions of the paper's Appendix B keep their names; DESIGN.md section 4 adds
the rest.

An instruction in a graph is never changed but replaced by another one, because graphs share instructions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from operator import attrgetter
from typing import Any, ClassVar, Literal, TypeVar, dataclass_transform

from sluice.ir.expression import Expr, Reg, registers
from sluice.lang.where import NOWHERE, Where


class Resource(Enum):
    """State that instructions share without naming it as an operand."""

    PACKET = "packet"  # the bytes of the unit
    TABLE = "table"  # which instances exist
    INSTANCE = "instance"  # the current instance: its presence and its fields
    SEQUENCE = "sequence"  # pieces, records and positions of the instance's sequences
    TIMER = "timer"  # the instance's deadline
    COUNTERS = "counters"
    CONTEXT = "context"  # slots: values that layers below stored
    OUTSIDE = "outside"  # functions on events and layers above
    NATIVE = "native"  # the state of native functions (C functions that a description calls)
    CLOCK = "clock"  # packet time, which moves before a packet is processed
    CACHE = "cache"  # what the processor has cached; a change of it changes no result


R = Resource

GRAPHS = (R.TABLE, R.INSTANCE, R.SEQUENCE, R.TIMER, R.COUNTERS, R.CONTEXT, R.OUTSIDE, R.NATIVE)
"""Resources that graphs which run inside an instruction may write: the graphs of layers above (which may share this
layer's table, as in a tunnel, and so its instances), and the graphs that drain and end instances.
"""

Role = Literal["write", "read", "block", "plain"]


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of a kind of instruction: its name, its role, whether it is a tuple, and the type of its items.

    `type` is Reg, Expr, int or str. A `read` of type Reg must stay a register (a mark).
    """

    name: str
    role: Role
    many: bool
    type: str


@dataclass(frozen=True, slots=True)
class Shape:
    """The operands of a kind of instruction, and accessors for the operands of one role."""

    operands: tuple[Operand, ...]
    written: Callable[[Any], tuple[Reg, ...]]
    expressions: Callable[[Any], tuple[Expr, ...]]
    targets: Callable[[Any], tuple[str, ...]]


def write() -> Any:
    """Declares an operand that is a register set by the instruction, or a tuple of registers."""
    return field(metadata={"role": "write"})


def read() -> Any:
    """Declares an operand that is an expression, or a tuple of expressions."""
    return field(metadata={"role": "read"})


def leads_to() -> Any:
    """Declares an operand that is the name of a possible next block."""
    return field(metadata={"role": "block"})


def _operands(cls: type[Instruction]) -> tuple[Operand, ...]:
    found: list[Operand] = []
    for item in dataclasses.fields(cls):
        if item.init and item.name != "where":
            text = str(item.type)
            many = text.startswith("tuple[")
            role: Role = item.metadata.get("role", "plain")
            found.append(Operand(item.name, role, many, text[6:].split(",")[0] if many else text))
    return tuple(found)


def _taker(operands: tuple[Operand, ...], role: Role) -> Callable[[Any], tuple[Any, ...]]:
    """A function that returns all values of the operands of one role, in order."""
    names = [item.name for item in operands if item.role == role]
    many = [item.many for item in operands if item.role == role]
    if not names:
        return _nothing
    take = attrgetter(*names)
    match many:
        case [True]:
            return take
        case [False]:
            return lambda instruction: (take(instruction),)
        case _ if not any(many):
            return take
        case _:

            def flat(instruction: Any) -> tuple[Any, ...]:
                values = zip(take(instruction), many, strict=True)
                return tuple(item for value, is_tuple in values for item in (value if is_tuple else (value,)))

            return flat


def _nothing(_: Any) -> tuple[Any, ...]:
    return ()


def _shape(cls: type[Instruction]) -> Shape:
    operands = _operands(cls)
    return Shape(operands, _taker(operands, "write"), _taker(operands, "read"), _taker(operands, "block"))


@dataclass(slots=True)
class Instruction:
    """Base of all instructions. `where` is the line of the description that it came from.

    NEEDS_INSTANCE: there must be a current instance. NEEDS_SEQUENCE: its layer must have a sequence. RUNS_GRAPHS:
    graphs of this or other layers run inside it.
    """

    SHAPE: ClassVar[Shape] = Shape((), _nothing, _nothing, _nothing)
    READS: ClassVar[frozenset[Resource]] = frozenset()
    WRITES: ClassVar[frozenset[Resource]] = frozenset()
    NEEDS_INSTANCE: ClassVar[bool] = False
    NEEDS_SEQUENCE: ClassVar[bool] = False
    RUNS_GRAPHS: ClassVar[bool] = False

    where: Where = field(default=NOWHERE, kw_only=True, compare=False)
    _read: tuple[Reg, ...] | None = field(default=None, init=False, repr=False, compare=False)

    def written(self) -> tuple[Reg, ...]:
        """Registers that it sets."""
        return self.SHAPE.written(self)

    def expressions(self) -> tuple[Expr, ...]:
        """Expressions that it evaluates."""
        return self.SHAPE.expressions(self)

    def read_registers(self) -> tuple[Reg, ...]:
        """Registers that its expressions read. The result is cached: every pass needs it, and instructions never
        change.
        """
        found = self._read
        if found is None:
            found = ()
            for expression in self.SHAPE.expressions(self):
                found += registers(expression)
            self._read = found
        return found

    def has_effect(self) -> bool:
        """Whether it does more than set its registers."""
        return bool(self.WRITES)


INSTRUCTIONS: dict[str, type[Instruction]] = {}

I = TypeVar("I", bound=Instruction)  # noqa: E741


@dataclass_transform(field_specifiers=(write, read, leads_to))
def effects(
    reads: tuple[Resource, ...] = (),
    writes: tuple[Resource, ...] = (),
    instance: bool = False,
    sequence: bool = False,
    runs: bool = False,
    keeps_slots: bool = False,
) -> Callable[[type[I]], type[I]]:
    """Class decorator that declares an instruction with its implicit reads and writes.

    instance, sequence: it needs one, and reads it. runs: graphs run inside it, so it writes the resources in GRAPHS.
    keeps_slots: the values that layers below stored for the packet are restored afterwards.
    """

    def declare(cls: type[I]) -> type[I]:
        made = dataclass(slots=True)(cls)
        needs = ((R.INSTANCE,) if instance else ()) + ((R.SEQUENCE,) if sequence else ())
        made.READS = frozenset(reads + needs)
        made.WRITES = frozenset(writes + (GRAPHS if runs else ())) - ({R.CONTEXT} if keeps_slots else set())
        made.NEEDS_INSTANCE = instance
        made.NEEDS_SEQUENCE = sequence
        made.RUNS_GRAPHS = runs
        made.SHAPE = _shape(made)
        INSTRUCTIONS[made.__name__] = made
        return made

    return declare
