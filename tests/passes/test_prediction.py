"""Golden cases of pass `prediction`, see tests/golden/passes/prediction.txt; and what it makes of real stacks."""

import pytest

from sluice.passes import prediction
from tests.passes.golden_passes import Case, cases, check

FILE = "prediction.txt"


@pytest.mark.parametrize("case", cases(FILE), ids=lambda case: case.name)
def test_golden(case: Case):
    check(case, FILE, prediction.run)
