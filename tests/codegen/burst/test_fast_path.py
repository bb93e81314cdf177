"""The fast path (sluice.passes.analysis.fast_path): what is counted once per group, and which paths are stored."""

import re
from dataclasses import replace
from functools import cache

import pytest

from sluice.codegen.stack import generate
from sluice.engine.c_function import read_c_function
from sluice.hooks.function import Functions
from sluice.ir.graph import LayerProgram
from sluice.lower.build import build
from sluice.passes.analysis.fast_path import counted_per_burst, first_root, is_path_implicit, templates
from sluice.passes.analysis.header_size import begins_at, knows_bytes
from sluice.stacks.find import find_stack
from tests.support.budget import in_matrix
from tests.support.stacks import optimised

NO_FUNCTIONS = Functions()


@cache
def source(stack: str, functions: Functions = NO_FUNCTIONS) -> str:
    """The C of a ready stack."""
    return generate(optimised(stack, functions.hooks()), functions).source


def names(layers: list[LayerProgram]) -> list[str]:
    return [layer.name for layer in layers]


def test_the_layers_with_templates() -> None:
    program = optimised("tcp_ip")
    assert first_root(program) == "eth"
    assert names(templates(program)) == names(counted_per_burst(program)) == ["eth", "ipv4"]
    assert is_path_implicit(program)


@pytest.mark.parametrize(
    ("roots", "at_once"),
    [
        pytest.param([(1, "eth"), (228, "ipv4")], ["eth"], id="another link type leads right to the second"),
        pytest.param([(1, "eth"), (7, "eth")], [], id="another one leads to the first"),
        pytest.param([(None, "eth"), (228, "ipv4")], [], id="the first is asked for last"),
        pytest.param([(None, "eth")], ["eth", "ipv4"], id="any link type leads there"),
    ],
)
def test_layers_with_several_entries_are_counted_per_packet(
    roots: list[tuple[int | None, str]], at_once: list[str]
) -> None:
    program = replace(optimised("tcp_ip"), roots=tuple(roots))
    assert names(counted_per_burst(program)) == at_once
    assert is_path_implicit(program) == (at_once == ["eth", "ipv4"])


def test_without_templates_there_are_none() -> None:
    program = build(find_stack("tcp_ip"))
    assert templates(program) == counted_per_burst(program) == []


def test_deferred_work_may_read_the_path() -> None:
    program = optimised("gtp")
    assert len(templates(program)) > 2 and not is_path_implicit(program)


def test_bytes_above_a_layer_that_cuts_are_counted_per_packet() -> None:
    """The length of IPv4 is in its header, and may be shorter than the frame."""
    program = optimised("gtp")
    layers = counted_per_burst(program)
    assert [begins_at(layer) for layer in layers[:2]] == [14, None]
    assert [knows_bytes(program, at) for at in range(4)] == [True, True, False, False]


def test_the_fast_path_counts_and_stores_nothing() -> None:
    text = source("tcp_ip")
    bodies = dict(re.findall(r"^SL_INLINED bool template_(\w+)\([^;]*?\)\n\{(.*?)^\}", text, re.MULTILINE | re.DOTALL))
    assert "counters" not in bodies["eth"] and "path[" not in bodies["ipv4"]
    assert "counters" not in bodies["ipv4"]
    assert "{ waiting->path[0] = 0; otherwise_ipv4(" in bodies["eth"]


@pytest.mark.parametrize("stack", ["tcp_ip", "gtp", in_matrix("everything")])
def test_the_table_of_nearly_all_packets(stack: str) -> None:
    """The table of TCP over IPv4, also in a tunnel and below other layers."""
    text = source(stack)
    assert re.findall(r"sl_table_ready\(&box->table_(\w+)\)", text) == ["tcp_32_16"]
    assert set(re.findall(r"sl_lookahead_want_each\(&box->base.lookahead, &box->table_(\w+),", text)) == {"tcp_32_16"}
    assert "sl_lookahead_want(&box->base.lookahead, &box->table_tcp_32_16," not in text


ASKS_WAY = Functions((read_c_function("asks", "SLUICE_ON(tcp, packet) { sl_path(event->box); }", "asks.c"),))


@pytest.mark.parametrize(
    ("stack", "functions", "enter", "stored"),
    [
        pytest.param("tcp_ip", Functions(), "layer_tcp_over_ipv4", [], id="nobody asks by which way they came"),
        pytest.param(
            "tcp_ip", ASKS_WAY, "enter_tcp_over_ipv4", ["store_path(box, waiting);"] * 2, id="a function asks"
        ),
        pytest.param("pptp", Functions(), "fast_tcp", ["store_fast_path(box);"] * 2, id="layers above may read it"),
        in_matrix("everything", Functions(), "fast_tcp_over_ipv4", ["store_fast_path(box);"] * 2),
        pytest.param("gtp", Functions(), "deferred_udp", [], id="the tunnel's UDP is owed a turn"),
        pytest.param("gtp", ASKS_WAY, "", [], id="a turn, and a function that asks"),
    ],
)
def test_series_of_packets(stack: str, functions: Functions, enter: str, stored: list[str]) -> None:
    text = source(stack, functions)
    assert re.findall(r"waiting->layer == (\w+)", text) == [enter] * (2 if enter else 0)
    assert text.count(" deferred_work_udp(box);") == (3 if enter == "deferred_udp" else 0)
    assert re.findall(r"^ +((?:store_path\(box, waiting|store_fast_path\(box)\);)", text, re.MULTILINE) == stored


@pytest.mark.parametrize(("stack", "tcp"), [("pptp", "tcp"), in_matrix("everything", "tcp_over_ipv4")])
def test_the_path_of_the_fast_path_includes_the_layer_that_is_entered(stack: str, tcp: str) -> None:
    program = optimised(stack)
    layers = list(program.layers)
    way = [layers.index(name) for name in ("eth", "ipv4", tcp)]
    text = source(stack)
    found = re.search(r"void store_fast_path\(.*?\)\n\{(.*?)\n\}", text, re.DOTALL)
    assert found is not None
    assert (
        found[1].split()
        == " ".join(
            ["box->base.depth = 3;", *(f"box->base.path[{at}] = {index};" for at, index in enumerate(way))]
        ).split()
    )


@pytest.mark.parametrize("stack", ["pptp", in_matrix("everything")])
def test_time_and_number_are_stored_only_for_readers(stack: str) -> None:
    """Native modules are called above UDP, so that series of TCP packets store neither."""
    text = source(stack)
    assert re.findall(r"begin_packet\(.*(true|false)\);", text) == ["false", "true"]
    asks = Functions((read_c_function("asks", "SLUICE_ON(tcp, packet) { sl_packet_time(event); }", "asks.c"),))
    text = source(stack, asks)
    assert re.findall(r"begin_packet\(.*(true|false)\);", text) == ["true", "true"]
