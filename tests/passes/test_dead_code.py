"""Golden cases of pass `dead_code`; see tests/golden/passes/dead_code.txt."""

import pytest
from golden_passes import Case, cases, check

from sluice.passes import dead_code

FILE = "dead_code.txt"


@pytest.mark.parametrize("case", cases(FILE), ids=lambda case: case.name)
def test_golden(case: Case):
    check(case, FILE, dead_code.run)
