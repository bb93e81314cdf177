"""No case takes many more instructions a packet than it did (bench/instructions.json); the script says which."""

import json
import os
import shutil
from pathlib import Path

import pytest

from bench.instructions import CASES, LIMIT, RECORDED, Counted, count, worse
from sluice.engine.compiler import compiler
from tests.support.budget import in_matrix

GATE = [
    pytest.param(case, id=case.name)
    if (case.function, case.passes) == ("assemble", "all")
    else in_matrix(case, id=case.name)
    for case in CASES
]
"""The cases that share a compiled stack; each of the others needs one of its own."""


def recorded() -> dict[str, float]:
    return json.loads(RECORDED.read_text())


def test_every_case_is_recorded() -> None:
    assert list(recorded()) == [case.name for case in CASES]


def test_what_is_said() -> None:
    assert worse({"a": 100.0, "b": 100 * LIMIT}, {"a": 100.0, "b": 100.0}) == []
    assert worse({"a": 150.0}, {"a": 100.0}) == ["a: 150.0 instructions a packet, 1.50 times what is recorded"]
    assert worse({"new": 1.0}, {}) == ["new: nothing is recorded; run bench/instructions.py --save"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="there is no valgrind (Debian: valgrind)")
@pytest.mark.skipif(compiler() != ("gcc",), reason="recorded with gcc")
@pytest.mark.skipif("SLUICE_CFLAGS" in os.environ, reason="recorded without further options of the compiler")
@pytest.mark.parametrize("case", GATE)
def test_not_many_more_than_recorded(case: Counted, tmp_path: Path) -> None:
    assert worse({case.name: count(case, tmp_path)}, recorded()) == []
