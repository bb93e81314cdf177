"""A graph that has been made ready to run, and what it works on while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sluice.ir.interpreter.table import Instance
from sluice.ir.interpreter.value import (
    Bytes,
    InterpreterError,
    NoInstance,
    NoStrings,
    Registers,
    ZeroNumbers,
)

BLOCKS_MAX = 10_000_000
"""A graph that runs through more blocks than this does not end."""

NOWHERE: Registers[int] = NoInstance()


class Context:
    """The slots in which layers leave values for those above: one for each packet, and for each end of an
    instance that is not the packet's own. Those are `empty`: what was not left reads as 0.
    """

    __slots__ = ("numbers", "strings")

    def __init__(self, empty: bool = False) -> None:
        self.numbers: Registers[int] = ZeroNumbers() if empty else Registers()
        self.strings: Registers[Bytes] = NoStrings() if empty else Registers()

    def copy(self) -> Context:
        """The same values; what is left here from now on is not seen there."""
        made = Context()
        made.numbers, made.strings = type(self.numbers)(self.numbers), type(self.strings)(self.strings)
        return made


@dataclass(frozen=True, slots=True)
class Stream:
    """Whose bytes a message is made of: an instance of a layer below, and the side that sent it."""

    instance: Instance
    side: int


class Frame:
    """One run of a graph: its registers by kind, unit, current instance, how deep layers are nested, the stream that
    a message came from.
    """

    __slots__ = ("context", "depth", "fields", "instance", "numbers", "result", "stream", "strings", "unit")

    def __init__(self, unit: Bytes, context: Context, depth: int, stream: Stream | None = None) -> None:
        self.unit = unit
        self.context = context
        self.depth = depth
        self.stream = stream
        self.numbers: Registers[int] = Registers()
        self.strings: Registers[Bytes] = Registers()
        self.instance: Instance | None = None
        self.fields = NOWHERE
        self.result = 0

    def use(self, instance: Instance | None) -> None:
        """Make an instance the current one."""
        self.instance = instance
        self.fields = NOWHERE if instance is None else instance.fields

    @property
    def current(self) -> Instance:
        """The current instance, which must be there."""
        if self.instance is None:
            raise InterpreterError("there is no instance")
        return self.instance


Number = Callable[[Frame], int]
String = Callable[[Frame], Bytes]
Operation = Callable[[Frame], None]


class Code:
    """A block: what it does, and which one follows (None: the graph ends)."""

    __slots__ = ("follow", "name", "operations")

    def __init__(self, name: str) -> None:
        self.name = name
        self.operations: tuple[Operation, ...] = ()
        self.follow: Callable[[Frame], Code | None] = _unfinished


def _unfinished(frame: Frame) -> Code | None:
    raise InterpreterError("a block without a terminator")


def run(entry: Code, frame: Frame) -> int:
    """Run a graph to its end, and return its result."""
    code: Code | None = entry
    blocks = 0
    while code is not None:
        for operation in code.operations:
            operation(frame)
        code = code.follow(frame)
        blocks += 1
        if blocks > BLOCKS_MAX:
            raise InterpreterError("a graph does not end")
    return frame.result
