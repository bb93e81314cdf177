"""Expressions of graphs, as instructions of eBPF."""

from __future__ import annotations

from sluice.codegen.bpf.assembler import MOVE
from sluice.codegen.bpf.errors import UndecidedError
from sluice.codegen.bpf.frame import FrameReader
from sluice.ir.expression import COMPARISONS, Binary, Const, Expr, Flip, Length, Reg, Slice

_OF_BITS = {"&&": "&", "||": "|"}
"""Both operands are bits, and evaluating them has no effects."""


class ExpressionWriter(FrameReader):
    """Writes expressions of numbers and bytes, of registers that have places."""

    def _number(self, expression: Expr) -> None:
        """Its value to register 0."""
        out = self.out
        match expression:
            case Const(value):
                self._constant(0, value)
            case Reg(name):
                self._get(self.places[name], 0)
            case Flip(operand, bits):
                self._number(operand)
                self._constant(1, (1 << bits) - 1)
                out.alu_register("&", 0, 1)
                out.alu_register("^", 0, 1)
            case Length(base):
                first, end, taken = self._bytes(base)
                self._get(end, 0)
                self._get(first, 1)
                out.alu_register("-", 0, 1)
                self.temporary -= taken
            case Binary(operator, left, right, 0):
                self._number(left)
                place = self._temporary()
                self._put(place)
                self._number(right)
                out.alu_register(MOVE, 1, 0)
                self._get(place, 0)
                self.temporary -= 8
                self._operate(operator)
            case _:
                raise UndecidedError

    def _operate(self, operator: str) -> None:
        """`register 0 operator register 1`, as ir.expression.calculate has it, to register 0."""
        out, end = self.out, self.out.new_label()
        operator = _OF_BITS.get(operator, operator)
        if operator in COMPARISONS:
            yes = out.new_label()
            out.jump_register(operator, 0, 1, yes)
            self._constant(0, 0)
            out.goto(end)
            out.label(yes)
            self._constant(0, 1)
        elif operator in ("<<", ">>", "%"):  # what the processor does not do: numbers without a result
            defined = out.new_label()
            out.jump("!=" if operator == "%" else "<", 1, 0 if operator == "%" else 64, defined)
            self._constant(0, 0)
            out.goto(end)
            out.label(defined)
            out.alu_register(operator, 0, 1)
        else:
            out.alu_register(operator, 0, 1)
        out.label(end)

    def _bytes(self, expression: Expr) -> tuple[int, int, int]:
        """Where it begins and ends: two places; and how many temporary bytes they take."""
        match expression:
            case Reg(name):
                return self.places[name], self.places[f"{name} end"], 0
            case Slice(base, low, high):
                places = self._temporary(), self._temporary()
                first, end, taken = self._bytes(base)
                self._limited(high, end, first)
                self._put(places[1])
                self._limited(low, places[1], first)
                self._put(places[0])
                self.temporary -= taken
                return *places, 16
            case _:
                raise UndecidedError

    def _limited(self, offset: Expr, most: int, first: int) -> None:
        """The place `first` + an offset, but at most `most`, to register 0."""
        within, end = self.out.new_label(), self.out.new_label()
        self._number(offset)
        self._get(most, 1)
        self._get(first, 2)
        self.out.alu_register("-", 1, 2)
        self.out.jump_register("<=", 0, 1, within)
        self.out.alu_register(MOVE, 0, 1)
        self.out.label(within)
        self.out.alu_register("+", 0, 2)
        self.out.label(end)
