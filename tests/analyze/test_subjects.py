"""Small programs in which every variable that persists is labelled by hand, in a comment where it is declared:
`persistent` if its value may last from packet to packet, `top-level` if packet processing uses it besides, and
`updated` if it changes it. What has no label is not persistent.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sluice.analyze.report.model import Analysis
from tests.analyze.conftest import SUBJECTS, Analyses

NAMES = sorted(path.stem for path in SUBJECTS.glob("*.c"))
_LABEL = re.compile(r"/\* (persistent|top-level)( updated)?\b")


def labels(path: Path) -> dict[int, str]:
    """The label of each line that has one."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {
        number: found[1] + (found[2] or "") for number, line in enumerate(lines, 1) if (found := _LABEL.search(line))
    }


def classes(analysis: Analysis) -> dict[int, str]:
    """What the analysis says of the variable that each line declares."""
    return {
        variable.declared.line: ("top-level" if variable.top_level else "persistent")
        + (" updated" if variable.updates else "")
        for variable in analysis.variables
    }


@pytest.mark.parametrize("name", NAMES)
def test_every_variable_has_the_class_that_it_is_labelled_with(name: str, subject: Analyses) -> None:
    assert classes(subject(name)) == labels(SUBJECTS / f"{name}.c")


@pytest.mark.parametrize("name", NAMES)
def test_a_refinement_gives_a_subset(name: str, subject: Analyses) -> None:
    fine = subject(name)
    for coarse in (subject(name, field_insensitive=True), subject(name, all_locals=True)):
        assert classes(fine).keys() <= classes(coarse).keys()
        assert {one.name for one in fine.top_level} <= {one.name for one in coarse.top_level}
        assert {one.name for one in fine.updateable} <= {one.name for one in coarse.updateable}
        assert {one.name for one in fine.procedures} <= {one.name for one in coarse.procedures}


@pytest.mark.parametrize("name", NAMES)
def test_assumptions_only_narrow(name: str, subject: Analyses) -> None:
    fine, coarse = subject(name, assume=("externals", "assembly", "dlopen")), subject(name)
    assert {one.name for one in fine.top_level} <= {one.name for one in coarse.top_level}
    assert {one.name for one in fine.updateable} <= {one.name for one in coarse.updateable}


def test_the_running_example_is_what_the_thesis_says(subject: Analyses) -> None:
    found = subject("running")
    assert {one.name for one in found.updateable} == {"head", "tail", "hosts", "queue"}
    assert {one.name for one in found.top_level} == {
        *("head", "tail", "hosts", "queue", "threshold", "intPcap", "extPcap"),
        *("lock", "changed"),  # of our completion
    }
    assert {one.name for one in found.procedures} >= {"processPacket", "loopProcedure", "enqueue", "dequeue", "lookup"}
    assert "main" not in {one.name for one in found.procedures}
