"""The model of a branch predictor (bench/branches.c): what can be foreseen is, and what cannot is not."""

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from bench.branches import Branch, beginning, branches_of
from bench.instructions import REAL
from bench.programs import build_tool
from sluice.engine.compiler import compiler

BASE, ENTRY, BRANCH, THERE, INDIRECT = 0x4000000, 0x100, 0x110, 0x200, 0x210
TIMES = 20_000


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tool("branches", tmp_path_factory.mktemp("model"), "-Werror")


def wrong(model: Path, listed: str, addresses: Iterable[int], skip: int) -> dict[int, float]:
    """Of each branch the part of its executions that were not foreseen, in a run through these addresses."""
    (model.parent / "list.txt").write_text(listed)
    lines = [f"process {BASE + ENTRY:#x}", *(f"I  {BASE + at:08x},4" for at in addresses)]
    words = [str(model), str(model.parent / "list.txt"), f"{ENTRY:x}", str(skip)]
    said = subprocess.run(
        words, input="\n".join(lines) + "\n", check=True, capture_output=True, text=True, timeout=300
    ).stdout
    _, *counts = said.splitlines()
    found: dict[int, float] = {}
    for line in counts:
        at, executed, _, times = line.split()
        found[int(at, 16)] = int(times) / int(executed)
    return found


def calls(taken: Iterable[bool]) -> Iterable[int]:
    """A call of `process` each, whose branch goes so."""
    for there in taken:
        yield from (ENTRY, BRANCH, THERE if there else BRANCH + 4)


@pytest.mark.parametrize(
    "pattern",
    [[True], [False], [True, False], [True] * 7 + [False], [True, True, False, True, False, False, False, True, False]],
    ids=str,
)
def test_a_pattern_is_foreseen(model: Path, pattern: list[bool]) -> None:
    taken = (pattern * TIMES)[:TIMES]
    assert wrong(model, f"{BRANCH:x} c\n", calls(taken), TIMES // 2)[BRANCH] < 0.01


def test_chance_is_not(model: Path) -> None:
    chance = random.Random(1)
    taken = [chance.random() < 0.5 for _ in range(TIMES)]
    assert 0.4 < wrong(model, f"{BRANCH:x} c\n", calls(taken), TIMES // 2)[BRANCH] < 0.6


def test_what_follows_from_an_earlier_branch_is_foreseen(model: Path) -> None:
    chance = random.Random(2)
    addresses: list[int] = []
    for _ in range(TIMES):
        there = chance.random() < 0.5
        addresses += [ENTRY, BRANCH, THERE if there else BRANCH + 4, INDIRECT, 0x300 if there else 0x400]
    found = wrong(model, f"{BRANCH:x} c\n{INDIRECT:x} i\n", addresses, TIMES // 2)
    assert found[BRANCH] > 0.4
    assert found[INDIRECT] < 0.01


def test_a_target_by_chance_is_not(model: Path) -> None:
    chance = random.Random(3)
    addresses = [at for _ in range(TIMES) for at in (ENTRY, INDIRECT, chance.choice([0x300, 0x340, 0x380, 0x3C0]))]
    assert 0.6 < wrong(model, f"{INDIRECT:x} i\n", addresses, TIMES // 2)[INDIRECT] < 0.9


@pytest.mark.skipif(shutil.which("objdump") is None, reason="there is no objdump (Debian: binutils)")
def test_branches_of_a_library(tmp_path: Path) -> None:
    (tmp_path / "code.c").write_text(
        "int other(int);\n"
        "int pick(int x, int (*f)(int))\n"
        "{\n    if (x > 3)\n        return other(x) + 1;\n    return f(x) + 2;\n}\n"
    )
    library = tmp_path / "code.so"
    words = [*compiler(), "-O1", "-g1", "-fPIC", "-shared", "-o", str(library), str(tmp_path / "code.c")]
    subprocess.run(words, check=True, timeout=300)
    found = [branch for branch in branches_of(library) if branch.function == "pick"]
    assert all(isinstance(branch, Branch) and branch.line.startswith("code.c:") for branch in found)
    assert [kind for kind in "ciu" if any(branch.kind == kind for branch in found)] == ["c", "i", "u"]


def test_the_beginning_of_a_capture(tmp_path: Path) -> None:
    beginning(REAL, 10, tmp_path / "ten.pcap")
    whole, some = REAL.read_bytes(), (tmp_path / "ten.pcap").read_bytes()
    assert whole.startswith(some)
    beginning(REAL, 1_000_000, tmp_path / "all.pcap")
    assert (tmp_path / "all.pcap").read_bytes() == whole


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="there is no valgrind (Debian: valgrind)")
@pytest.mark.skipif(shutil.which("objdump") is None, reason="there is no objdump (Debian: binutils)")
def test_of_a_stack() -> None:
    script = Path(__file__).parents[2] / "bench" / "branches.py"
    words = [sys.executable, str(script), str(REAL), "--packets", "1000", "--json"]
    found = json.loads(subprocess.run(words, check=True, capture_output=True, text=True, timeout=300).stdout)
    assert 0.05 < sum(one["wrong"] for one in found) < 3
    assert all(one["wrong"] <= one["executed"] and one["taken"] <= one["executed"] for one in found)
    assert any(one["function"].startswith("series_tcp") and one["line"].startswith("tcp_ip") for one in found)
