"""The text form of programs: what people read and tests compare. `parse_graph(print_graph(g))` is g again.

    graph udp (local.unit:bytes)
    entry:
      mark.0 = Assign(0)                                  ; udp.py:12
      Check(mark.0, 8) yes: there, cut: end cut, short: end short
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sluice.ir.expression import Binary, Const, Expr, Flip, Length, MASK, Reg, Slice, Sum, show
from sluice.ir.graph import Block, Graph, LayerProgram, Program
from sluice.ir.instruction import INSTRUCTIONS, Instruction

_TARGETS = ("to", "yes", "no", "cut", "short")


def _bits(reg: Reg) -> str:
    return f"{reg.name}:{'bytes' if reg.is_bytes else f'u{reg.bits}'}"


def print_instruction(instruction: Instruction) -> str:
    """One line, without the line of the description."""
    writes: list[str] = []
    arguments: list[str] = []
    targets: list[str] = []
    for name, role in [(o.name, "plain" if o.role == "block" else o.role) for o in instruction.SHAPE.operands]:
        value = getattr(instruction, name)
        if role == "write":
            writes += [_bits(reg) for reg in (value if isinstance(value, tuple) else (value,))]
            if isinstance(value, tuple):
                arguments.append(f"#{len(value)}")
        elif role == "read":
            if isinstance(value, tuple):
                arguments.append("[" + ", ".join(_typed(item) for item in value) + "]")
            else:
                arguments.append(_typed(value))
        elif name in _TARGETS and isinstance(value, str):
            targets.append(f"{name}: {value}")
        else:
            arguments.append(f"'{value}'" if isinstance(value, str) else str(value))
    line = f"{instruction.__class__.__name__}({', '.join(arguments)})"
    if writes:
        line = f"{', '.join(writes)} = {line}"
    if targets:
        line += " " + ", ".join(targets)
    return line


def _typed(expression: Expr) -> str:
    return show(expression)


def print_graph(graph: Graph, lines: bool = True) -> str:
    """A graph as text; with `lines`, each instruction carries the line of the description that it came from."""
    known = {reg.name for i in graph.instructions() for reg in i.written()} | {reg.name for reg in graph.parameters}
    outside = sorted((reg for name, reg in graph.registers().items() if name not in known), key=lambda reg: reg.name)
    header = f"graph {graph.name} ({', '.join(_bits(reg) for reg in graph.parameters)})"
    if outside:
        header += f" uses ({', '.join(_bits(reg) for reg in outside)})"
    out = [header]
    order = graph.order()
    for name in order + [name for name in graph.blocks if name not in order]:
        out.append(f"{name}:")
        for instruction in graph.blocks[name].instructions:
            text = "  " + print_instruction(instruction)
            if lines and instruction.where.line:
                text = f"{text:<90}  ; {instruction.where.short}"
            out.append(text.rstrip())
    return "\n".join(out) + "\n"


def print_layer(layer: LayerProgram, lines: bool = True) -> str:
    """A layer: what its instances hold, its sequence, and its graphs."""
    out = [f"layer {layer.name} (layer '{layer.layer}', parser '{layer.prototype}')"]
    if layer.instance is not None:
        key = ", ".join(f"{part.name}:{part.bits}" for part in layer.instance.key)
        out.append(f"  instance of table {layer.instance.table}: key ({key}){' both ways' if layer.instance.oriented else ''}")
        for reg, init in layer.instance.fields:
            out.append(f"    {_bits(reg)} = {init}")
    if layer.rules is not None:
        r = layer.rules
        out.append(
            f"  sequence of {r.width} bits, {'zero-based' if r.linear else 'wrapping'}, policy {r.policy}"
            f"{', whole' if r.whole else ''}, limit {r.limit} bytes, record ({', '.join(reg.name for reg in r.record)})"
        )
    if layer.states:
        out.append("  states " + ", ".join(s.name + (" accept" if s.accept else " closed" if s.closed else "") for s in layer.states))
    return "\n".join(out) + "\n" + "\n".join(print_graph(graph, lines) for graph in layer.graphs())


def print_program(program: Program, lines: bool = True) -> str:
    """A whole program."""
    roots = ", ".join(f"{'any' if kind is None else kind} -> {name}" for kind, name in program.roots)
    head = f"program {program.name}: {roots}; at most {program.depth} layers\n\n"
    return head + "\n".join(print_layer(layer, lines) for layer in program.layers.values())


# --- parsing ------------------------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"\s*(?:(?P<string>'[^']*')|(?P<number>\d+)|(?P<name>[A-Za-z_][\w.*#@]*)"
    r"|(?P<operator><<|>>|==|!=|<=|>=|[-+*/%&|^<>])(?:\.(?P<serial>\d+))?|(?P<mark>[()\[\],:#]))"
)


class IrSyntaxError(ValueError):
    """Text that is not of the IR."""


class _Tokens:
    def __init__(self, text: str) -> None:
        self.items: list[tuple[str, str, int]] = []
        at = 0
        text = text.strip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise IrSyntaxError(f"cannot read '{text[at:]}'")
            kind = match.lastgroup or ""
            if kind == "serial":
                kind = "operator"
            self.items.append((kind, match[kind], int(match["serial"] or 0)))
            at = match.end()
        self.at = 0

    def peek(self) -> str:
        return self.items[self.at][1] if self.at < len(self.items) else ""

    def kind(self) -> str:
        return self.items[self.at][0] if self.at < len(self.items) else ""

    def next(self) -> tuple[str, str, int]:
        if self.at >= len(self.items):
            raise IrSyntaxError("the line ends too early")
        self.at += 1
        return self.items[self.at - 1]

    def expect(self, what: str) -> None:
        found = self.next()[1]
        if found != what:
            raise IrSyntaxError(f"expected '{what}', found '{found}'")


class _Reader:
    """Reads one graph; registers are known by the types that the text gives them."""

    def __init__(self, types: dict[str, int]) -> None:
        self.types = types

    def expression(self, tokens: _Tokens) -> Expr:
        base = self._primary(tokens)
        while tokens.peek() == "[":
            tokens.next()
            low = self.expression(tokens)
            tokens.expect(":")
            high = Const(MASK) if tokens.peek() == "]" else self.expression(tokens)
            tokens.expect("]")
            base = Slice(base, low, high)
        return base

    def _primary(self, tokens: _Tokens) -> Expr:
        kind, text, _ = tokens.next()
        if kind == "number":
            return Const(int(text))
        if text == "(":
            left = self.expression(tokens)
            _, operator, serial = tokens.next()
            right = self.expression(tokens)
            tokens.expect(")")
            return Binary(operator, left, right, serial)
        if kind != "name":
            raise IrSyntaxError(f"unexpected '{text}'")
        if tokens.peek() == "(":
            tokens.next()
            arguments = [self.expression(tokens)]
            while tokens.peek() == ",":
                tokens.next()
                arguments.append(self.expression(tokens))
            tokens.expect(")")
            if text.startswith("flip."):
                return Flip(arguments[0], int(text[5:]))
            if text in ("length", "captured"):
                return Length(arguments[0], text == "captured")
            if text == "sum":
                return Sum(arguments[0], tuple(arguments[1:]))
            raise IrSyntaxError(f"unknown function '{text}'")
        if text not in self.types:
            raise IrSyntaxError(f"register '{text}' has no type")
        return Reg(text, self.types[text])

    def instruction(self, line: str) -> Instruction:
        match = re.match(r"(?:(?P<writes>[^=(]*?) = )?(?P<name>[A-Z]\w*)\((?P<rest>.*)$", line)
        if match is None:
            raise IrSyntaxError(f"not an instruction: '{line}'")
        cls = INSTRUCTIONS.get(match["name"])
        if cls is None:
            raise IrSyntaxError(f"unknown instruction '{match['name']}'")
        inside, targets = _split_targets(match["rest"])
        tokens = _Tokens(inside)
        written = iter([_parse_reg(item) for item in (match["writes"] or "").split(",") if item.strip()])
        values: list[object] = []
        for name, role in [(o.name, "plain" if o.role == "block" else o.role) for o in cls.SHAPE.operands]:
            if role == "write":
                annotation = str(cls.__dataclass_fields__[name].type)
                if annotation.startswith("tuple"):
                    self._comma(tokens)
                    tokens.expect("#")
                    values.append(tuple(next(written) for _ in range(int(tokens.next()[1]))))
                else:
                    values.append(next(written))
            elif name in _TARGETS and name in targets:
                values.append(targets[name])
            else:
                self._comma(tokens)
                values.append(self._argument(tokens, role))
        return cls(*values)

    def _comma(self, tokens: _Tokens) -> None:
        if tokens.peek() == ",":
            tokens.next()

    def _argument(self, tokens: _Tokens, role: str) -> object:
        if role == "read":
            if tokens.peek() == "[":
                tokens.next()
                items: list[Expr] = []
                while tokens.peek() != "]":
                    items.append(self.expression(tokens))
                    self._comma(tokens)
                tokens.expect("]")
                return tuple(items)
            return self.expression(tokens)
        kind, text, _ = tokens.next()
        return text[1:-1] if kind == "string" else int(text)


def _split_targets(rest: str) -> tuple[str, dict[str, str]]:
    """The argument text of `name(` and the targets behind the closing parenthesis."""
    depth, quoted = 1, False
    for at, letter in enumerate(rest):
        if letter == "'":
            quoted = not quoted
        elif not quoted and letter in "(":
            depth += 1
        elif not quoted and letter == ")":
            depth -= 1
            if depth == 0:
                break
    else:
        raise IrSyntaxError("missing ')'")
    found: dict[str, str] = {}
    pieces = re.split(r"(?:^|, )(to|yes|no|cut|short): ", rest[at + 1 :].strip())
    for name, target in zip(pieces[1::2], pieces[2::2], strict=True):
        found[name] = target
    return rest[:at], found


def _parse_reg(text: str) -> Reg:
    name, _, kind = text.strip().rpartition(":")
    return Reg(name, 0 if kind == "bytes" else int(kind[1:]))


def _registers(text: str) -> Iterator[Reg]:
    for item in text.split(","):
        if item.strip():
            yield _parse_reg(item)


def parse_graph(text: str) -> Graph:
    """The graph that `print_graph` printed. Raises IrSyntaxError with the number of the line."""
    lines = text.splitlines()
    head = re.match(r"graph (\S+) \((.*?)\)(?: uses \((.*?)\))?$", lines[0])
    if head is None:
        raise IrSyntaxError("line 1: a graph begins with 'graph NAME (PARAMETERS)'")
    parameters = tuple(_registers(head[2]))
    types = {reg.name: reg.bits for reg in (*parameters, *_registers(head[3] or ""))}
    cleaned = [re.sub(r"\s+; \S+:\d+$", "", line) for line in lines]
    for line in cleaned[1:]:
        match = re.match(r"  ([^=(]*?) = [A-Z]", line)
        if match is not None:
            types.update({reg.name: reg.bits for reg in _registers(match[1])})
    reader = _Reader(types)
    graph: Graph | None = None
    block: Block | None = None
    for number, line in enumerate(cleaned[1:], start=2):
        if not line.strip():
            continue
        if not line.startswith(" "):
            block = Block(line.rstrip(":"))
            if graph is None:
                graph = Graph(head[1], block.name, parameters)
            graph.blocks[block.name] = block
            continue
        if block is None:
            raise IrSyntaxError(f"line {number}: an instruction outside a block")
        try:
            block.instructions.append(reader.instruction(line.strip()))
        except (IrSyntaxError, StopIteration, ValueError) as error:
            raise IrSyntaxError(f"line {number}: {error}") from error
    if graph is None:
        raise IrSyntaxError("a graph without blocks")
    return graph
