"""Control flow as C: a graph of blocks becomes nested ifs where its structure allows this, and goto elsewhere.

A chain of tests of one number against constants becomes a switch: a processor predicts each compare of a chain alone.

A block with one predecessor is written where its predecessor branches to it. A block where several paths meet is
written after the block that dominates it, under a label (after Ramsey, Beyond Relooper, ICFP 2022, with goto for
break).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sluice.codegen.c.statements import (
    Body,
    Condition,
    Goto,
    Label,
    Line,
    Plain,
    Switch,
    branch,
    joined,
    text,
    without_labels,
)
from sluice.ir.dataflow import immediate_dominators
from sluice.ir.graph import Block, Graph
from sluice.ir.instruction import Terminator

CASES = 5
"""The least number of tests of one number that become a switch."""


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
        branch: Callable[[Terminator], list[tuple[Condition | None, str]]],
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
        self.used: dict[str, str] = {}
        """The labels that gotos name, by block."""

    def lines(self) -> list[Line]:
        """The whole graph as lines of C."""
        body = self._tree(self.graph.entry, None)
        return text(joined(without_labels(body, set(self.used))), 1, self.used)

    def _tree(self, name: str, follow: str | None) -> Body:
        """Block `name` and what it dominates; `follow` is the block that is written next."""
        out: Body = [Label(name)] if name in self.merges else []
        block = self.graph.blocks[name]
        if lines := self.body(block):
            out.append(Plain(lines))
        switch = self._switched(name)
        # The blocks that a chain dominates follow the switch, those of its last block first, as they would follow
        # nested ifs.
        heads = switch.heads if switch is not None else [name]
        children = [child for head in reversed(heads) for child in self.children[head]]
        inner = children[0] if children else follow
        if switch is not None:
            out.append(self._switch(switch, inner))
        elif (chosen := self._chosen(block)) is not None:
            out += [Plain([chosen]), *self._to(block.terminator.targets()[1], inner)]
        else:
            out += self._terminator(block.terminator, inner)
        for index, child in enumerate(children):
            after = children[index + 1] if index + 1 < len(children) else follow
            out += self._tree(child, after)
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

    def _switch(self, switch: _Switch, follow: str | None) -> Switch:
        cases: dict[str, list[str]] = {}  # by target, its constants; those of the default target need no case
        for value, target in switch.cases.items():
            if target != switch.default:
                cases.setdefault(target, []).append(value)
        bodies = [(values, self._to(target, follow)) for target, values in cases.items()]
        return Switch(switch.subject, bodies, self._to(switch.default, follow))

    def _to(self, target: str, follow: str | None) -> Body:
        if target not in self.merges:
            return self._tree(target, follow)
        if target == follow:
            return []
        self.used[target] = self.label(target)
        return [Goto(target, f"goto {self.used[target]};")]

    def _terminator(self, terminator: Terminator, follow: str | None) -> Body:
        if ends := self.finish(terminator):
            return [Plain(ends)]
        return self._branches(self.branch(terminator), follow)

    def _branches(self, targets: list[tuple[Condition | None, str]], follow: str | None) -> Body:
        condition, target = targets[0]
        if condition is not None and condition.rare and target == follow:
            self.used[target] = self.label(target)
            return branch(condition, [Goto(target, f"goto {self.used[target]};")], self._branches(targets[1:], follow))
        yes = self._to(target, follow)
        return yes if condition is None else branch(condition, yes, self._branches(targets[1:], follow))
