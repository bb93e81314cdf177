"""The text form of programs: what people read and tests compare. `parse_graph(print_graph(g))` is g again.

    graph udp (local.unit:bytes)
    entry:
      mark.0:u32 = Assign(0)                              ; udp.py:12
      Check(mark.0, 8) yes: there, cut: end cut, short: end short

A name that does not read like one (it begins with a digit, has a comma in it, ...) stands in quotes.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple, cast

from sluice.ir.expression import (
    ARITHMETIC,
    COMPARISONS,
    MASK,
    Binary,
    Const,
    Expr,
    Flip,
    Length,
    Reg,
    Slice,
    Sum,
    quote,
    show,
)
from sluice.ir.graph import Block, Graph, LayerProgram, Program
from sluice.ir.instruction import INSTRUCTIONS, Instruction, Operand

_WORD = r"""[^\s,:;'"\\()]+"""
_BLOCK = rf"{_WORD}(?:[ :]{_WORD})*"
"""What the name of a block may be without quotes: words with single spaces or colons between them."""
_STRING = r"'(?:[^'\\]|\\.)*'"

# --- printing -----------------------------------------------------------------------------------------------


def _block_name(name: str) -> str:
    return name if re.fullmatch(_BLOCK, name) and name.isprintable() else quote(name)


def _type(reg: Reg) -> str:
    return f"{show(reg)}:{'bytes' if reg.is_bytes else f'u{reg.bits}'}"


def print_instruction(instruction: Instruction) -> str:
    """One line, without the line of the description."""
    arguments: list[str] = []
    targets: list[str] = []
    for operand in instruction.SHAPE.operands:
        value: object = getattr(instruction, operand.name)
        match operand.role:
            case "write":
                if operand.many:
                    arguments.append(f"#{len(cast(tuple[Reg, ...], value))}")
            case "read":
                arguments.append(_shown(value))
            case "block":
                targets.append(f"{operand.name}: {_block_name(str(value))}")
            case "plain":
                arguments.append(quote(value) if isinstance(value, str) else str(value))
    line = f"{instruction.__class__.__name__}({', '.join(arguments)})"
    written = instruction.written()
    if written:
        line = f"{', '.join(map(_type, written))} = {line}"
    if targets:
        line += " " + ", ".join(targets)
    return line


def _shown(value: object) -> str:
    """The text of an operand: an expression, or several in brackets."""
    if isinstance(value, tuple):
        return "[" + ", ".join(map(show, cast(tuple[Expr, ...], value))) + "]"
    return show(cast(Expr, value))


def print_graph(graph: Graph, lines: bool = True) -> str:
    """A graph as text; with `lines`, each instruction carries the line of the description it came from."""
    known = {reg.name for i in graph.instructions() for reg in i.written()}
    known.update(reg.name for reg in graph.parameters)
    outside = sorted((reg for name, reg in graph.registers().items() if name not in known), key=lambda reg: reg.name)
    header = f"graph {_block_name(graph.name)} ({', '.join(map(_type, graph.parameters))})"
    if outside:
        header += f" uses ({', '.join(map(_type, outside))})"
    out = [header]
    order = graph.order()
    for name in order + [name for name in graph.blocks if name not in order]:
        out.append(f"{_block_name(name)}:")
        for instruction in graph.blocks[name].instructions:
            text = "  " + print_instruction(instruction)
            if lines and instruction.where.line:
                text = f"{text:<90}  ; {_one_line(instruction.where.short)}"
            out.append(text)
    return "\n".join(out) + "\n"


def _one_line(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def print_layer(layer: LayerProgram, lines: bool = True) -> str:
    """A layer: what its instances hold, its sequence, and its graphs."""
    out = [f"layer {layer.name} (layer '{layer.layer}', parser '{layer.prototype}')"]
    if layer.instance is not None:
        key = ", ".join(f"{part.name}:{part.bits}" for part in layer.instance.key)
        ways = " both ways" if layer.instance.oriented else ""
        out.append(f"  instance of table {layer.instance.table}: key ({key}){ways}")
        for reg, init in layer.instance.fields:
            out.append(f"    {_type(reg)} = {init}")
    if layer.rules is not None:
        rules = layer.rules
        record = ", ".join(reg.name for reg in rules.record)
        kind = f"{'units, ' if rules.units else ''}{rules.width} bits"
        out.append(
            f"  sequence of {kind}, {'zero-based' if rules.linear else 'wrapping'}, "
            f"policy {rules.policy}{', whole' if rules.whole else ''}, limit {rules.limit} bytes, "
            f"record ({record})"
        )
    if layer.states:
        states = (
            state.name + (" accept" if state.accept else " closed" if state.closed else "") for state in layer.states
        )
        out.append("  states " + ", ".join(states))
    return "\n".join(out) + "\n" + "\n".join(print_graph(graph, lines) for graph in layer.graphs())


def print_program(program: Program, lines: bool = True) -> str:
    """A whole program."""
    roots = ", ".join(f"{'any' if kind is None else kind} -> {name}" for kind, name in program.roots)
    head = f"program {program.name}: {roots}; at most {program.depth} layers\n\n"
    return head + "\n".join(print_layer(layer, lines) for layer in program.layers.values())


# --- parsing ------------------------------------------------------------------------------------------------

_TOKEN = re.compile(
    rf"\s*(?:(?P<string>{_STRING})|(?P<number>\d+)|(?P<name>[^\W\d][\w.*#@]*)"
    r"|(?P<operator><<|>>|==|!=|<=|>=|[-+*/%&|^<>])(?:\.(?P<serial>\d+))?|(?P<mark>[()\[\],:#=]))"
)
_OPERATORS = frozenset(ARITHMETIC + COMPARISONS)
_REST = re.compile(r"\s*(?:;.*)?")


class IrSyntaxError(ValueError):
    """Text that is not of the IR."""


class _Token(NamedTuple):
    """A piece of a line: what kind of piece, its text (of a string: what it means), and where it ends."""

    kind: str
    text: str
    serial: int
    end: int


def unquote(text: str) -> str:
    """What a string of the text form means."""

    def character(match: re.Match[str]) -> str:
        if match[1] is not None:
            return chr(int(match[1], 16))
        return match[2]

    return re.sub(r"\\(?:u\{([0-9a-f]+)\}|(.))", character, text[1:-1])


class _Line:
    """Reads a line from left to right; a position that was passed does not come back."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def look(self) -> _Token | None:
        """The next token, None where there is no further one."""
        match = _TOKEN.match(self.text, self.at)
        if match is None:
            return None
        kind = "operator" if match["operator"] else match.lastgroup or ""
        text = unquote(match[kind]) if kind == "string" else match[kind]
        return _Token(kind, text, int(match["serial"] or 0), match.end())

    def next(self) -> _Token:
        """The next token, which must be there."""
        token = self.look()
        if token is None:
            rest = self.text[self.at :].strip()
            raise IrSyntaxError(f"cannot read '{rest}'" if rest else "the line ends too early")
        self.at = token.end
        return token

    def take(self, text: str) -> bool:
        """Pass over a mark, if it comes next; says whether it did."""
        token = self.look()
        if token is None or token.kind == "string" or token.text != text:
            return False
        self.at = token.end
        return True

    def expect(self, text: str) -> None:
        """Pass over a mark that must come next."""
        if self.take(text):
            return
        token = self.look()
        rest = self.text[self.at :].strip()
        if token is None and rest:
            raise IrSyntaxError(f"cannot read '{rest}'")
        raise IrSyntaxError(f"missing '{text}'" + (f" before '{rest}'" if rest else ""))

    def number(self) -> int:
        """A number, which must come next."""
        sign = -1 if self.take("-") else 1
        token = self.next()
        if token.kind != "number":
            raise IrSyntaxError(f"expected a number, found '{token.text}'")
        return sign * int(token.text)

    def block(self) -> str:
        """The name of a block, which must come next."""
        match = re.compile(rf"\s*(?:({_STRING})|({_BLOCK}))").match(self.text, self.at)
        if match is None:
            raise IrSyntaxError(f"expected the name of a block before '{self.text[self.at :].strip()}'")
        self.at = match.end()
        return unquote(match[1]) if match[1] is not None else match[2]

    def end(self) -> None:
        """Nothing may come any more but a comment."""
        if not _REST.fullmatch(self.text, self.at):
            raise IrSyntaxError(f"unexpected '{self.text[self.at :].strip()}'")

    def register(self) -> Reg:
        """A register with its type."""
        name = self.next()
        if name.kind not in ("name", "string"):
            raise IrSyntaxError(f"expected a register, found '{name.text}'")
        self.expect(":")
        kind = self.next().text
        match = re.fullmatch(r"bytes|u([1-9]\d*)", kind)
        if match is None:
            raise IrSyntaxError(f"'{kind}' is no type: 'bytes', or 'u' and the number of bits")
        return Reg(name.text, int(match[1] or 0))

    def registers(self, end: str) -> Iterator[Reg]:
        """Registers with their types, with commas between them, up to a mark."""
        while not self.take(end):
            yield self.register()
            if not self.take(","):
                self.expect(end)
                return


class _Reader:
    """Reads the instructions of one graph; registers are known by the types that the text gives them."""

    def __init__(self, types: dict[str, int]) -> None:
        self.types = types

    def expression(self, line: _Line) -> Expr:
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

    def _primary(self, line: _Line) -> Expr:
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

    def _binary(self, line: _Line) -> Expr:
        left = self.expression(line)
        operator = line.next()
        if operator.text not in _OPERATORS:
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
            case ["length" | "captured" | "sum"], _:
                raise IrSyntaxError(f"function '{name}' has other arguments than these {len(arguments)}")
            case _:
                raise IrSyntaxError(f"unknown function '{name}'")

    def _list(self, line: _Line, end: str) -> tuple[Expr, ...]:
        """Expressions with commas between them, up to a mark."""
        found: list[Expr] = []
        while not line.take(end):
            found.append(self.expression(line))
            if not line.take(","):
                line.expect(end)
                break
        return tuple(found)

    def instruction(self, text: str) -> Instruction:
        line = _Line(text)
        written = written_by(line)
        token = line.next()
        cls = INSTRUCTIONS.get(token.text) if token.kind == "name" else None
        if cls is None:
            if token.kind == "name" and line.take("("):
                raise IrSyntaxError(f"unknown instruction '{token.text}'")
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
        line.end()
        return cls(*values)

    def _arguments(self, line: _Line, operands: tuple[Operand, ...], written: list[Reg]) -> list[object]:
        """The values of all operands; those that name blocks, which come later, are None."""
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

    def _argument(self, line: _Line, operand: Operand, written: list[Reg]) -> object:
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


def written_by(line: _Line) -> list[Reg]:
    """The registers in front of the `=`, none where there is no `=`."""
    start = line.at
    token = line.look()
    if token is None:
        return []
    line.at = token.end
    typed = line.take(":")
    line.at = start
    return list(line.registers("=")) if typed else []


def parse_graph(text: str) -> Graph:
    """The graph that `print_graph` printed. Raises IrSyntaxError with the number of the line."""
    lines = text.split("\n")
    with _in_line(1):
        graph, uses = _head(lines[0])
    types = {reg.name: reg.bits for reg in graph.parameters + uses}
    for line in lines[1:]:
        if line.startswith(" "):
            # what is wrong with a line is told when it is its turn
            with suppress(IrSyntaxError):
                types.update((reg.name, reg.bits) for reg in written_by(_Line(line)))
    reader = _Reader(types)
    block: Block | None = None
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        with _in_line(number):
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
        raise IrSyntaxError("a graph without blocks")
    return graph


@contextmanager
def _in_line(number: int) -> Generator[None, None, None]:
    """What is wrong inside is wrong in line `number`."""
    try:
        yield
    except IrSyntaxError as error:
        raise IrSyntaxError(f"line {number}: {error}") from None


def _head(text: str) -> tuple[Graph, tuple[Reg, ...]]:
    """The graph, still without blocks, and the registers that it uses and neither gets nor sets."""
    line = _Line(text)
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
    """The block whose name a line gives."""
    line = _Line(text)
    name = line.block()
    line.expect(":")
    line.end()
    return Block(name)
