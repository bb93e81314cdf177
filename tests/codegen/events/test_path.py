"""The path of a packet, and its time and number: stored only where they may be read."""

import re
from pathlib import Path

import pytest

from sluice.codegen.stack import generate
from sluice.engine.functions import find_functions
from sluice.hooks.function import Functions
from sluice.ir.hook import Hook
from tests.support.stacks import optimised

FUNCTION = """#include "sluice.h"
SLUICE_ON(tcp, data)
{
    (void)data;
    %s
}
"""


def noted(function: str) -> dict[str, bool]:
    """By layer of tcp_ip, whether it stores the path."""
    functions = Functions(tuple(find_functions([function]).c))
    text = generate(optimised("tcp_ip", functions.hooks()), functions).source
    heads = r"^(?:static void layer|SL_INLINED void main)_(\w+)\([^;]*?\)"
    bodies = re.findall(heads + r"\n\{(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    noting = {name for name, body in bodies if "box->base.path[box->base.depth++]" in body}
    return {name: name in noting for name, _ in bodies}


def test_layers_without_layers_above():
    """The layers above the others read the path of fragments."""
    found = noted("assemble")
    assert not found["tcp_over_ipv4"] and not found["udp_over_ipv6"] and not found["arp"]
    assert found["eth"] and found["ipv4"]


@pytest.mark.parametrize(
    ("says", "asks"),
    [
        ("(void)sl_packet_time(event);", False),
        ("(void)sl_path_layer(event, 0);", True),
        ("(void)sl_path_depth(event);", True),
        ("(void)sl_path(event->box);", True),
        ("(void)sl_layer_unit(event->box, 0);", True),
    ],
)
def test_functions_that_read_the_path(tmp_path: Path, says: str, asks: bool):
    (tmp_path / "asks.c").write_text(FUNCTION % says)
    assert noted(str(tmp_path / "asks.c"))["tcp_over_ipv4"] == asks


@pytest.mark.parametrize(
    ("header", "needs"), [("int own;", False), ("static uint32_t own(struct sl_box *b) { return sl_path(b); }", True)]
)
def test_a_header_of_its_own_counts(tmp_path: Path, header: str, needs: bool):
    (tmp_path / "own.h").write_text(f"{header}\n")
    text = FUNCTION.replace('"sluice.h"', '"sluice.h"\n#include "own.h"') % "(void)event;"
    (tmp_path / "asks.c").write_text(text)
    assert noted(str(tmp_path / "asks.c"))["tcp_over_ipv4"] == needs


def keeps_packet(functions: Functions, stack: str = "tcp_ip") -> bool:
    """Whether a box stores which packet is current."""
    text = generate(optimised(stack, functions.hooks()), functions).source
    turn = text[text.index("void begin_packet(") :]
    noted = [f"box->base.{word} = frame" in turn[: turn.index("\n}")] for word in ("time", "number", "frame")]
    assert len(set(noted)) == 1
    return noted[0]


@pytest.mark.parametrize(
    ("says", "asks"),
    [
        ("(void)event->side;", False),
        ("(void)sl_now(event->box);", False),
        ("(void)sl_packet_time(event);", True),
        ("(void)sl_packet_number(event);", True),
        ("(void)sl_packet_frame(event);", True),
        ("SLUICE_DROP(event->box);", True),
    ],
)
def test_functions_that_read_the_packet(tmp_path: Path, says: str, asks: bool):
    (tmp_path / "asks.c").write_text(FUNCTION % says)
    assert keeps_packet(Functions(tuple(find_functions([str(tmp_path / "asks.c")]).c))) == asks


def test_other_readers_of_the_packet():
    """Functions in Python have it with each event, and native modules with each call."""
    assert not keeps_packet(Functions())
    assert keeps_packet(Functions(python=frozenset({Hook("tcp", "data")})))
    assert keeps_packet(Functions(many=frozenset({Hook("tcp", "data")})))
    assert keeps_packet(Functions(), "quic")


def notes_units(says: str, tmp_path: Path, stack: str = "tcp_ip") -> bool:
    """Whether a box stores the unit of each layer."""
    (tmp_path / "asks.c").write_text(FUNCTION % says)
    functions = Functions(tuple(find_functions([str(tmp_path / "asks.c")]).c))
    return "units[" in generate(optimised(stack, functions.hooks()), functions).source


def test_units_of_layers_are_stored_only_for_functions_that_read_them(tmp_path: Path) -> None:
    assert notes_units("(void)sl_layer_unit(event->box, 0);", tmp_path)
    assert not notes_units("(void)sl_path_layer(event, 0);", tmp_path)
