"""The lab: containers and load of a test, which is skipped where they cannot be had."""

from collections.abc import Iterator

import pytest

from sluice.isolate.cgroups import find_hierarchy
from tests.isolate.lab import Lab, why_not


@pytest.fixture
def lab() -> Iterator[Lab]:
    if why_not():
        pytest.skip(why_not())
    with Lab(find_hierarchy()) as made:
        yield made
