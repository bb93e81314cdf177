"""Golden cases of pass `forwarding`, see tests/golden/passes/forwarding.txt; and what it makes of real stacks."""

import pytest

from sluice.passes import forwarding
from tests.passes.golden_passes import Case, cases, check

FILE = "forwarding.txt"


@pytest.mark.parametrize("case", cases(FILE), ids=lambda case: case.name)
def test_golden(case: Case):
    check(case, FILE, forwarding.run)
