"""Control flow as C: a graph of blocks becomes nested ifs where its structure allows this, and goto elsewhere.

A chain of tests of one number against constants becomes a switch: a processor predicts each compare of a chain alone.

A block with one predecessor is written where its predecessor branches to it. A block where several paths meet is
written after the block that dominates it, under a label (after Ramsey, Beyond Relooper, ICFP 2022, with goto for
break).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sluice.ir.dataflow import immediate_dominators
from sluice.ir.graph import Block, Graph
from sluice.ir.instruction import Terminator

CASES = 5
"""The least number of tests of one number that become a switch."""


@dataclass
class Line:
    """A line of C, indented by `level`."""

    level: int
    text: str


@dataclass
class _Switch:
    """Tests of one number: the blocks that test it in sequence, the target of each constant, and the default target."""

    subject: str
    cases: dict[str, str]
    default: str
    heads: list[str]


class Structure:
    """Writes one graph.

    `body` gives the C of the instructions of a block. `branch` gives the (condition, target) pairs of a terminator; the
    last has None for its condition. `finish` gives the C of a terminator that leaves the graph. `case` gives, for a
    terminator that only tests whether a number equals a constant, the C of both; else None. `chosen` gets a terminator
    and its first target, a block that continues with the second target. It gives their C if they need no branch; else
    None.
    """

    def __init__(
        self,
        graph: Graph,
        body: Callable[[Block], list[str]],
        branch: Callable[[Terminator], list[tuple[str | None, str]]],
        finish: Callable[[Terminator], list[str]],
        label: Callable[[str], str],
        case: Callable[[Terminator], tuple[str, str] | None],
        chosen: Callable[[Terminator, Block], str | None],
    ) -> None:
        self.graph = graph
        self.body = body
        self.branch = branch
        self.finish = finish
        self.label = label
        self.case = case
        self.chosen = chosen
        self.order = graph.order()
        self.number = {name: index for index, name in enumerate(self.order)}
        before = graph.predecessors()
        self.merges = {name for name in self.order if len(before[name]) > 1}
        self.merges |= {name for name in self.order for p in before[name] if self.number[p] >= self.number[name]}
        dominator = immediate_dominators(graph, self.order)
        self.children: dict[str, list[str]] = {name: [] for name in self.order}
        for name in self.order:
            if name in dominator and name in self.merges:
                self.children[dominator[name]].append(name)
        self.used: set[str] = set()

    def lines(self) -> list[Line]:
        """The whole graph as lines of C."""
        out = self._tree(self.graph.entry, None, 1)
        return [line for line in out if not line.text.startswith("@") or line.text[1:] in self.used] and [
            Line(0, self.label(line.text[1:]) + ":;") if line.text.startswith("@") else line
            for line in out
            if not line.text.startswith("@") or line.text[1:] in self.used
        ]

    def _tree(self, name: str, follow: str | None, level: int) -> list[Line]:
        """Block `name` and what it dominates; `follow` is the block that is written next."""
        out: list[Line] = []
        if name in self.merges:
            out.append(Line(0, "@" + name))
        block = self.graph.blocks[name]
        out += [Line(level, text) for text in self.body(block)]
        switch = self._switched(name)
        # The blocks that a chain dominates follow the switch, those of its last block first, as they would follow
        # nested ifs.
        heads = switch.heads if switch is not None else [name]
        children = [child for head in reversed(heads) for child in self.children[head]]
        inner = children[0] if children else follow
        if switch is not None:
            out += self._switch(switch, inner, level)
        elif (text := self._chosen(block)) is not None:
            out.append(Line(level, text))
            out += self._to(block.terminator.targets()[1], inner, level)
        else:
            out += self._terminator(block.terminator, inner, level)
        for index, child in enumerate(children):
            after = children[index + 1] if index + 1 < len(children) else follow
            out += self._tree(child, after, level)
        return out

    def _chosen(self, block: Block) -> str | None:
        """The C of a test and of the block that runs only if it holds, if they need no branch; else None."""
        match block.terminator.targets():
            case (yes, no) if yes not in self.merges and self.graph.blocks[yes].terminator.targets() == (no,):
                return self.chosen(block.terminator, self.graph.blocks[yes])
            case _:
                return None

    def _switched(self, name: str) -> _Switch | None:
        """The switch that begins at a block, or None."""
        first = self.case(self.graph.blocks[name].terminator)
        if first is None:
            return None
        heads: list[str] = []
        cases: dict[str, str] = {}
        while (asked := self.case(self.graph.blocks[name].terminator)) is not None and asked[0] == first[0]:
            heads.append(name)
            yes, name = self.graph.blocks[name].terminator.targets()
            cases.setdefault(asked[1], yes)
            if name in self.merges or self.graph.blocks[name].body:
                break
        return _Switch(first[0], cases, name, heads) if len(cases) >= CASES else None

    def _switch(self, switch: _Switch, follow: str | None, level: int) -> list[Line]:
        ways = [(f"case {value}", target) for value, target in switch.cases.items()]
        out = [Line(level, f"switch ({switch.subject}) {{")]
        for label, target in [*ways, ("default", switch.default)]:
            inner = self._to(target, follow, level + 1)
            if not inner or not _leaves(inner):
                inner.append(Line(level + 1, "break;"))
            out += [Line(level, f"{label}: {{"), *inner, Line(level, "}")]
        return [*out, Line(level, "}")]

    def _to(self, target: str, follow: str | None, level: int) -> list[Line]:
        if target not in self.merges:
            return self._tree(target, follow, level)
        if target == follow:
            return []
        self.used.add(target)
        return [Line(level, f"goto {self.label(target)};")]

    def _terminator(self, terminator: Terminator, follow: str | None, level: int) -> list[Line]:
        ends = self.finish(terminator)
        if ends:
            return [Line(level, text) for text in ends]
        ways = self.branch(terminator)
        if len(ways) == 1:
            return self._to(ways[0][1], follow, level)
        out: list[Line] = []
        opened = False
        leaving = True  # every path so far leaves, so the last one needs no else
        for condition, target in ways:
            inner = self._to(target, follow, level + 1)
            if condition is None:
                if inner and opened and leaving:
                    out.append(Line(level, "}"))
                    out += [Line(line.level - 1 if line.level else 0, line.text) for line in inner]
                    return out
                if inner and _is_single_if(inner, level + 1):
                    first = inner[0]
                    out.append(Line(level, "} else " + first.text))
                    out += [Line(line.level - 1 if line.level else 0, line.text) for line in inner[1:]]
                    return out
                if inner:
                    out.append(Line(level, "} else {"))
                    out += inner
            else:
                out.append(Line(level, f"{'} else ' if opened else ''}if ({condition}) {{"))
                out += inner
                opened = True
                leaving = leaving and bool(inner) and _leaves(inner)
        out.append(Line(level, "}"))
        return out


def _leaves(lines: list[Line]) -> bool:
    """Whether control never reaches the end of these lines."""
    last = lines[-1].text
    return last.startswith(("goto ", "return"))


def _is_single_if(lines: list[Line], level: int) -> bool:
    """Whether the lines are one if statement, so that it may follow an else."""
    if not lines[0].text.startswith("if (") or lines[0].level != level:
        return False
    for index, line in enumerate(lines):
        if line.level == level and line.text == "}":
            return index == len(lines) - 1
        if line.level == level and index and not line.text.startswith("} else"):
            return False
        if line.level == 0:
            return False
    return False
