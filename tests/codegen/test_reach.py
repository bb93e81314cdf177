"""How far into a packet most are read (sluice.codegen.reach): by the headers on the way that templates take."""

import pytest

from sluice.codegen.reach import LIST, UNKNOWN, header_bytes
from sluice.ir.build import build
from sluice.passes.pipeline import run
from sluice.stacks.find import find_stack

ETHERNET, IPV4, TCP, UDP, GTP = 14, 20, 20, 8, 8


@pytest.mark.parametrize(
    ("stack", "headers"),
    [
        pytest.param("tcp_ip", ETHERNET + IPV4 + TCP, id="TCP over IPv4"),
        pytest.param("gtp", ETHERNET + IPV4 + UDP + GTP + IPV4 + TCP, id="TCP in a tunnel"),
    ],
)
def test_headers_that_templates_lead_through(stack: str, headers: int) -> None:
    assert header_bytes(run(build(find_stack(stack)))) == headers + LIST


def test_without_templates_nothing_is_known() -> None:
    assert header_bytes(build(find_stack("tcp_ip"))) == UNKNOWN
