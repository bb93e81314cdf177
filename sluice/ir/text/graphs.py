"""Parses graphs of the text form."""

from __future__ import annotations

from contextlib import suppress

from sluice.ir.expression import MASK, Binary, Const, Crc, Expr, Flip, Length, Octet, Reg, Slice, Sum
from sluice.ir.graph import Block, Graph
from sluice.ir.instruction import INSTRUCTIONS, Instruction, Operand
from sluice.ir.text.line import OPERATORS, IrSyntaxError, Line, in_line, written_by
from sluice.lang.errors import did_you_mean


class _Reader:
    """Parses the instructions of one graph. The text declares the types of the registers."""

    def __init__(self, types: dict[str, int]) -> None:
        self.types = types

    def expression(self, line: Line) -> Expr:
        base = self._primary(line)
        while line.take("["):
            low = self.expression(line)
            line.expect(":")
            if line.take("]"):
                base = Slice(base, low, Const(MASK))
            else:
                base = Slice(base, low, self.expression(line))
                line.expect("]")
        return base

    def _primary(self, line: Line) -> Expr:
        token = line.next()
        if token.kind == "number":
            return Const(int(token.text))
        if token.kind == "mark" and token.text == "(":
            return self._binary(line)
        if token.kind not in ("name", "string"):
            raise IrSyntaxError(f"unexpected '{token.text}'")
        if token.kind == "name" and line.take("("):
            return self._function(token.text, self._list(line, ")"))
        if token.text not in self.types:
            raise IrSyntaxError(f"register '{token.text}' has no type")
        return Reg(token.text, self.types[token.text])

    def _binary(self, line: Line) -> Expr:
        left = self.expression(line)
        operator = line.next()
        if operator.text not in OPERATORS:
            raise IrSyntaxError(f"expected an operator, found '{operator.text}'")
        right = self.expression(line)
        line.expect(")")
        return Binary(operator.text, left, right, operator.serial)

    def _function(self, name: str, arguments: tuple[Expr, ...]) -> Expr:
        match name.split("."), arguments:
            case ["flip", bits], (operand,) if bits.isdecimal():
                return Flip(operand, int(bits))
            case ["length" | "captured"], (data,):
                return Length(data, name == "captured")
            case ["sum"], (data, *pseudo):
                return Sum(data, tuple(pseudo))
            case ["crc32c"], (data, Const(value=low), Const(value=high)):
                return Crc(data, low, high)
            case ["octet"], (data, at):
                return Octet(data, at)
            case ["length" | "captured" | "sum" | "crc32c" | "octet"], _:
                raise IrSyntaxError(f"function '{name}' has other arguments than these {len(arguments)}")
            case _:
                raise IrSyntaxError(f"unknown function '{name}'")

    def _list(self, line: Line, end: str) -> tuple[Expr, ...]:
        """Expressions separated by commas, up to the mark `end`."""
        found: list[Expr] = []
        while not line.take(end):
            found.append(self.expression(line))
            if not line.take(","):
                line.expect(end)
                break
        return tuple(found)

    def instruction(self, text: str) -> Instruction:
        line = Line(text)
        written = written_by(line)
        token = line.next()
        cls = INSTRUCTIONS.get(token.text) if token.kind == "name" else None
        if cls is None:
            if token.kind == "name" and line.take("("):
                raise IrSyntaxError(f"unknown instruction '{token.text}': {did_you_mean(token.text, INSTRUCTIONS)}")
            raise IrSyntaxError(f"not an instruction: '{text.strip()}'")
        line.expect("(")
        values = self._arguments(line, cls.SHAPE.operands, written)
        line.expect(")")
        first = True
        for place, operand in enumerate(cls.SHAPE.operands):
            if operand.role == "block":
                if not first:
                    line.expect(",")
                line.expect(operand.name)
                line.expect(":")
                values[place] = line.block()
                first = False
        return cls(*values, where=line.end())

    def _arguments(self, line: Line, operands: tuple[Operand, ...], written: list[Reg]) -> list[object]:
        """The values of all operands. Operands that name blocks come later in the line; their values are None."""
        values: list[object] = []
        first = True
        for operand in operands:
            if operand.role == "block" or (operand.role == "write" and not operand.many):
                if operand.role == "write" and not written:
                    raise IrSyntaxError(f"no register for operand '{operand.name}' stands before the '='")
                values.append(None if operand.role == "block" else written.pop(0))
                continue
            if not first:
                line.expect(",")
            first = False
            values.append(self._argument(line, operand, written))
        if written:
            raise IrSyntaxError(f"the instruction does not set '{written[0].name}'")
        return values

    def _argument(self, line: Line, operand: Operand, written: list[Reg]) -> object:
        match operand.role, operand.many:
            case "write", _:
                line.expect("#")
                count = line.number()
                if count > len(written):
                    raise IrSyntaxError(f"{count} registers for '{operand.name}', {len(written)} are there")
                taken = tuple(written[:count])
                del written[:count]
                return taken
            case "read", True:
                line.expect("[")
                return self._list(line, "]")
            case "read", False:
                return self.expression(line)
            case _:
                if operand.type == "int":
                    return line.number()
                token = line.next()
                if token.kind != "string":
                    raise IrSyntaxError(f"operand '{operand.name}' is text, found '{token.text}'")
                return token.text


def parse_graph(text: str) -> Graph:
    """Parses the output of `print_graph`. Raises IrSyntaxError with the number of the line."""
    return read_graph(list(enumerate(text.split("\n"), start=1)))


def read_graph(lines: list[tuple[int, str]]) -> Graph:
    """A graph from its numbered lines, of which the first is its head."""
    with in_line(lines[0][0]):
        graph, uses = _head(lines[0][1])
    types = {reg.name: reg.bits for reg in graph.parameters + uses}
    for _, line in lines[1:]:
        if line.startswith(" "):
            # errors of a line are reported when the line itself is parsed
            with suppress(IrSyntaxError):
                types.update((reg.name, reg.bits) for reg in written_by(Line(line)))
    reader = _Reader(types)
    block: Block | None = None
    for number, line in lines[1:]:
        if not line.strip():
            continue
        with in_line(number):
            if line.startswith(" "):
                if block is None:
                    raise IrSyntaxError("an instruction outside a block")
                block.instructions.append(reader.instruction(line))
                continue
            block = _label(line)
            if block.name in graph.blocks:
                raise IrSyntaxError(f"there is a block '{block.name}' already")
            if not graph.blocks:
                graph.entry = block.name
            graph.blocks[block.name] = block
    if not graph.blocks:
        raise IrSyntaxError(f"line {lines[0][0]}: a graph without blocks: 'NAME:' begins one, its instructions follow")
    return graph


def _head(text: str) -> tuple[Graph, tuple[Reg, ...]]:
    """The graph without blocks, and the registers that it uses but neither receives nor sets."""
    line = Line(text)
    if not line.take("graph"):
        raise IrSyntaxError("a graph begins with 'graph NAME (PARAMETERS)'")
    name = line.block()
    line.expect("(")
    parameters = tuple(line.registers(")"))
    uses: tuple[Reg, ...] = ()
    if line.take("uses"):
        line.expect("(")
        uses = tuple(line.registers(")"))
    line.end()
    return Graph(name, "", parameters), uses


def _label(text: str) -> Block:
    """The block whose name is on a line."""
    line = Line(text)
    name = line.block()
    line.expect(":")
    line.end()
    return Block(name)
