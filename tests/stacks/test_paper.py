"""The paper's stacks see what they are for: the TCP flows that the truth has on exactly their paths."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from sluice.engine.box import CompiledStack
from sluice.stacks.find import find_stack
from tests.support.corpus import captures, truth
from tests.support.run import run_capture, watch_all

pytestmark = pytest.mark.corpus

PATHS = {
    "gtp": {"eth:ip:udp:gtp:ip:tcp"},
    "pptp": {"eth:ip:tcp", "eth:ip:gre1:ppp:ip:tcp"},
}
WITHOUT = {"tuple_reused", "multi_path"}
"""Flows that have others on the same pair of ends are not compared here, one by one."""


@cache
def compiled(stack: str) -> CompiledStack:
    return watch_all(find_stack(stack))


def flows(stack: str, name: str) -> list[dict[str, Any]]:
    return [
        flow for flow in truth()[name]["tcp"] if set(flow["paths"]) <= PATHS[stack] and not WITHOUT & set(flow["flags"])
    ]


def cases() -> list[Any]:
    """Captures with flows in the tunnel that the stack is for."""
    found: list[Any] = []
    for stack, paths in PATHS.items():
        tunnel = {path for path in paths if path != "eth:ip:tcp"}
        for path in captures():
            if any(set(flow["paths"]) & tunnel for flow in flows(stack, path.name)):
                found.append(pytest.param(stack, path, id=f"{stack}-{path.stem}"))
    return found


@pytest.mark.parametrize("stack, path", cases())
def test_flows(stack: str, path: Any) -> None:
    rows = run_capture(compiled(stack), path).rows
    seen = {
        frozenset([(row["src"], row["sport"]), (row["dst"], row["dport"])]): row
        for row in rows
        if row["proto"] == "tcp"
    }
    for flow in flows(stack, path.name):
        row = seen[frozenset([tuple(flow["a"]), tuple(flow["b"])])]
        sides = ("src", "dst") if [row["src"], row["sport"]] == flow["a"] else ("dst", "src")
        for side, way in zip(sides, ("a2b", "b2a"), strict=True):
            assert row[f"{side}_pkts"] == flow[way]["packets"]
            assert (row[f"{side}_stream"], row[f"{side}_sha256"]) == (flow[way]["contig_bytes"], flow[way]["sha256"])
