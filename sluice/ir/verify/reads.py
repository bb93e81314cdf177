"""Rule: every read of the packet is dominated by a length check that covers it.

Two kinds of facts flow. One is how many bytes after a mark were captured: a number, or exactly the value of an
expression. The other is the distance between two marks, so that one check at a mark also covers reads at later marks. A
fact is dropped when its mark, or a register of its expression, is set again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from sluice.ir.dataflow import forward, hidden_writes
from sluice.ir.expression import Const, Expr, Reg, registers
from sluice.ir.graph import Block
from sluice.ir.instruction import Assign, Check, Instruction, Load, LoadBytes, LoadVarint, Mark
from sluice.ir.verify.subject import Subject

RULE = "packet reads"


@dataclass
class Covered:
    """What is known to have been captured.

    least: the number of bytes after a mark. exact: (mark, size): as many bytes as the expression says. offsets: (mark,
    base, n): the mark is n bytes after base.
    """

    least: dict[str, int] = field(default_factory=lambda: {})
    exact: set[tuple[str, Expr]] = field(default_factory=lambda: set())
    offsets: set[tuple[str, str, int]] = field(default_factory=lambda: set())

    def copy(self) -> Covered:
        return Covered(dict(self.least), set(self.exact), set(self.offsets))

    def meet(self, other: Covered) -> Covered:
        """The facts that hold on both of two paths."""
        least = {name: min(size, other.least[name]) for name, size in self.least.items() if name in other.least}
        return Covered(least, self.exact & other.exact, self.offsets & other.offsets)

    def add(self, mark: str, size: Expr) -> None:
        """A check found `size` bytes after `mark`.

        The fact also applies to later marks, but not to earlier ones: the position and the distance of an earlier mark
        may have wrapped.
        """
        self._add(mark, size)
        for later, base, distance in list(self.offsets):
            if base != mark:
                continue
            if isinstance(size, Const):
                self._add(later, Const(max(0, size.value - distance)))
            elif distance == 0:
                self._add(later, size)

    def _add(self, mark: str, size: Expr) -> None:
        if not isinstance(size, Const):
            self.exact.add((mark, size))
        elif size.value > self.least.get(mark, 0):
            self.least[mark] = size.value

    def forget(self, register: Reg) -> None:
        """Drop the facts about a register that is set again."""
        name = register.name
        if register.space == "mark":
            self.least.pop(name, None)
            self.offsets = {item for item in self.offsets if name not in item[:2]}
        self._forget_sizes(lambda reg: reg.name == name, name)

    def forget_spaces(self, spaces: tuple[str, ...]) -> None:
        """Drop the facts about registers whose names have one of these prefixes."""
        self._forget_sizes(lambda reg: reg.name.startswith(spaces))

    def _forget_sizes(self, changed: Callable[[Reg], bool], mark: str = "") -> None:
        if self.exact:
            self.exact = {
                item for item in self.exact if item[0] != mark and not any(changed(reg) for reg in registers(item[1]))
            }

    def move(self, register: Reg, base: str, distance: int) -> None:
        """Mark `register` becomes the position `distance` bytes after `base`."""
        target = register.name
        least = self.least.get(base, 0) - distance
        exact = [size for mark, size in self.exact if mark == base] if distance == 0 else []
        known = [(base, distance)] + [(far, n + distance) for mark, far, n in self.offsets if mark == base]
        self.forget(register)
        if least > 0:
            self.least[target] = least
        self.exact |= {(target, size) for size in exact if all(reg.name != target for reg in registers(size))}
        self.offsets |= {(target, far, n) for far, n in known if far != target}

    def step(self, instruction: Instruction, written: tuple[Reg, ...]) -> None:
        """Update the facts after an instruction that sets the registers `written`."""
        spaces = hidden_writes(type(instruction))
        if spaces:
            self.forget_spaces(spaces)
        match instruction:
            case Mark(target, base, Const(distance)):
                self.move(target, base.name, distance)
            case Assign(target, Reg() as base) if target.space == base.space == "mark":
                self.move(target, base.name, 0)
            case _:
                for reg in written:
                    self.forget(reg)


def check(subject: Subject) -> None:
    """Refuses reads of bytes that may not have been captured."""

    def flow(block: Block, known: Covered) -> Iterator[tuple[str, Covered]]:
        after = known.copy()
        for step in subject.steps[block.name]:
            after.step(step.instruction, step.written)
        last = block.terminator
        if isinstance(last, Check):
            there = after.copy()
            there.add(last.mark.name, last.size)
            yield last.yes, there
            yield last.cut, after
            yield last.short, after
        else:
            for target in last.targets():
                yield target, after

    for name, known in forward(subject.graph, Covered(), flow, Covered.meet).items():
        now = known.copy()
        for block, instruction, written, _ in subject.steps[name]:
            problem = _problem(instruction, now)
            if problem is not None:
                subject.fail(RULE, problem, block, instruction)
            now.step(instruction, written)


def _problem(instruction: Instruction, known: Covered) -> str | None:
    """The bytes that an instruction reads without a check, as an error; None if all are covered."""
    match instruction:
        case Load(_, mark, at, bits, _):
            return _missing(mark, (at + bits + 7) // 8, known)
        case LoadBytes(_, _, _, Const(0)):
            return None
        case LoadVarint(_, mark, Const(size)):
            return _missing(mark, size, known)
        case LoadVarint(_, mark, size):
            return _uncovered(mark, size, known)
        case LoadBytes(_, mark, at, Const(size)):
            return _missing(mark, at + size, known)
        case LoadBytes(_, mark, at, size):
            return _uncovered(mark, size, known, at)
        case _:
            return None


def _uncovered(mark: Reg, size: Expr, known: Covered, at: int = 0) -> str | None:
    if at == 0 and (mark.name, size) in known.exact:
        return None
    return f"no length check at {mark.name} covers the size that it reads"


def _missing(mark: Reg, size: int, known: Covered) -> str | None:
    least = known.least.get(mark.name, 0)
    if size <= least:
        return None
    return f"reads {size} bytes after {mark.name}, where a length check covers {least}"
