"""Golden cases of passes: text in, text out, and a heading for each.

    == a name that says what happens
    graph ... (before)
    --
    graph ... (after)

The registers of the instance and the context that a graph uses are declared automatically, so that a case consists of
its graph. Both sides must satisfy the verifier. With SLUICE_UPDATE_GOLDEN=1 in the environment
the right sides are replaced; look at the difference before you believe it.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sluice.ir.expression import Const, Reg, is_bytes
from sluice.ir.graph import Block, EventShape, Graph, InstanceLayout, KeyPart, LayerProgram, Program, Rules
from sluice.ir.instruction import Assign, Call, End, NextLayer
from sluice.ir.text import parse_graph, print_graph
from sluice.ir.verify import verify

FOLDER = Path(__file__).parents[1] / "golden" / "passes"
UPDATE = os.environ.get("SLUICE_UPDATE_GOLDEN") == "1"


@dataclass
class Case:
    """A graph before a pass and after it."""

    name: str
    before: str
    after: str


def cases(file: str) -> list[Case]:
    """All cases of a golden file."""
    found: list[Case] = []
    for part in (FOLDER / file).read_text().split("\n== ")[1:]:
        name, _, rest = part.partition("\n")
        before, _, after = rest.partition("--\n")
        found.append(Case(name.strip(), before.strip() + "\n", after.strip() + "\n"))
    return found


def program_of(graph: Graph) -> Program:
    """A program around a main graph, which declares everything that the graph uses."""
    registers = graph.registers().values()
    kept = [reg for reg in registers if reg.space in ("perm", "inst")]
    fields = tuple((reg, 3 if reg.name == "inst.state" else 0) for reg in kept)
    slots = tuple(reg for reg in registers if reg.space == "slot")
    calls = [item for item in graph.instructions() if isinstance(item, Call)]
    layer = LayerProgram(
        "g",
        "g",
        "p",
        graph,
        instance=InstanceLayout("t", (KeyPart("a", 16),), False, True, fields, 1),
        rules=Rules(32, False, "first", False, True, 1000, 10, 10, 0, (Reg("v.fin", 1),)),
        events={item.event: shape_of(item) for item in calls},
    )
    unit = Reg("local.unit", 0)
    fills = [Assign(reg, unit if reg.is_bytes else Const(1)) for reg in slots]
    below = Graph("below", "entry", (unit,), {})
    below.blocks["entry"] = Block("entry", [*fills, NextLayer("g", unit), End("passed")])
    above = parse_graph("graph up (local.unit:bytes)\nentry:\n  End('ended')\n")
    layers = {
        "below": LayerProgram("below", "below", "p", below),
        "g": layer,
        "up": LayerProgram("up", "up", "p", above),
    }
    return Program("test", layers, ((None, "below"),), slots, 4)


def shape_of(call: Call) -> EventShape:
    """An event with the fields that a Call gives values for."""
    fields = tuple((f"f{n}", 0 if is_bytes(item) else 64) for n, item in enumerate(call.values))
    return EventShape(call.event, fields, "")


def check(case: Case, file: str, run: Callable[[Program], Program]) -> None:
    """The pass transforms the left side into the right one, does not change its input, and is idempotent."""
    program = program_of(parse_graph(case.before))
    verify(program)
    before = print_graph(program.layers["g"].main)
    result = run(program)
    verify(result)
    after = print_graph(result.layers["g"].main)
    assert print_graph(program.layers["g"].main) == before
    if UPDATE:
        update(file, case, after)
        return
    assert after == case.after
    assert print_graph(run(result).layers["g"].main) == after


def update(file: str, case: Case, after: str) -> None:
    """Replace the right side of a case."""
    intro = (FOLDER / file).read_text().split("\n== ")[0].rstrip() + "\n"
    found = [Case(c.name, c.before, after if c.name == case.name else c.after) for c in cases(file)]
    text = "".join(f"\n== {c.name}\n{c.before}--\n{c.after}" for c in found)
    (FOLDER / file).write_text(intro + text)


def check_graphs(file: str, graphs: list[Graph | None]) -> None:
    """Graphs that a pass made of a real stack equal those of the golden file, but for the lines of the description."""
    lines = [line.split(" ;")[0].rstrip() for graph in graphs if graph for line in print_graph(graph).splitlines()]
    text = "\n".join(lines) + "\n"
    if UPDATE:
        (FOLDER / file).write_text(text)
    assert text == (FOLDER / file).read_text()
