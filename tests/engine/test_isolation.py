"""`--workers N --isolate`: workers are processes. One that crashes is started again, and the others go on."""

from __future__ import annotations

import fcntl
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from sluice.cli.main import main
from sluice.engine.box import Box, CompiledStack, Outcome, Settings, compile_stack
from sluice.engine.c_function import read_c_function
from sluice.engine.functions import find_functions
from sluice.engine.inputs import Inputs
from sluice.engine.workers import WorkerBoxes
from sluice.lang import Pred, Stack
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.udp import udp_parser
from tests.support.capture import pcap
from tests.support.conserve import check_conservation
from tests.support.packets import A4, UDP, eth, ip4, udp

ROOT = Path(__file__).resolve().parents[2]
FIRST = ROOT / "examples" / "first" / "capture.pcap"

FRAGILE = """
#include "sluice.h"
struct all { uint64_t packets, workers; };
SLUICE_COMMON(struct all)
SLUICE_COUNTER(seen, "packets that were seen")
SLUICE_TIMER(udp, soon) { *(volatile int *)0 = 1; }
SLUICE_ON(udp, packet) {
    uint8_t first = event->unit.captured > 8 ? event->unit.at[8] : 0;
    SLUICE_LOCK(event->box);
    if (first == 'b')
        *(volatile int *)0 = 1;       /* with the lock */
    SLUICE_COMMON_OF(event->box)->packets++;
    SLUICE_UNLOCK(event->box);
    if (first == 't')
        SLUICE_ARM(event, udp, soon, 1000000);
    if (first == 's')
        raise(SIGKILL);
    SLUICE_COUNTER_OF(event->box, seen)++;
}
SLUICE_CLOSE {
    SLUICE_LOCK(box);
    if (++SLUICE_COMMON_OF(box)->workers == SLUICE_WORKERS(box))
        sl_report(box, "packets of all", SLUICE_COMMON_OF(box)->packets);
    SLUICE_UNLOCK(box);
}
"""


BOTH = """
#include "sluice.h"
#include <unistd.h>
SLUICE_ON(udp, packet) {
    static unsigned crashes;
    if (__atomic_fetch_add(&crashes, 1, __ATOMIC_RELAXED))
        usleep(100000);
    *(volatile char *)8 = 1;
}
"""


def small() -> Stack:
    made = Stack("isolated_out")
    made.eth, made.ip, made.udp = ethernet_parser(), ipv4_parser(), udp_parser()
    made += (made.eth >> made.ip) + Pred(made.eth.header.type == 0x0800)
    made += (made.ip >> made.udp) + Pred(made.ip.header.protocol == UDP)
    return made


@cache
def stack() -> CompiledStack:
    made = small()
    fragile = read_c_function("fragile", "#include <signal.h>\n" + FRAGILE, "fragile.c")
    functions = (*find_functions(["flow_log"]).c, fragile)
    return compile_stack(made, tuple(replace(one, needs=one.needs | {"crash"}) for one in functions))


def run(path: Path | Inputs, out: Path, workers: int = 0) -> tuple[list[str], Outcome]:
    """Rows and outcome; 0: one box in this process."""
    bounds = Settings(memory=1 << 24, max_instances=1 << 12, seed=5)
    options = [{"out": str(out)}, ""]
    made = (
        WorkerBoxes(stack(), bounds, [], options, workers=workers, isolated=True)
        if workers
        else Box(stack(), bounds, [], options)
    )
    with made as box:
        outcome = box.run(path)
    return out.read_text().splitlines(), outcome


def packet(number: int, text: bytes = b"x") -> bytes:
    return eth(ip4(udp(1000 + number % 60, 53, text), UDP, bytes([10, 0, 0, number % 60]), A4))


def capture(path: Path, special: dict[int, bytes], count: int = 6000) -> Path:
    chances = random.Random(7)
    texts = [special.get(number, b"x" * chances.randrange(1, 900)) for number in range(count)]
    path.write_bytes(pcap([packet(n, text) for n, text in enumerate(texts)], [1000 + n / 1000 for n in range(count)]))
    return path


@pytest.mark.parametrize("workers", [1, 3])
def test_without_a_crash_processes_come_to_what_one_box_comes_to(tmp_path: Path, workers: int) -> None:
    path = capture(tmp_path / "good.pcap", {})
    one, several = run(path, tmp_path / "one"), run(path, tmp_path / "several", workers)
    assert one[0] == several[0] and len(one[0]) == 60
    for name in ("packets", "counters", "reports", "failure", "fault"):
        assert getattr(one[1], name) == getattr(several[1], name), name
    assert several[1].reports["packets of all"] == several[1].reports["seen"] == 6000
    assert several[1].lost_by_crashes == {"crashes": 0, "packets": 0, "flows": 0}
    assert sum(several[1].by_worker) == 6000


def test_a_fault_loses_its_packet_and_the_flows_of_its_worker(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = capture(tmp_path / "bad.pcap", {3000: b"boom"})
    rows, outcome = run(path, tmp_path / "rows", 3)
    lost = outcome.lost_by_crashes
    assert outcome.packets == 6000 == outcome.reports["seen"] + lost["packets"]
    assert outcome.reports["packets of all"] == 5999  # the counters are those before the group of packets
    assert lost["crashes"] == 1 and 1 <= lost["packets"] <= 32 and 0 < lost["flows"] < 60
    said = capfd.readouterr().err
    assert "crashed: Segmentation fault in function fragile, on an event of udp (flow " in said
    assert "at packet 3001; " in said and outcome.failure and outcome.failure in said
    # the flows of the other workers are whole, and those of this one were picked up
    packets = [json.loads(row) for row in rows]
    assert len(packets) == 60
    counted = outcome.counters["udp"]
    assert counted["instances"] - sum(n for name, n in counted.items() if name.startswith("ended:")) == lost["flows"]


TRANSLATES = """
#include "sluice.h"
SLUICE_INLINE
SLUICE_COUNTER(seen, "packets that were seen")
static const uint8_t to[] = {10, 0, 0, 1};
SLUICE_ARRIVAL {
    const struct sl_frame *frame = sl_box_frame(box);
    if (frame->at[42] == 'a')
        *(volatile int *)0 = 1;
    return SLUICE_REWRITE(box, frame->at + 30, to, 4);
}
SLUICE_ON(udp, packet) {
    if (event->unit.at[8] == 'b')
        *(volatile int *)0 = 1;
    SLUICE_COUNTER_OF(event->box, seen)++;
}
"""


@pytest.mark.parametrize("text, on", [(b"b", "udp (flow "), (b"a", "the box, at packet ")])
def test_a_fault_of_a_function_that_translates_loses_its_packet(
    text: bytes, on: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its packets are processed one by one; those that its worker had before are lost with it, and none after."""
    function = read_c_function("translates", TRANSLATES, "translates.c")
    made = compile_stack(small(), (replace(function, needs=function.needs | {"crash"}),))
    path = capture(tmp_path / "in.pcap", {120: text}, 300)
    bounds = Settings(memory=1 << 24, max_instances=1 << 12, seed=5)
    with WorkerBoxes(made, bounds, [], [""], workers=1, isolated=True) as box:
        outcome = box.run(path)
    lost = outcome.lost_by_crashes
    assert lost["crashes"] == 1 and 1 <= lost["packets"] <= 32
    assert outcome.packets == 300 == outcome.reports["seen"] + lost["packets"]
    said = capfd.readouterr().err
    assert (
        f"crashed: Segmentation fault in function translates, on an event of {on}" in said and "at packet 121; " in said
    )


def test_a_process_that_is_killed_loses_the_packets_that_it_had(tmp_path: Path) -> None:
    path = capture(tmp_path / "killed.pcap", {3000: b"stop"})
    _, outcome = run(path, tmp_path / "rows", 2)
    lost = outcome.lost_by_crashes
    assert lost["crashes"] == 1 and 1 <= lost["packets"] <= 32 and lost["flows"] > 0
    assert outcome.reports["seen"] + lost["packets"] == 6000


@pytest.mark.parametrize(
    "text, at", [(b"b", ", at packet 501, on an event of udp (flow "), (b"t", " on an event of udp")]
)
def test_a_crash_of_a_thread_ends_the_box_with_a_report(
    text: bytes, at: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """In a handler of an event, and of a timer. The process ends by the signal, so that there may be a core file."""
    path = capture(tmp_path / "in.pcap", {500: text}, 2000)
    bounds = Settings(memory=1 << 24, max_instances=1 << 12, seed=5)
    stack()
    child = os.fork()
    if not child:
        try:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            options = [{"out": str(tmp_path / "out")}, ""]
            with WorkerBoxes(stack(), bounds, [], options, workers=2, groups=16) as box:
                box.run(path)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGSEGV
    (said,) = [line for line in capfd.readouterr().err.splitlines() if "crashed" in line]
    assert re.match("sluice: error: worker [01] crashed: ", said) and said.endswith("; the box ends")
    assert "crashed: Segmentation fault in function fragile, at packet " in said and at in said


def test_the_first_of_two_crashes_is_reported(tmp_path: Path) -> None:
    """Another thread crashes before the line is written: standard error takes none, as its reader is slow."""
    both = read_c_function("both", BOTH, "both.c")
    made = compile_stack(small(), (replace(both, needs=both.needs | {"crash"}),))
    path = capture(tmp_path / "in.pcap", {}, 200)
    reader, writer = os.pipe()
    full = fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writer, bytes(full))
    child = os.fork()
    if not child:
        try:
            os.dup2(writer, 2)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            with WorkerBoxes(made, Settings(memory=1 << 24, max_instances=1 << 12, seed=5), [], [""], workers=2) as box:
                box.run(path)
        finally:
            os._exit(1)
    os.close(writer)
    time.sleep(0.5)  # longer than between the two
    with os.fdopen(reader, "rb") as said:
        assert said.read().count(b" crashed: Segmentation fault in function both, at packet ") == 1
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGSEGV


def test_it_crashes_again_and_again(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = capture(tmp_path / "often.pcap", dict.fromkeys(range(100, 140), b"boom"))
    _, outcome = run(path, tmp_path / "rows", 2)
    lost = outcome.lost_by_crashes
    assert lost["crashes"] == 40 <= lost["packets"] == 6000 - outcome.reports["seen"]
    assert capfd.readouterr().err.count("crashed") <= 20  # not each is said


def test_a_crash_in_a_timer_and_at_the_end(tmp_path: Path) -> None:
    _, outcome = run(capture(tmp_path / "timer.pcap", {50: b"t"}, 200), tmp_path / "rows", 2)
    assert (
        outcome.lost_by_crashes["crashes"] == 1 and outcome.reports["seen"] + outcome.lost_by_crashes["packets"] == 200
    )


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hello = str(ROOT / "examples" / "first" / "hello.py")
    assert main(["run", hello, "-r", str(FIRST), "--isolate"]) == 2
    assert "--isolate: a function in Python" in capsys.readouterr().err


def test_kill_9_of_a_worker_of_a_run_from_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text(
        "from sluice.lang import Pred, Stack\n"
        "from sluice.protocols.ethernet import ethernet_parser\n"
        "from sluice.protocols.ipv4 import ipv4_parser\n"
        "from sluice.protocols.udp import udp_parser\n"
        'stack = Stack("isolated_out")\n'
        "stack.eth, stack.ip, stack.udp = ethernet_parser(), ipv4_parser(), udp_parser()\n"
        "stack += (stack.eth >> stack.ip) + Pred(stack.eth.header.type == 0x0800)\n"
        "stack += (stack.ip >> stack.udp) + Pred(stack.ip.header.protocol == 17)\n"
    )
    rows, text = tmp_path / "rows", capture(tmp_path / "all.pcap", {}).read_bytes()
    words = [
        "run",
        f"{tmp_path}/small.py",
        "-r",
        "-",
        "-f",
        f"flow_log:out={rows}",
        "--workers",
        "2",
        "--isolate",
        "--json",
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "sluice", *words],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:  # fmt: skip
        assert process.stdin is not None and process.stdout is not None
        half = 24 + (len(text) - 24) // 2
        process.stdin.write(text[:half])
        process.stdin.flush()
        end = time.monotonic() + 120
        while len(children := _children(process.pid)) < 2:
            assert time.monotonic() < end and process.poll() is None
            time.sleep(0.05)
        time.sleep(0.3)
        os.kill(children[0], signal.SIGKILL)
        process.stdin.write(text[half:])
        process.stdin.close()
        summary = json.loads(process.stdout.read())
        assert process.wait() == 1
    lost = summary["lost_by_crashes"]
    assert summary["packets"] == 6000 and lost["crashes"] == 1
    assert summary["box"]["packets"] + lost["packets"] == 6000
    check_conservation(stack().program, {**summary["layers"], "box": summary["box"]})


def _children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(word) for word in found if b"sluice" in Path(f"/proc/{word}/cmdline").read_bytes()]
