"""Golden cases of pass `tails`, see tests/golden/passes/tails.txt; and what it makes of real stacks."""

import pytest

from sluice.passes import tails
from tests.passes.golden_passes import Case, cases, check

FILE = "tails.txt"


@pytest.mark.parametrize("case", cases(FILE), ids=lambda case: case.name)
def test_golden(case: Case):
    check(case, FILE, tails.run)
