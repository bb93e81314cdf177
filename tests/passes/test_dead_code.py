"""Golden cases of the removal of dead code; see tests/golden/passes/dead_code.txt."""

from functools import partial

import pytest

from sluice.passes import dead_code
from sluice.passes.analysis.blocks import each_graph
from tests.passes.golden_passes import Case, cases, check

FILE = "dead_code.txt"


@pytest.mark.parametrize("case", cases(FILE), ids=lambda case: case.name)
def test_golden(case: Case):
    check(case, FILE, partial(each_graph, change=dead_code.change))
