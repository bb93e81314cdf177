"""Golden text of whole programs: the IR that the builder makes of a description, and what passes leave of it.

tests/golden/ir/NAME.txt and NAME.passes.txt. With SLUICE_UPDATE_GOLDEN=1 in the environment they are written
anew; look at the difference before you believe it.
"""

import os
from pathlib import Path

import pytest

from sluice.ir.graph import Program
from sluice.ir.hook import Hook
from sluice.ir.text import parse_graph, print_graph, print_program
from sluice.ir.verify import verify
from sluice.lower.build import build
from sluice.passes.pipeline import run
from tests.ir.descriptions import STACKS

FOLDER = Path(__file__).parents[1] / "golden" / "ir"
UPDATE = os.environ.get("SLUICE_UPDATE_GOLDEN") == "1"
HOOKS = frozenset({Hook("*", "seen"), Hook("*", "data"), Hook("*", "gap"), Hook("*", "end")})


def program(name: str) -> Program:
    return build(STACKS[name](), HOOKS)


def check(path: Path, text: str) -> None:
    """The file has this text (or gets it, where golden files are updated)."""
    if UPDATE:
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("name", STACKS)
def test_built(name: str):
    built = program(name)
    verify(built)
    check(FOLDER / f"{name}.txt", print_program(built, lines=False))


@pytest.mark.parametrize("name", STACKS)
def test_after_the_passes(name: str):
    check(FOLDER / f"{name}.passes.txt", print_program(run(program(name)), lines=False))


@pytest.mark.parametrize("name", STACKS)
def test_graphs_are_read_back(name: str):
    for layer in program(name).layers.values():
        for graph in layer.graphs():
            again = parse_graph(print_graph(graph))
            assert print_graph(again) == print_graph(graph)
            assert {name: block.instructions for name, block in again.blocks.items()} == {
                name: block.instructions for name, block in graph.blocks.items()
            }


def test_lines_are_those_of_the_description():
    """An instruction carries the line that it came from."""
    source = (Path(__file__).parents[1] / "ir" / "descriptions.py").read_text().splitlines()
    text = print_graph(program("arp").layers["arp"].main)
    (line,) = [item for item in text.splitlines() if "Load(mark.0, 48, 16" in item]
    file, number = line.rsplit("; ", 1)[1].split(":")
    assert file == "descriptions.py"
    assert source[int(number) - 1].strip() == "operation = UInt(16)"


def test_golden_files_are_all_used():
    expected = {f"{name}{kind}.txt" for name in STACKS for kind in ("", ".passes")}
    assert {path.name for path in FOLDER.iterdir()} == expected
