"""Long rows of isolated workers that write one file or pipe: each is whole."""

from __future__ import annotations

from pathlib import Path

from sluice.engine.box import Settings, compile_stack
from sluice.engine.c_function import read_c_function
from sluice.engine.workers import WorkerBoxes
from sluice.lang import Pred, Stack
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.udp import udp_parser
from tests.engine.test_isolation import capture
from tests.support.packets import UDP

PACKETS, LONG = 3000, 9000
WRITES = f"""
#include "sluice.h"
#include "output_file.h"
struct writes {{ FILE *out; }};
SLUICE_WORKER(struct writes)
SLUICE_PARAMETER(out, text, "", "file of the rows")
SLUICE_ON(udp, packet) {{
    FILE *out = SLUICE_WORKER_OF(event->box)->out;
    fprintf(out, "%0{LONG}d\\n", (int)event->box->worker);
}}
SLUICE_OPEN {{
    SLUICE_WORKER_OF(box)->out = sl_output_file_open(box, SLUICE_PARAMETER_OF(box, out));
    return SLUICE_WORKER_OF(box)->out ? 0 : -1;
}}
SLUICE_CLOSE {{ sl_rows_close(box, SLUICE_WORKER_OF(box)->out, "writes"); }}
"""


def test_long_rows_of_several_processes_are_whole(tmp_path: Path) -> None:
    """More than stdio has in its buffer, so that one row takes several system calls."""
    made = Stack("isolated_rows")
    made.eth, made.ip, made.udp = ethernet_parser(), ipv4_parser(), udp_parser()
    made += (made.eth >> made.ip) + Pred(made.eth.header.type == 0x0800)
    made += (made.ip >> made.udp) + Pred(made.ip.header.protocol == UDP)
    stack = compile_stack(made, (read_c_function("writes", WRITES, "writes.c"),))
    out, path = tmp_path / "rows", capture(tmp_path / "all.pcap", {}, PACKETS)
    bounds = Settings(memory=1 << 24, max_instances=1 << 12, seed=5)
    with WorkerBoxes(stack, bounds, [], [{"out": str(out)}], workers=3, isolated=True, ordered=False) as box:
        assert box.run(path).failure is None
    rows = out.read_text().splitlines()
    assert {len(row) for row in rows} == {LONG} and len(rows) == PACKETS
    assert set(rows) == {f"{worker:0{LONG}d}" for worker in range(3)}
