"""Golden cases of pass `sinking`, see tests/golden/passes/sinking.txt; and its effect on TCP."""

import pytest

from sluice.ir.hook import Hook
from sluice.ir.instruction import Load, Lookup
from sluice.passes import sinking
from sluice.passes.analysis.blocks import loops
from tests.passes.golden_passes import Case, cases, check
from tests.support.stacks import optimised

FILE = "sinking.txt"


@pytest.mark.parametrize("case", cases(FILE), ids=lambda case: case.name)
def test_golden(case: Case):
    check(case, FILE, sinking.run)


def test_fields_are_read_after_the_options():
    """Fields of TCP's header that only rare paths use are loaded there, not before the list of options."""
    main = optimised("tcp_ip", frozenset({Hook("tcp", "data")})).layers["tcp_over_ipv4"].main
    in_loops = {name for members in loops(main).values() for name in members}
    place = {name: number for number, name in enumerate(main.order())}
    first_loop = min(place[name] for name in in_loops)
    look_up = min(place[name] for name, block in main.blocks.items() if any(isinstance(i, Lookup) for i in block.body))
    for name, block in main.blocks.items():
        for instruction in block.body:
            if isinstance(instruction, Load) and instruction.target.name in ("header.window_size", "header.ack_num"):
                assert place[name] > max(first_loop, look_up), name
