"""Compiles graphs of the IR to Python closures over a frame, and what several instructions need for that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sluice.ir import instruction as ir
from sluice.ir.expression import Expr, Reg, is_bytes
from sluice.ir.graph import Block, Graph, InstanceLayout, KeyPart, Rules
from sluice.ir.interpreter.box import Box
from sluice.ir.interpreter.expressions import number, string, unset, value
from sluice.ir.interpreter.frame import Code, Frame, Operation
from sluice.ir.interpreter.layer_state import LayerState
from sluice.ir.interpreter.sequence import Sequence
from sluice.ir.interpreter.table import Key
from sluice.ir.interpreter.value import Bytes, InterpreterError

Maker = Callable[[Any, "Compiler"], Operation]
Kind = TypeVar("Kind", bound=ir.Instruction)

_MAKERS: dict[type[ir.Instruction], Maker] = {}


def makes(cls: type[Kind]) -> Callable[[Callable[[Kind, Compiler], Operation]], None]:
    """Decorator: how instructions of class `cls` are compiled."""

    def register(maker: Callable[[Kind, Compiler], Operation]) -> None:
        _MAKERS[cls] = maker

    return register


class Compiler:
    """Compiles the graphs of one layer of a box."""

    def __init__(self, box: Box, layer: LayerState) -> None:
        self.box = box
        self.layer = layer

    @property
    def rules(self) -> Rules:
        """The layer's sequence."""
        if self.layer.program.rules is None:
            raise InterpreterError(f"layer '{self.layer.program.name}' has no sequence")
        return self.layer.program.rules

    def graph(self, graph: Graph) -> Code:
        """A graph, by its entry. A block is compiled when it first runs, as packets reach few blocks of a stack."""
        codes = {name: Code(name) for name in graph.blocks}
        for name, block in graph.blocks.items():
            codes[name].follow = self._first_run(codes[name], block, codes)
        return codes[graph.entry]

    def _first_run(self, code: Code, block: Block, codes: dict[str, Code]) -> Callable[[Frame], Code | None]:
        def first(frame: Frame) -> Code | None:
            code.operations = tuple(self._operation(item) for item in block.body)
            code.follow = self._observed_end(block.terminator, self._terminator(block.terminator, codes))
            for operation in code.operations:
                operation(frame)
            return code.follow(frame)

        return first

    def _operation(self, instruction: ir.Instruction) -> Operation:
        maker = _MAKERS.get(type(instruction))
        if maker is None:
            raise InterpreterError(f"no instruction for a block's body: {type(instruction).__name__}")
        return self._observed(instruction, maker(instruction, self))

    def _observed(self, instruction: ir.Instruction, operation: Operation) -> Operation:
        observer, layer = self.box.observer, self.layer
        if observer is None:
            return operation

        def observed(frame: Frame) -> None:
            operation(frame)
            observer.executed(layer, instruction, frame)

        return observed

    def _observed_end(
        self, last: ir.Terminator, follow: Callable[[Frame], Code | None]
    ) -> Callable[[Frame], Code | None]:
        observer, layer = self.box.observer, self.layer
        if observer is None:
            return follow

        def observed(frame: Frame) -> Code | None:
            observer.decided(layer, last, frame)
            return follow(frame)

        return observed

    def _terminator(self, last: ir.Terminator, codes: dict[str, Code]) -> Callable[[Frame], Code | None]:
        match last:
            case ir.Goto():
                to = codes[last.to]
                return lambda frame: to
            case ir.Branch():
                condition, yes, no = number(last.condition), codes[last.yes], codes[last.no]
                return lambda frame: yes if condition(frame) else no
            case ir.Check():
                return _check(last, codes)
            case ir.CheckWire():
                mark, size = number(last.mark), number(last.size)
                yes, short = codes[last.yes], codes[last.short]
                return lambda frame: yes if mark(frame) + size(frame) <= frame.unit[1] else short
            case ir.End():
                return self._end(last.outcome)
            case ir.Again():
                return self._again(last.unit)
            case ir.Return():
                return _return(last.result)
            case _:
                raise InterpreterError(f"no terminator: {type(last).__name__}")

    def _again(self, again: Expr) -> Callable[[Frame], Code | None]:
        box, layer, unit = self.box, self.layer, string(again)

        def follow(frame: Frame) -> Code | None:
            box.enter_again(layer, unit(frame), frame)
            return None

        return follow

    def _end(self, outcome: str) -> Callable[[Frame], Code | None]:
        counters = self.layer.counters

        def follow(frame: Frame) -> Code | None:
            counters[outcome] += 1
            return None

        return follow


def _check(check: ir.Check, codes: dict[str, Code]) -> Callable[[Frame], Code | None]:
    mark, size = number(check.mark), number(check.size)
    yes, cut, short = codes[check.yes], codes[check.cut], codes[check.short]

    def follow(frame: Frame) -> Code | None:
        end = mark(frame) + size(frame)
        captured, length = frame.unit
        return yes if end <= len(captured) else cut if end <= length else short

    return follow


def _return(result: Expr) -> Callable[[Frame], Code | None]:
    compute = number(result)

    def follow(frame: Frame) -> Code | None:
        frame.result = compute(frame)
        return None

    return follow


def sequence_of(side: Expr) -> Callable[[Frame], Sequence]:
    """The sequence of a side of the current instance."""
    which = number(side)
    return lambda frame: frame.current.sequences[which(frame)]


def all_unset(registers: tuple[Reg, ...]) -> Operation:
    drops = [unset(register) for register in registers]

    def operation(frame: Frame) -> None:
        for drop in drops:
            drop(frame)

    return operation


def key_of_instance(parts: tuple[Expr, ...], layout: InstanceLayout | None) -> Callable[[Frame], Key]:
    assert layout is not None
    return key_of(parts, layout.key)


def key_of(parts: tuple[Expr, ...], kinds: tuple[KeyPart, ...]) -> Callable[[Frame], Key]:
    values = [
        _key_bytes(part, kind.bits // 8) if is_bytes(part) else value(part)
        for part, kind in zip(parts, kinds, strict=False)
    ]
    return lambda frame: tuple([part(frame) for part in values])


def _key_bytes(part: Expr, size: int) -> Callable[[Frame], Bytes]:
    """Bytes of a key are as many as it says; those that are not there are 0."""
    compute = string(part)
    return lambda frame: (compute(frame)[0][:size].ljust(size, b"\0"), size)
