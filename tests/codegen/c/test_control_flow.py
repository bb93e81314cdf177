"""Control flow as C (sluice.codegen.c.control_flow): the C of any graph does the same, also with switches."""

import random
import subprocess
from itertools import pairwise
from pathlib import Path

from sluice.codegen.c.control_flow import CASES, Structure
from sluice.codegen.c.statements import Condition
from sluice.engine.compiler import compiler
from sluice.ir.expression import Binary, Const, Reg
from sluice.ir.graph import Block, Graph
from sluice.ir.instruction import Assign, Branch, Goto, Instruction, Return, Terminator

ASKED, OTHER, STEPS = Reg("v.asked", 8), Reg("v.other", 8), Reg("v.steps", 8)
VALUES = 8


def question(terminator: Terminator) -> tuple[Reg, int]:
    assert isinstance(terminator, Branch) and isinstance(terminator.condition, Binary)
    left, right = terminator.condition.left, terminator.condition.right
    assert isinstance(left, Reg) and isinstance(right, Const)
    return left, right.value


def case(terminator: Terminator) -> tuple[str, str] | None:
    if not isinstance(terminator, Branch):
        return None
    left, value = question(terminator)
    return left.name[2:], str(value)


def body(block: Block) -> list[str]:
    return ["steps++;"] * len(block.body)


def branches(terminator: Terminator) -> list[tuple[Condition | None, str]]:
    if isinstance(terminator, Goto):
        return [(None, terminator.to)]
    left, value = question(terminator)
    yes, no = terminator.targets()
    name = left.name[2:]
    return [(Condition(f"{name} == {value}", f"{name} != {value}", rare=value == 0), yes), (None, no)]


def finish(terminator: Terminator) -> list[str]:
    if not isinstance(terminator, Return):
        return []
    assert isinstance(terminator.result, Const)
    return [f"return 1000 * steps + {terminator.result.value};"]


def chosen(terminator: Terminator, then: Block) -> str | None:
    """The value of a branch on an odd number, without a branch."""
    left, value = question(terminator)
    return f"steps += {len(then.body)} * ({left.name[2:]} == {value});" if value % 2 else None


def written(graph: Graph) -> list[str]:
    """The lines of C of a graph."""
    lines = Structure(graph, body, branches, finish, lambda name: f"at_{name}", case, chosen).lines()
    return ["    " * line.level + line.text for line in lines]


def any_graph(choose: random.Random) -> Graph:
    """Blocks with later targets. Nearly all compare the same number with a constant, and do nothing else."""
    blocks: dict[str, Block] = {}
    count = choose.randrange(2, 40)
    for at in range(count):
        does: list[Instruction] = [Assign(STEPS, Const(at))] * (choose.random() < 0.1)
        later = range(at + 1, count)
        if at >= count - 2 or choose.random() < 0.03:
            end: Terminator = Return(Const(at))
        elif choose.random() < 0.03:
            end = Goto(f"b{choose.choice(later)}")
        else:
            asked = OTHER if choose.random() < 0.1 else ASKED
            no = at + 1 if choose.random() < 0.9 else choose.choice(later)
            yes = f"b{choose.choice(later[len(later) // 2 :])}"
            if choose.random() < 0.04:
                yes = f"then{at}"
                blocks[yes] = Block(yes, [Assign(STEPS, Const(at)), Goto(f"b{no}")])
            end = Branch(Binary("==", asked, Const(choose.randrange(VALUES))), yes, f"b{no}")
        blocks[f"b{at}"] = Block(f"b{at}", [*does, end])
    graph = Graph("any", "b0", (), blocks)
    graph.blocks = {name: blocks[name] for name in graph.order()}
    return graph


def result(graph: Graph, asked: int, other: int) -> int:
    """The result of a graph."""
    name, steps = graph.entry, 0
    while True:
        block = graph.blocks[name]
        steps += len(block.body)
        match block.terminator:
            case Return(Const(value)):
                return 1000 * steps + value
            case Goto(to):
                name = to
            case terminator:
                left, value = question(terminator)
                yes, no = terminator.targets()
                name = yes if (asked if left == ASKED else other) == value else no


def test_any_graph(tmp_path: Path) -> None:
    graphs = [any_graph(random.Random(seed)) for seed in range(300)]
    text = ["#include <stdio.h>"]
    for number, graph in enumerate(graphs):
        text += [f"static int f{number}(unsigned asked, unsigned other) {{", "    int steps = 0;", *written(graph), "}"]
    calls = [f'        printf("%d\\n", f{number}(asked, other));' for number in range(len(graphs))]
    loops = [f"    for (unsigned {name} = 0; {name} < {VALUES}; {name}++)" for name in ("asked", "other")]
    text += ["int main(void) {", *loops, "    {", *calls, "    }", "    return 0;", "}"]
    (tmp_path / "any.c").write_text("\n".join(text) + "\n")
    warnings = ("-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter")
    subprocess.run([*compiler(), *warnings, str(tmp_path / "any.c"), "-o", str(tmp_path / "any")], check=True)
    printed = subprocess.run([str(tmp_path / "any")], check=True, capture_output=True, text=True).stdout.split()
    said = [str(result(graph, a, b)) for a in range(VALUES) for b in range(VALUES) for graph in graphs]
    assert printed == said
    switches = "\n".join(text).count("switch (")
    assert switches > 50, "the graphs have chains"
    assert "\n".join(text).count("steps += 1 * (") > 50, "and what is done or not"


def chain(values: list[int]) -> Graph:
    """A chain of comparisons, each with a block of its own."""
    blocks: dict[str, Block] = {}
    for at, value in enumerate(values):
        asks = Branch(Binary("==", ASKED, Const(value)), f"y{at}", f"b{at + 1}")
        blocks |= {f"b{at}": Block(f"b{at}", [asks]), f"y{at}": Block(f"y{at}", [Return(Const(at))])}
    blocks[f"b{len(values)}"] = Block(f"b{len(values)}", [Return(Const(99))])
    return Graph("chain", "b0", (), blocks)


def test_few_comparisons_are_no_switch() -> None:
    assert not any("switch" in line for line in written(chain(list(range(CASES - 1)))))
    assert sum("switch" in line for line in written(chain(list(range(CASES))))) == 1


def test_a_repeated_comparison_has_one_case() -> None:
    lines = written(chain([*range(CASES), 0]))
    assert (
        sum(line.strip().startswith("case 0:") for line in lines) == 1 and sum("default" in line for line in lines) == 1
    )


def test_no_branch_is_empty() -> None:
    """A branch that does nothing is not written."""
    for seed in range(300):
        lines = [line.strip() for line in written(any_graph(random.Random(seed)))]
        assert not any(line.endswith("{") and after.startswith("}") for line, after in pairwise(lines))
