"""The way of a packet through its layers: noted in the last one only where somebody may ask."""

import re
from pathlib import Path

import pytest

from sluice.codegen.functions import Functions
from sluice.codegen.stack import generate
from sluice.engine.functions import find_functions
from sluice.ir.build import build
from sluice.passes.pipeline import run
from sluice.stacks.find import find_stack

FUNCTION = """#include "sluice.h"
SLUICE_ON(tcp, data)
{
    (void)data;
    %s
}
"""


def noted(function: str) -> dict[str, bool]:
    """By layer of tcp_ip whether it notes that a packet is in it."""
    functions = Functions(tuple(find_functions([function]).c))
    text = generate(run(build(find_stack("tcp_ip"), functions.hooks())), functions).source
    bodies = re.findall(r"^static void layer_(\w+)\([^;]*?\)\n\{(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    return {name: "box->base.path[box->base.depth++]" in body for name, body in bodies}


def test_layers_without_layers_above():
    """Of the others those above ask, for what lies between fragments."""
    found = noted("assemble")
    assert not found["tcp_over_ipv4"] and not found["udp_over_ipv6"] and not found["arp"]
    assert found["eth"] and found["ipv4"]


@pytest.mark.parametrize(
    ("says", "asks"),
    [
        ("(void)event->box->time;", False),
        ("(void)event->box->path[0];", True),
        ("(void)event->box->depth;", True),
        ("(void)sl_way(event->box);", True),
    ],
)
def test_functions_that_ask(tmp_path: Path, says: str, asks: bool):
    (tmp_path / "asks.c").write_text(FUNCTION % says)
    assert noted(str(tmp_path / "asks.c"))["tcp_over_ipv4"] == asks


@pytest.mark.parametrize(
    ("header", "asks"), [('"own.h"', True), ("<own.h>", True), ("<string.h>", False), ('"in_order.h"', False)]
)
def test_what_a_function_includes_may_ask(tmp_path: Path, header: str, asks: bool):
    """It is not looked into, unless it is one of the C library's or of the runtime's."""
    (tmp_path / "own.h").write_text("\n")
    text = FUNCTION.replace('"sluice.h"', f'"sluice.h"\n#include {header}') % "(void)event;"
    (tmp_path / "asks.c").write_text(text)
    assert noted(str(tmp_path / "asks.c"))["tcp_over_ipv4"] == asks
