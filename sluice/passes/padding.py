"""Padded lists: a list of options with the usual layout is recognised by few comparisons, and processed without a loop.

Options are padded to whole words. A sender that sends the same option with every packet puts the padding in front of
it, so that its value is aligned to a word (for TCP's timestamps, two NOPs and ten bytes: RFC 7323, appendix A). This
pass handles a list (`AnyUntil`) whose end is given by a header field, in units of a fixed number of bytes. It selects
one layout: the longest option of fixed length, with options of one byte in front as padding. If a packet's list has the
length of this layout, and the bytes that the layout prescribes, the packet takes a path that is specialised to these
bytes. Any other packet starts the list as before.

The path is found by symbolic execution of the list's own blocks with the prescribed bytes. If these bytes do not decide
a branch, or if an instruction does anything but read the packet, the list is not changed. The path continues after the
list as far as the length decides the branches: the check that the list is on the wire, and the position of the payload.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import gcd

from sluice.ir.copy import with_operands, with_targets
from sluice.ir.expression import Binary, Const, Expr, Reg, is_bit, registers, rewrite
from sluice.ir.graph import Block, Graph, LayerProgram, Program
from sluice.ir.instruction import Assign, Branch, Check, CheckWire, Goto, Instruction, Load, LoadBytes, Mark
from sluice.ir.simplify import simplify, simplify_node
from sluice.passes import dead_code
from sluice.passes.analysis.blocks import PURE, each_graph, fresh_names, loops
from sluice.passes.analysis.wide_compare import compares
from sluice.passes.constants import Facts, decide, evaluate, step

LONGEST = 64
"""The maximum number of bytes of a list: the reach of a length in words with four bits."""

STEPS = 512
"""The maximum number of blocks of a path through a list."""


def run(program: Program) -> Program:
    """The program with a path of its own for lists with the usual padding."""
    return each_graph(program, _change)


def _change(layer: LayerProgram, graph: Graph) -> bool:
    if graph.name != layer.main.name:
        return False
    changed = False
    for name in list(graph.blocks):
        found = _list(graph, name)
        if found is not None and (path := _padded(layer, graph, found)) is not None:
            _go_on(layer, graph, found, path)
            _write(graph, found, path)
            changed = True
    if changed:
        dead_code.change(layer, graph)
    return changed


# --- lists --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _List:
    """A list.

    head: the block that tests whether there are more items; item, done: its targets; entry: the only block from which
    the list is entered; inside: the blocks of its loop. here: the mark that moves through the list; start: the mark at
    its beginning, which is at byte `begin` of the unit. end: the expression for its end. lengths: the possible lengths
    in bytes, each with the field that determines it and the value of this field.
    """

    head: str
    item: str
    done: str
    entry: str
    inside: frozenset[str]
    here: Reg
    start: Reg
    begin: int
    end: Expr
    lengths: dict[int, tuple[Reg, int]]

    def facts(self, length: int) -> Facts:
        """What is known at the beginning of a list with this length."""
        facts = Facts()
        facts.set(self.here, Const(self.begin))
        if isinstance(self.end, Reg):
            facts.set(self.end, Const(self.begin + length))
        if length in self.lengths:
            source, value = self.lengths[length]
            facts.set(source, Const(value))
        return facts


def _list(graph: Graph, head: str) -> _List | None:
    """The list whose loop begins at a block; None if there is none, or if its end does not depend on a single field."""
    last = graph.blocks[head].instructions[0]
    bounds = list(_bounds(last.condition)) if isinstance(last, Branch) else []
    if not isinstance(last, Branch) or not bounds:
        return None
    loop = loops(graph).get(head, frozenset())
    predecessors = graph.predecessors()
    outside = [name for name in predecessors[head] if name not in loop]
    if last.yes not in loop or last.no in loop or len(outside) != 1:
        return None
    once = _set_once(graph)
    for here, end in bounds:
        start = _start(graph, predecessors, outside[0], here)
        begin = _position(once, start) if start is not None else None
        if start is None or begin is None:
            return None
        lengths = _lengths(once, end, begin)
        if lengths:
            return _List(head, last.yes, last.no, outside[0], loop, here, start, begin, end, lengths)
    return None


def _bounds(condition: Expr) -> Iterator[tuple[Reg, Expr]]:
    """The marks that a condition requires to lie before an expression, each with this expression."""
    match condition:
        case Binary("<", Reg() as here, end, 0) if here.space == "mark":
            yield here, end
        case Binary("&", left, right) if is_bit(left) and is_bit(right):
            yield from _bounds(right)
            yield from _bounds(left)
        case _:
            pass


def _set_once(graph: Graph) -> dict[str, Instruction]:
    """The registers that exactly one instruction sets, each with this instruction."""
    found: dict[str, Instruction] = {}
    more: set[str] = set()
    for instruction in graph.instructions():
        for reg in instruction.written():
            if reg.name in found:
                more.add(reg.name)
            found[reg.name] = instruction
    return {name: instruction for name, instruction in found.items() if name not in more}


def _start(graph: Graph, predecessors: dict[str, list[str]], block: str, here: Reg) -> Reg | None:
    """The mark that `here` is set to on the only path to the end of a block."""
    for _ in range(len(graph.blocks)):
        for instruction in reversed(graph.blocks[block].body):
            if here in instruction.written():
                match instruction:
                    case Mark(_, base, Const(0)):
                        return base
                    case _:
                        return None
        if len(predecessors[block]) != 1:
            return None
        (block,) = predecessors[block]
    return None


def _position(once: dict[str, Instruction], mark: Reg) -> int | None:
    """The position of a mark in the unit, in bytes, if it is constant."""
    match once.get(mark.name):
        case Assign(_, Const(value)):
            return value
        case Mark(_, base, Const(offset)):
            below = _position(once, base)
            return None if below is None else below + offset
        case _:
            return None


def _lengths(once: dict[str, Instruction], end: Expr, begin: int) -> dict[int, tuple[Reg, int]]:
    """The lengths that a list may have, each with the field that determines it and the value of this field."""
    mask = (1 << 64) - 1
    if isinstance(end, Reg):
        made = once.get(end.name)
        if not isinstance(made, Assign):
            return {}
        mask = (1 << end.bits) - 1
        end = made.value
    if len(set(registers(end))) != 1:
        return {}
    source = registers(end)[0]
    if source.bits > 8 or not isinstance(once.get(source.name), Load):
        return {}
    found: dict[int, tuple[Reg, int]] = {}
    for value in range(1 << source.bits):
        bound = rewrite(end, lambda node, value=value: Const(value) if node == source else simplify_node(node))
        length = (bound.value & mask) - begin if isinstance(bound, Const) else None
        if length is None or length in found:
            return {}
        if 0 <= length < LONGEST:
            found[length] = source, value
    return found


# --- the path through a list --------------------------------------------------------------------------------


@dataclass
class _Path:
    """The path through a list with certain bytes.

    known: these bytes, by their offset in the list; instructions: those on the path, with marks relative to the
    beginning of the list; size: the bytes that were passed; facts: what is known at its end; to: the block where it
    joins other paths.
    """

    known: dict[int, int]
    instructions: list[Instruction] = field(default_factory=lambda: [])
    size: int = 0
    facts: Facts = field(default_factory=Facts)
    to: str = ""


def _padded(layer: LayerProgram, graph: Graph, found: _List) -> _Path | None:
    """The path through the longest option of fixed length, with padding in front."""
    sizes: dict[int, int] = {}
    for first in _firsts(graph, found):
        path = _Walk(layer, graph, found, LONGEST, {0: first}).item()
        if path is not None and path.size:
            sizes[first] = path.size
    word = gcd(*found.lengths)
    pads = [first for first, size in sizes.items() if size == 1 and first]  # kind 0 pads at the end of a list
    for first, size in sorted(sizes.items(), key=lambda item: -item[1]):
        missing = -size % word if word else 0
        if size == 1 or size + missing not in found.lengths or (missing and not pads):
            continue
        known = {**dict.fromkeys(range(missing), pads[0] if pads else 0), missing: first}
        path = _Walk(layer, graph, found, size + missing, known).all()
        if path is not None:
            return path
    return None


def _firsts(graph: Graph, found: _List) -> list[int]:
    """The values that the first byte of an option is compared with."""
    blocks = [graph.blocks[name] for name in graph.blocks if name in found.inside]
    kinds = {
        i.target
        for block in blocks
        for i in block.instructions
        if isinstance(i, Load) and (i.mark, i.at, i.bits) == (found.here, 0, 8)
    }
    values: dict[int, None] = {}
    for block in blocks:
        match block.terminator:
            case Branch(Binary("==", Reg() as kind, Const(value))) if kind in kinds:
                values[value] = None
            case _:
                pass
    return list(values)


class _Walk:
    """Executes the blocks of a list with a given length, of which some bytes are known."""

    def __init__(self, layer: LayerProgram, graph: Graph, found: _List, length: int, known: dict[int, int]) -> None:
        self.layer = layer
        self.graph = graph
        self.list = found
        self.length = length
        self.facts = found.facts(length)
        self.path = _Path(dict(known))
        self.read: dict[str, int] = {}  # registers that hold a byte of the list, with its offset

    def item(self) -> _Path | None:
        """The path through the first option."""
        return self._go(self.list.item, self.list.head)

    def all(self) -> _Path | None:
        """The path through the whole list, if its options fill it."""
        path = self._go(self.list.head, self.list.done)
        if path is None or path.size != self.length:
            return None
        path.instructions = [self._settled(instruction) for instruction in path.instructions]
        path.facts = self.facts
        path.to = self.list.done
        return path

    def _go(self, name: str, to: str) -> _Path | None:
        for _ in range(STEPS):
            block = self.graph.blocks[name]
            if not all(self._pass(instruction) for instruction in block.body):
                return None
            following = self._decide(block)
            if following is None or following not in self.list.inside | {to}:
                return None
            if following == to:
                end = self._place(self.list.here)
                self.path.size = -1 if end is None else end
                return self.path
            name = following
        return None

    def _place(self, mark: Reg) -> int | None:
        """The position of a mark, relative to the beginning of the list."""
        value = self.facts.look_up(mark)
        return value.value - self.list.begin if isinstance(value, Const) else None

    def _pass(self, instruction: Instruction) -> bool:
        """Record an instruction on the path; returns whether it may run before the others."""
        if not isinstance(instruction, PURE):
            return False
        for reg in instruction.written():
            self.read.pop(reg.name, None)
        instruction = evaluate(self.layer, instruction, self.facts)
        match instruction:
            case Load(target, mark, at, bits):
                place = self._place(mark)
                if place is None:
                    return False
                placed = with_operands(instruction, mark=self.list.start, at=8 * place + at)
                value = self._value(placed)
                if bits == 8 and placed.at % 8 == 0 and value is None:
                    self.read[target.name] = placed.at // 8
                if value is not None:
                    placed = Assign(target, Const(value), where=instruction.where)
            case LoadBytes(_, mark, at, Const()):
                place = self._place(mark)
                if place is None:
                    return False
                placed = with_operands(instruction, mark=self.list.start, at=place + at)
            case Mark(target):
                step(self.layer, instruction, self.facts)
                place = self._place(target)
                if place is None:
                    return False
                self.path.instructions.append(Mark(target, self.list.start, Const(place), where=instruction.where))
                return True
            case Assign():
                placed = instruction
            case _:
                return False
        self.path.instructions.append(placed)
        step(self.layer, placed, self.facts)
        return True

    def _value(self, load: Load) -> int | None:
        """The value of a load relative to the beginning of the list, if its bytes are known."""
        first, beyond = load.at // 8, (load.at + load.bits + 7) // 8
        if not all(place in self.path.known for place in range(first, beyond)):
            return None
        order = "little" if load.order == "little" else "big"
        number = int.from_bytes(bytes(self.path.known[place] for place in range(first, beyond)), order)
        return number >> (8 * beyond - load.at - load.bits) & ((1 << load.bits) - 1)

    def _decide(self, block: Block) -> str | None:
        """The block after this one. A comparison with a byte that is not known yet may make that byte a known one."""
        last = decide(evaluate(self.layer, block.terminator, self.facts))  # pyright: ignore[reportArgumentType]
        match last:
            case Goto(target):
                return target
            case Check(mark, Const(size), yes):
                place = self._place(mark)
                return yes if place is not None and place + size <= self.length else None
            case Branch(Binary("==", Reg() as byte, Const(value)), yes) if byte.name in self.read and value < 256:
                if self.path.known.setdefault(self.read.pop(byte.name), value) != value:
                    return None
                self.facts.set(byte, Const(value))
                return yes
            case _:
                return None

    def _settled(self, instruction: Instruction) -> Instruction:
        """The instruction, or the assignment of a constant if it loads bytes that became known after it."""
        if isinstance(instruction, Load) and (value := self._value(instruction)) is not None:
            return Assign(instruction.target, Const(value), where=instruction.where)
        return instruction


def _go_on(layer: LayerProgram, graph: Graph, found: _List, path: _Path) -> None:
    """Extend the path beyond the end of the list, as far as the list's length decides the branches."""
    checked = found.begin + path.size  # bytes of the unit that are there
    for _ in range(STEPS):
        block = graph.blocks[path.to]
        if not all(isinstance(i, PURE) and found.start not in i.written() for i in block.body):
            return
        facts = path.facts.copy()
        body: list[Instruction] = []
        for instruction in block.body:
            body.append(evaluate(layer, instruction, facts))
            step(layer, body[-1], facts)
        match decide(evaluate(layer, block.terminator, facts)):  # pyright: ignore[reportArgumentType]
            case Goto(to):
                pass
            case Check(mark, Const(size), to) | CheckWire(mark, Const(size), to):
                place = Const(found.begin) if mark == found.start else facts.look_up(mark)
                if not isinstance(place, Const) or place.value + size > checked:
                    return
            case _:
                return
        path.instructions += body
        path.facts, path.to = facts, to


def _write(graph: Graph, found: _List, path: _Path) -> None:
    """Insert the tests that send a list with the bytes of `way` to its path."""
    wanted = {found.begin + place: (255, value) for place, value in path.known.items()}
    asked = graph.blocks[found.head].terminator
    words = compares(wanted, found.begin + path.size, found.start, found.begin, asked)
    more = fresh_names(graph)[found.head]
    name, *names = [next(more) for _ in range(len(words) + 3)]
    entry = graph.blocks[found.entry]
    entry.instructions[-1] = with_targets(entry.terminator, lambda to: name if to == found.head else to)
    as_long = Binary("==", found.end, Const(found.begin + path.size))
    graph.blocks[name] = Block(name, [Branch(as_long, names[0], found.head, where=asked.where)])
    check = Check(found.start, Const(path.size), names[1], found.head, found.head, where=asked.where)
    graph.blocks[names[0]] = Block(names[0], [check])
    for here, following, (load, holds) in zip(names[1:], names[2:], words, strict=False):
        graph.blocks[here] = Block(here, [load, Branch(simplify(holds), following, found.head, where=asked.where)])
    graph.blocks[names[-1]] = Block(names[-1], [*path.instructions, Goto(path.to, where=asked.where)])
