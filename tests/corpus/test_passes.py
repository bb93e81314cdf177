"""What is said of a capture does not depend on the passes: with none and with each alone it is the same as with all."""

from __future__ import annotations

from itertools import product

import pytest

from sluice.passes.pipeline import PASSES
from tests.corpus.agreement import LEFT_OUT
from tests.corpus.boxes import Run, flow_stack, flows_of, flows_with
from tests.support.budget import in_matrix
from tests.support.corpus import truth
from tests.support.unoptimised import unoptimised


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("stack", "passes"),
    [
        in_matrix(stack, passes) if (stack, passes) != ("tcp_ip", "none") else (stack, passes)
        for stack, passes in product(LEFT_OUT, ["none", *(item.name for item in PASSES)])
    ],
)
def test_the_same_rows_and_counters(stack: str, passes: str) -> None:
    with unoptimised():  # it is not the C compiler that is tested here
        other = flow_stack(stack, passes)
    for name in truth():
        expected, found = flows_of(stack, name), flows_with(other, name)
        assert found.rows == expected.rows, name
        assert counted(found) == counted(expected), name


def counted(run: Run) -> dict[tuple[str, str], int]:
    """All counters above 0: what no packet can come to, a pass may find out and leave out."""
    return {(layer, name): n for layer, own in run.outcome.counters.items() for name, n in own.items() if n}
