"""Long rows of isolated workers that write one file or pipe: each is whole."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from sluice.engine.box import CompiledStack, Settings, compile_stack
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
    uint8_t first = event->unit.captured > 8 ? event->unit.at[8] : 0;
    if (first == 'b')
        *(volatile int *)0 = 1;
    fprintf(out, "%0{LONG}d\\n", (int)sl_worker_number(event->box));
}}
SLUICE_OPEN {{
    SLUICE_WORKER_OF(box)->out = sl_output_file_open(box, SLUICE_PARAMETER_OF(box, out));
    return SLUICE_WORKER_OF(box)->out ? 0 : -1;
}}
SLUICE_CLOSE {{ sl_rows_close(box, SLUICE_WORKER_OF(box)->out, "writes"); }}
"""
SPOILS = """
#include "sluice.h"
#include <stdio.h>
#include <string.h>
SLUICE_COUNTER(seen, "packets that were seen")
/* Of the memory that this process shares with others, what is as large as a ring: how many there are. */
static unsigned rings(int spoil) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512], mode[5];
    unsigned long from, to;
    unsigned found = 0;
    while (maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx %4s", &from, &to, mode) == 3 && mode[3] == 's' && to - from > 1 << 24) {
            found++;
            if (spoil)
                memset((void *)from, 0xff, to - from);
        }
    if (maps)
        fclose(maps);
    return found;
}
SLUICE_ON(udp, packet) {
    uint8_t first = event->unit.captured > 8 ? event->unit.at[8] : 0;
    if (first == 'm')
        sl_report(event->box, "rings", rings(0));
    if (first == 's') {
        rings(1);
        *(volatile int *)0 = 1;
    }
    SLUICE_COUNTER_OF(event->box, seen)++;
}
"""


@cache
def stack() -> CompiledStack:
    made = Stack("isolated_rows")
    made.eth, made.ip, made.udp = ethernet_parser(), ipv4_parser(), udp_parser()
    made += (made.eth >> made.ip) + Pred(made.eth.header.type == 0x0800)
    made += (made.ip >> made.udp) + Pred(made.ip.header.protocol == UDP)
    functions = read_c_function("writes", WRITES, "writes.c"), read_c_function("spoils", SPOILS, "spoils.c")
    return compile_stack(made, functions)


def test_long_rows_of_several_processes_are_whole(tmp_path: Path) -> None:
    """More than stdio has in its buffer, so that one row takes several system calls."""
    out, path = tmp_path / "rows", capture(tmp_path / "all.pcap", {}, PACKETS)
    bounds = Settings(memory=1 << 24, max_instances=1 << 12, seed=5)
    with WorkerBoxes(stack(), bounds, [], [{"out": str(out)}, ""], workers=3, isolated=True, ordered=False) as box:
        assert box.run(path).failure is None
    rows = out.read_text().splitlines()
    assert {len(row) for row in rows} == {LONG} and len(rows) == PACKETS
    assert set(rows) == {f"{worker:0{LONG}d}" for worker in range(3)}


def test_rows_that_a_worker_could_not_write_before_it_crashed_are_reported(tmp_path: Path) -> None:
    """The next process of the worker writes none, and so does not notice it."""
    path = capture(tmp_path / "all.pcap", {99: b"boom"}, 100)
    bounds = Settings(memory=1 << 24, max_instances=1 << 12, seed=5)
    box = WorkerBoxes(stack(), bounds, [], [{"out": "/dev/full"}, ""], workers=1, isolated=True, ordered=False)
    with box:
        outcome = box.run(path)
        assert outcome.lost_by_crashes["crashes"] == 1
        assert "/dev/full: the rows could not all be written: No space left" in (box.failure() or "")


def test_a_worker_that_spoils_its_memory_spoils_no_other(tmp_path: Path) -> None:
    """A process has no memory of another worker's; what it wrote about itself leads to no packet of another."""
    count = 4000
    path = capture(tmp_path / "all.pcap", {5: b"memory", 2000: b"spoil"}, count)
    bounds = Settings(memory=1 << 24, max_instances=1 << 12, seed=5)
    with WorkerBoxes(stack(), bounds, [], [{"out": str(tmp_path / "rows")}, ""], workers=3, isolated=True) as box:
        outcome = box.run(path)
    lost = outcome.lost_by_crashes
    assert outcome.reports["rings"] == 1
    assert lost["crashes"] == 1 and 0 < lost["packets"] < count / 2
    assert sum(outcome.by_worker) + lost["packets"] == count == outcome.packets
