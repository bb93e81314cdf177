"""TCP passes byte for byte through a box on a path that loses and reorders, and the box sees what the hosts sent."""

from __future__ import annotations

import json
import socket
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.live.test_interface import exchange, sha256
from tests.live.test_xdp import why_no_xdp
from tests.live.wire import SERVER, Inline, LossyWire, why_no_wire

pytestmark = [pytest.mark.skipif(bool(why_no_wire()), reason=why_no_wire()), pytest.mark.root]

STACK = """
from tests.support.small_stacks import small_stack

stack = small_stack()
"""


@pytest.fixture
def wire() -> Generator[LossyWire]:
    with LossyWire("liveloss", lost=0.02, overtaken=0.05) as made:
        yield made


@pytest.mark.parametrize("scheme", ["", "xdp:"], ids=["AF_PACKET", "AF_XDP"])
def test_streams_of_both_directions_are_intact(wire: LossyWire, tmp_path: Path, scheme: str) -> None:
    if scheme and (why := why_no_xdp()):
        pytest.skip(why)
    (tmp_path / "stack.py").write_text(STACK)
    words = ["run", str(tmp_path / "stack.py"), "-f", f"flow_log:out={tmp_path / 'rows'}"]
    with Inline(wire, tmp_path, *words, between=(f"{scheme}b0", f"{scheme}b1")) as running:
        talks = [exchange(wire, socket.AF_INET, SERVER, (200_000, 300_000), seed) for seed in (1, 2)]
        summary = running.stop()
    rows = {row["sport"]: row for row in map(json.loads, (tmp_path / "rows").read_text().splitlines())}
    for port, sent in talks:
        assert [rows[port]["src_sha256"], rows[port]["dst_sha256"]] == [sha256(data) for data in sent]
    assert summary["received"]["not_forwarded"] == 0
    assert summary["received"]["forwarded"] == summary["packets"]
