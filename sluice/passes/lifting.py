"""Branch lifting (the paper, 5.2), guided: a block that several paths reach is duplicated for each of them if a later
branch is decided by which path was taken.

The paper lifts every branch to the top of the program, whose size then grows with the product of all branches, and
relies on later passes to exploit this. Here, a path stays separate from the others only as long as a register is known
on it that decides a later branch. The paths join again where no later branch tests the register. Which registers are
worth it is determined by trial: each step selects the register that decides the most branches in excess of the blocks
that it adds. Two kinds of paths are always considered first. On paths on which the instance belongs to one packet only,
and is in no table, nearly everything that follows is decided. The path of a packet that enters the layer a second time
(a restart) would be a loop, which `prediction` and `sinking` cannot handle.

Before this, conditions with a common operand are split: the common operand `a` of `a & b` and `a & c` is tested first,
in a branch of its own, so that on a path on which `a` is 0 both branches are decided.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from dataclasses import dataclass

from sluice.ir.copy import with_targets
from sluice.ir.expression import Binary, Expr, Flip, Reg, chain, is_bit, operands
from sluice.ir.graph import Block, Graph, LayerProgram, Program
from sluice.ir.instruction import Branch, Goto
from sluice.passes import constants, dead_code
from sluice.passes.analysis import new_instance
from sluice.passes.analysis.blocks import each_graph, fresh_names, remove_unreachable
from sluice.passes.analysis.decisions import Decisions, Facts

SMALL = 100
"""The number of blocks that any graph may gain; a large graph may gain half of its own number in addition."""

RESTARTED = "local.restarted"
"""The register that is 1 when the packet enters the layer a second time."""

ROUNDS = 16
"""The maximum number of rounds for a graph. The graphs of our stacks need far fewer."""


def run(program: Program) -> Program:
    """The program with paths separated, and constants propagated on each of them."""
    return each_graph(program, _change)


def _change(layer: LayerProgram, graph: Graph) -> bool:
    """Split conditions, separate paths and clean up until nothing changes; returns whether anything did."""
    most = len(graph.blocks) * 3 // 2 + SMALL
    for rounds in range(ROUNDS):
        if not any([split_conditions(graph), lift(layer, graph, most)]):
            return rounds > 0
        constants.change(layer, graph)
        dead_code.change(layer, graph)
    return True


# --- conditions ---------------------------------------------------------------------------------------------


def tested(term: Expr) -> str | None:
    """The one-bit register that a term consists of, possibly negated; None if it is something else, or must be loaded
    from the instance or the context.
    """
    operand = term.operand if isinstance(term, Flip) and term.bits == 1 else term
    if isinstance(operand, Reg) and operand.bits == 1 and operand.space not in constants.FAR:
        return operand.name
    return None


def _operator(condition: Expr) -> str | None:
    match condition:
        case Binary("&" | "|" as operator, left, right) if is_bit(left) and is_bit(right):
            return operator
        case _:
            return None


def split_conditions(graph: Graph) -> bool:
    """Move operands of & or | that several conditions share to branches of their own; returns whether it found any."""
    asked = Counter[str]()
    for block in graph.blocks.values():
        if isinstance(last := block.terminator, Branch):
            operator = _operator(last.condition)
            parts = operands(last.condition, operator) if operator else [last.condition]
            asked.update({name for name in map(tested, parts) if name})
    names = fresh_names(graph)
    waiting = list(graph.blocks.values())
    changed = False
    while waiting:
        block = waiting.pop()
        last = block.terminator
        operator = _operator(last.condition) if isinstance(last, Branch) else None
        if operator is None:
            continue
        assert isinstance(last, Branch)
        parts = operands(last.condition, operator)
        common = [part for part in parts if (name := tested(part)) and asked[name] > 1]
        if not common:
            continue
        first = max(common, key=lambda part: asked[tested(part) or ""])
        parts.remove(first)
        after = Block(next(names[block.name]), [Branch(chain(operator, parts), last.yes, last.no, where=last.where)])
        graph.blocks[after.name] = after
        names[after.name] = names[block.name]
        paths = (after.name, last.no) if operator == "&" else (last.yes, after.name)
        block.instructions[-1] = Branch(first, *paths, where=last.where)
        waiting.append(after)
        changed = True
    return changed


# --- paths that stay separate -------------------------------------------------------------------------------

Place = tuple[int, Facts]
"""The number of a block, and what is known there about the registers that keep paths separate."""


@dataclass
class Paths:
    """A graph with paths separated.

    leads: for every place, the places that follow it. decided: the branches and instructions that are decided. lost:
    the facts that were lost where paths join.
    """

    leads: dict[Place, list[Place]]
    entry: Place
    decided: int
    lost: Facts


def follow(decisions: Decisions, apart: tuple[str, ...], most: int) -> Paths | None:
    """The places of a graph if the registers `apart` keep paths separate; None if there are more than `most`."""
    entry: Place = 0, 0
    known: dict[Place, Facts] = {entry: 0}
    leads: dict[Place, list[Place]] = {}
    waiting: list[Place] = [entry]
    lost = met = kept = 0
    cached, concerning = decisions.cached, decisions.concerning
    while waiting:
        at = heapq.heappop(waiting)
        if waiting and waiting[0] == at:
            continue
        targets: list[Place] = []
        number = at[0]
        before = known[at]
        paths = cached[number].get(before & concerning[number]) or decisions.paths(number, before)
        if met != len(decisions.facts):
            met, kept = len(decisions.facts), decisions.all_of(apart)
        for target, keeps, brings in paths:
            facts = before & keeps | brings
            to = target, facts & kept
            targets.append(to)
            old = known.get(to)
            if old is None:
                known[to] = facts
                heapq.heappush(waiting, to)
                if len(known) > most:
                    return None
            elif old != facts:
                both = old & facts
                lost |= (old | facts) ^ both
                if both != old:
                    known[to] = both
                    heapq.heappush(waiting, to)
        leads[at] = targets
    alone = decisions.fact(new_instance.UNSTORED.name, 1) | decisions.fact(new_instance.EMPTY.name, 1)
    decided = 0
    reached = _reached(leads, entry)
    for at in reached:
        if decisions.branches[at[0]] and len(leads[at]) == 1:
            decided += 1
        if known[at] & alone == alone:
            decided += decisions.spared[at[0]]
    return Paths({at: leads[at] for at in reached}, entry, decided, lost)


def _reached(leads: dict[Place, list[Place]], entry: Place) -> list[Place]:
    seen = {entry}
    waiting = [entry]
    while waiting:
        for to in leads[waiting.pop()]:
            if to not in seen:
                seen.add(to)
                waiting.append(to)
    return list(seen)


def lift(layer: LayerProgram, graph: Graph, most: int) -> bool:
    """Separate paths where this decides branches, in at most `most` blocks; returns whether it did."""
    decisions = Decisions(layer, graph)
    if not decisions.asked:
        return False
    apart, best = _choose(decisions, most)
    if not apart or best is None or not best.decided:
        return False
    _write(decisions, apart, best)
    return True


def _choose(decisions: Decisions, most: int) -> tuple[tuple[str, ...], Paths | None]:
    """The registers that are worth keeping paths separate, and the resulting graph."""
    first = follow(decisions, (), most)
    if first is None:
        return (), None
    apart: tuple[str, ...] = ()
    best = first
    for name in (new_instance.UNSTORED.name, RESTARTED):
        tried = follow(decisions, (*apart, name), most)
        if tried is not None and tried.decided > best.decided:
            apart, best = (*apart, name), tried
    hopes: dict[str, float] = {}
    while (found := _best(decisions, apart, best, most, hopes)) is not None:
        apart, best = (*apart, found[0]), found[1]
    return apart, best


def _best(
    decisions: Decisions, apart: tuple[str, ...], paths: Paths, most: int, hopes: dict[str, float]
) -> tuple[str, Paths] | None:
    """The additional register that is most worth keeping paths separate, and the resulting graph; None if none is.

    `hopes`: the worth of each register in its last trial. Choosing other registers seldom increases it, so the
    candidates are tried again in descending order, until the best result is at least the estimate of the next one (lazy
    greedy: Minoux 1978).
    """
    for name in decisions.known(paths.lost):
        if not name.startswith("perm."):  # the values of fields are rarely known
            hopes.setdefault(name, math.inf)
    best: tuple[int, str, Paths] | None = None
    for name in sorted(hopes, key=lambda name: (-hopes[name], name)):
        if name in apart or hopes[name] < 0 or (best is not None and hopes[name] <= best[0]):
            continue
        tried = follow(decisions, (*apart, name), most)
        if tried is None or tried.decided == paths.decided:
            hopes[name] = -1
            continue
        worth = tried.decided - paths.decided - (len(tried.leads) - len(paths.leads))
        hopes[name] = worth
        if worth >= 0 and (best is None or worth > best[0]):
            best = worth, name, tried
    return best and best[1:]


def _write(decisions: Decisions, apart: tuple[str, ...], paths: Paths) -> None:
    """Give every place a block of its own."""
    graph, order = decisions.graph, decisions.order

    def sort_key(at: Place) -> tuple[str, list[tuple[str, int]]]:
        known = decisions.known(at[1])
        return order[at[0]], [(reg, known[reg]) for reg in apart if reg in known]

    names = fresh_names(graph)
    called: dict[Place, str] = {}
    first: set[str] = set()
    for at in sorted(paths.leads, key=lambda at: (at != paths.entry, sort_key(at))):
        name = order[at[0]]
        called[at] = next(names[name]) if name in first else name
        first.add(name)
    blocks: dict[str, Block] = {}
    for at in sorted(paths.leads, key=lambda at: called[at]):
        old = graph.blocks[order[at[0]]]
        last = old.terminator
        match last, [called[target] for target in paths.leads[at]]:
            case Branch(), [to]:
                last = Goto(to, where=last.where)
            case Branch(condition), [yes, no]:
                last = Branch(condition, yes, no, where=last.where)
            case _:
                to = {order[target[0]]: called[target] for target in paths.leads[at]}
                last = with_targets(last, to.__getitem__)
        block = Block(called[at], [*old.body, last])
        blocks[block.name] = block
    graph.entry = called[paths.entry]
    graph.blocks = blocks
    remove_unreachable(graph)
