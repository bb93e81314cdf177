"""`--workers N`: several boxes in threads come to what one box comes to."""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import time
from array import array
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.cli.main import main
from sluice.engine.box import Box, CompiledStack, Outcome, RunError, Settings, compile_stack
from sluice.engine.c_function import read_c_function
from sluice.engine.dispatch import Dispatch
from sluice.engine.functions import find_functions
from sluice.engine.inputs import Inputs
from sluice.engine.workers import WorkerBoxes, refusal, share
from sluice.hooks.function import Functions
from sluice.lang import Pred, Stack
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.tcp import tcp_parser
from sluice.protocols.udp import udp_parser
from tests.support.budget import examples
from tests.support.capture import pcap
from tests.support.conserve import check_conservation
from tests.support.corpus import captures
from tests.support.heavy import heavy
from tests.support.packets import A4, TCP, UDP, eth, ip4, tcp, udp

ROOT = Path(__file__).resolve().parents[2]
FIRST = ROOT / "examples" / "first" / "capture.pcap"

WATCH = """
#include "sluice.h"
#include "output_file.h"
struct all { uint64_t packets, workers; };
SLUICE_COMMON(struct all)
SLUICE_PARAMETER(fails, number, 0, "the packet at which it fails")
SLUICE_PARAMETER(slow, flag, no, "the first packet of each worker takes long")
SLUICE_COUNTER(fired, "timers that fired")
SLUICE_COUNTER(seen, "packets that were seen")
SLUICE_TIMER(udp, soon) { SLUICE_COUNTER_OF(event->box, fired)++; }
SLUICE_ON(udp, created) { SLUICE_ARM(event, udp, soon, 7000000000); }
SLUICE_ON(udp, packet) {
    if (sl_packet_number(event) == SLUICE_PARAMETER_OF(event->box, fails))
        sl_fail(event->box, "watch", "it was to fail here");
    if (SLUICE_PARAMETER_OF(event->box, slow) && !SLUICE_COUNTER_OF(event->box, seen)++) {
        struct timespec time = {0, 300000000};
        nanosleep(&time, NULL);
    }
    SLUICE_LOCK(event->box);
    SLUICE_COMMON_OF(event->box)->packets++;
    SLUICE_UNLOCK(event->box);
}
SLUICE_CLOSE {
    SLUICE_LOCK(box);
    if (++SLUICE_COMMON_OF(box)->workers == SLUICE_WORKERS(box))   /* the last one */
        sl_report(box, "packets of all", SLUICE_COMMON_OF(box)->packets);
    SLUICE_UNLOCK(box);
}
"""


@cache
def stack() -> CompiledStack:
    made = Stack("shared_out")
    made.eth, made.ip, made.tcp, made.udp = ethernet_parser(), ipv4_parser(), tcp_parser(), udp_parser()
    made += (made.eth >> made.ip) + Pred(made.eth.header.type == 0x0800)
    made += (made.ip >> made.tcp) + Pred(made.ip.header.protocol == TCP)
    made += (made.ip >> made.udp) + Pred(made.ip.header.protocol == UDP)
    watch = read_c_function("watch", "#include <time.h>\n" + WATCH, "watch.c")
    return compile_stack(made, (*find_functions(["flow_log"]).c, watch))


def run(
    path: Path | Inputs, workers: int = 0, drops: bool = False, idle: float | None = None, **watch: str
) -> tuple[list[str], Outcome]:
    """Rows and outcome of a run; 0: one box without threads."""
    with tempfile.NamedTemporaryFile() as out:
        bounds = Settings(memory=1 << 24, max_instances=1 << 14, timeouts=idle is not None, idle=idle, seed=5)
        options = [{"out": out.name}, dict(watch)]
        made = (
            WorkerBoxes(stack(), bounds, [], options, workers=workers, drops=drops)
            if workers
            else Box(stack(), bounds, [], options)
        )
        with made as box:
            outcome = box.run(path)
        return Path(out.name).read_text().splitlines(), outcome


def assert_same(one: tuple[list[str], Outcome], other: tuple[list[str], Outcome]) -> None:
    assert one[0] == other[0]  # also in their order
    for name in ("packets", "counters", "reports", "failure", "fault", "refused"):
        assert getattr(one[1], name) == getattr(other[1], name), name


def host(number: int) -> bytes:
    return bytes([10, 0, 0, number])


# a connection by its number, who sends, kind, bytes, and the time after the packet before
packets = st.tuples(
    st.integers(0, 11), st.booleans(), st.sampled_from(["S", "A", "A", "A", "FA", "R", "udp", "udp", "other"]),
    st.integers(0, 300), st.sampled_from([0, 0, 0.01, 1, 4, 11, 40, -3, -20]),
)  # fmt: skip


def capture_of(steps: list[tuple[int, bool, str, int, float]]) -> bytes:
    time, frames, times = 1000.0, list[bytes](), list[float]()
    sent = dict[tuple[int, bool], int]()
    for flow, back, kind, size, after in steps:
        ends = (host(flow), A4, 1000 + flow, 80)
        source, target, sport, dport = (ends[1], ends[0], ends[3], ends[2]) if back else ends
        payload = bytes(size % 251 for _ in range(size))
        if kind == "udp":
            frames.append(eth(ip4(udp(sport, dport, payload), UDP, source, target)))
        elif kind == "other":
            frames.append(payload)  # no packet of the stack, or none that is whole
        else:
            number = sent.get((flow, back), 100)
            sent[flow, back] = number + (1 if set(kind) & {"S", "F"} else 0) + (len(payload) if kind == "A" else 0)
            text = payload if kind == "A" else b""
            frames.append(eth(ip4(tcp(sport, dport, number, kind, text, 0), TCP, source, target)))
        time = max(time + after, 1.0)
        times.append(time)
    return pcap(frames, times)


@settings(max_examples=examples(40, 12), deadline=None)
@given(st.lists(packets, min_size=1, max_size=80), st.integers(1, 4), st.sampled_from([None, 5.0, 30.0]))
def test_workers_come_to_what_one_box_comes_to(
    steps: list[tuple[int, bool, str, int, float]], workers: int, idle: float | None
) -> None:
    with tempfile.NamedTemporaryFile(suffix=".pcap") as file:
        Path(file.name).write_bytes(capture_of(steps))
        assert_same(run(Path(file.name), idle=idle), run(Path(file.name), workers, idle=idle))


def big(path: Path, count: int = 20_000) -> Path:
    chances = random.Random(1)
    kinds = ["S", "A", "A", "A", "FA", "udp"]
    steps = [
        (chances.randrange(250), chances.random() < 0.5, chances.choice(kinds), chances.randrange(700), 0.002)
        for _ in range(count)
    ]
    path.write_bytes(capture_of(steps))
    return path


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return big(tmp_path_factory.mktemp("trace") / "big.pcap")


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_more_packets_than_a_ring_has_room_for(trace: Path, workers: int) -> None:
    one, several = run(trace), run(trace, workers)
    assert_same(one, several)
    assert len(one[0]) > 300 and sum(several[1].by_worker) == 20_000
    check_conservation(stack().program, several[1].counters)


def test_groups_move_from_a_busy_worker_with_all_that_is_theirs(tmp_path: Path) -> None:
    """All connections are those of groups that one worker has at first; rows and counters are those of one box."""
    made = Stack("moves")
    made.eth, made.ip, made.udp = ethernet_parser(), ipv4_parser(), udp_parser()
    made += (made.eth >> made.ip) + Pred(made.eth.header.type == 0x0800)
    made += (made.ip >> made.udp) + Pred(made.ip.header.protocol == UDP)
    functions = (*find_functions(["flow_log"]).c, heavy())
    compiled = compile_stack(made, functions)
    dealt = Dispatch(compiled, 8, seed=5)
    frames = {number: eth(ip4(udp(number, 53, b"text"), UDP, host(number), A4)) for number in range(1, 250)}
    skewed = [frame for frame in frames.values() if dealt.worker(frame) % 2 == 0]
    assert len(skewed) > 60
    path = tmp_path / "skewed.pcap"
    path.write_bytes(pcap([skewed[n * 7 % len(skewed)] for n in range(12_000)]))
    found: list[tuple[list[str], Outcome]] = []
    for groups in (1, 4):
        out = tmp_path / str(groups)
        options = [{"out": str(out)}, {"each": "30" if groups > 1 else "0"}]
        with WorkerBoxes(compiled, Settings(seed=5), [], options, workers=2, groups=groups) as box:
            outcome = box.run(path)
        found.append((out.read_text().splitlines(), outcome))
    assert_same(*found)
    assert found[0][1].groups_moved is None and (found[1][1].groups_moved or 0) >= 1
    assert min(found[1][1].by_worker) > 500 and sum(found[1][1].by_worker) == 12_000


@pytest.mark.parametrize("drops", [False, True])
def test_groups_of_each_worker_come_to_what_one_box_comes_to(trace: Path, drops: bool) -> None:
    with tempfile.NamedTemporaryFile() as out:
        bounds = Settings(memory=1 << 24, max_instances=1 << 14, timeouts=False, seed=5)
        with WorkerBoxes(stack(), bounds, [], [{"out": out.name}, {}], workers=3, groups=5, drops=drops) as box:
            outcome = box.run(trace)
        rows = Path(out.name).read_text().splitlines()
    if not drops:
        assert_same(run(trace), (rows, outcome))
    assert sum(outcome.by_worker) + outcome.received.get("dropped_workers", 0) == 20_000
    assert len(outcome.by_worker) == 3


def test_packets_of_a_stream_are_copied(trace: Path, tmp_path: Path) -> None:
    packed = tmp_path / "big.pcap.gz"
    packed.write_bytes(gzip.compress(trace.read_bytes(), 1))
    assert_same(run(trace), run(packed, 3))


def test_several_files(trace: Path) -> None:
    both = Inputs((f"file:{trace}", f"file:{FIRST}"))
    assert_same(run(both), run(both, 2))


def test_a_packet_larger_than_the_ring(tmp_path: Path) -> None:
    frame = eth(ip4(udp(1, 2, b"x"), UDP, A4, host(1)))
    path = tmp_path / "large.pcap.gz"
    path.write_bytes(gzip.compress(pcap([frame, frame + bytes(5 << 20), *[frame] * 300, frame + bytes(9 << 20)]), 1))
    assert_same(run(path), run(path, 2))


def test_a_damaged_file(trace: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.pcap"
    path.write_bytes(trace.read_bytes()[:-5])
    assert_same(run(path), run(path, 2))
    assert run(path, 2)[1].fault


def test_what_a_function_shares_between_workers(trace: Path) -> None:
    one, several = run(trace)[1].reports, run(trace, 4)[1].reports
    assert several["packets of all"] == one["packets of all"] > 1000


NUMBERS = """
#include "sluice.h"
#include "output_file.h"
struct numbers { FILE *out; };
SLUICE_WORKER(struct numbers)
SLUICE_PARAMETER(out, text, "", "rows")
SLUICE_OPEN { return !(SLUICE_WORKER_OF(box)->out = sl_output_file_open(box, SLUICE_PARAMETER_OF(box, out))); }
SLUICE_ON(any, created) {
    if (!event->instance)
        return;
    fprintf(SLUICE_WORKER_OF(event->box)->out, "%llu ", (unsigned long long)sl_packet_number(event));
    fprintf(SLUICE_WORKER_OF(event->box)->out, "%llu\\n", (unsigned long long)sl_event_number(event));
}
SLUICE_CLOSE { sl_rows_close(box, SLUICE_WORKER_OF(box)->out, "numbers"); }
"""


def test_rows_of_any_function_are_in_the_order_of_packets_and_numbers_are_unique(trace: Path, tmp_path: Path) -> None:
    made = Stack("plain")
    made.eth, made.ip, made.tcp = ethernet_parser(), ipv4_parser(), tcp_parser()
    made += (made.eth >> made.ip) + Pred(made.eth.header.type == 0x0800)
    made += (made.ip >> made.tcp) + Pred(made.ip.header.protocol == TCP)
    function = read_c_function("numbers", NUMBERS, "numbers.c")
    account = find_functions(["account"]).c[0]
    compiled = compile_stack(made, (function, account))
    found: list[list[tuple[int, ...]]] = []
    accounts: list[list[str]] = []
    for workers in (1, 4):
        outs = [{"out": str(tmp_path / name)} for name in ("rows", "accounts")]
        with WorkerBoxes(compiled, Settings(seed=5), [], outs, workers=workers) as box:
            box.run(trace)
        rows = [line.split() for line in (tmp_path / "rows").read_text().splitlines()]
        found.append([tuple(map(int, row)) for row in rows])
        accounts.append(sorted((tmp_path / "accounts").read_text().splitlines()))
    assert [row[0] for row in found[0]] == [row[0] for row in found[1]]
    assert len({row[1] for row in found[1]}) == len(found[1]) > 100 and max(found[1])[1] < 2**53
    assert accounts[0] == accounts[1] and len(accounts[0]) > 50


def test_a_function_that_fails_ends_the_run_with_its_text(trace: Path) -> None:
    number = next(n for n in range(50, 20_000) if run(trace, fails=str(n))[1].failure)  # the first of UDP
    outcome = run(trace, 3, fails=str(number))[1]
    assert outcome.failure == "watch: it was to fail here"
    assert not outcome.stopped and 0 < outcome.packets <= 20_000
    check_conservation(stack().program, outcome.counters)


def test_packets_without_room_are_counted(trace: Path) -> None:
    outcome = run(trace, 2, drops=True, slow="yes")[1]
    assert outcome.packets == 20_000 == sum(outcome.by_worker) + outcome.received["dropped_workers"]
    check_conservation(stack().program, outcome.counters)


def test_packets_of_the_caller() -> None:
    frames = [
        (eth(ip4(udp(port, 9, b"text"), UDP, A4, host(port % 9))), port * 10**9, 1, None) for port in range(1, 900)
    ]
    with tempfile.NamedTemporaryFile() as out:
        with WorkerBoxes(stack(), Settings(seed=1), [], [{"out": out.name}, {}], workers=2) as box:
            box.burst(frames)
            box.finish()
            assert box.counters()["box"]["packets"] == 899 and box.reports()["flows"] == 899
        assert len(Path(out.name).read_text().splitlines()) == 899


def test_copies_for_a_trial_that_find_no_room_are_counted() -> None:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    frame = (eth(ip4(udp(1, 9, bytes(1000)), UDP, A4, host(1))), 10**9, 1, None)
    with here, there, tempfile.NamedTemporaryFile() as out:
        with Box(stack(), Settings(seed=1), [], [{"out": out.name}, {}]) as box:
            box.drive.trial = here.fileno()
            box.burst([frame] * 3000)
            box.drive.trial = 0
            there.setblocking(False)
            got = 0
            with contextlib.suppress(BlockingIOError):
                while there.recv(1 << 16):
                    got += 1
            assert got > 0 and box.drive.trial_left_out == 3000 - got > 0


def test_a_box_that_is_closed_early(trace: Path) -> None:
    with tempfile.NamedTemporaryFile() as out:
        with WorkerBoxes(stack(), Settings(seed=1), [], [{"out": out.name}, {}], workers=2) as box:
            box.packet(eth(ip4(udp(1, 9, b"text"), UDP, A4, host(1))))
        with WorkerBoxes(stack(), Settings(seed=1), [], [{"out": out.name}, {}], workers=2):
            pass

        def fails(*_: int) -> bool:
            raise ValueError("a fault of the caller's")

        with (
            WorkerBoxes(stack(), Settings(seed=1), [], [{"out": out.name}, {}], workers=2) as box,
            pytest.raises(ValueError, match="caller's"),
        ):
            box.run(trace, fails)


def test_rows_that_cannot_be_written(trace: Path) -> None:
    bounds = Settings(memory=1 << 24, max_instances=1 << 14, seed=5)
    with WorkerBoxes(stack(), bounds, [], [{"out": "/dev/full"}, {}], workers=2) as box:
        assert "/dev/full: the rows could not all be written: No space left" in (box.run(trace).failure or "")


def test_a_file_that_cannot_be_created() -> None:
    with pytest.raises(RunError, match="a function refused"):
        WorkerBoxes(stack(), Settings(seed=5), [], [{"out": "/nowhere/rows"}, {}], workers=2)


def test_bounds_are_divided() -> None:
    part = share(Settings(memory=1 << 30, max_instances=10, seed=3), 4)
    assert (part.memory, part.max_instances, part.seed) == (1 << 28, 3, 3)
    assert share(Settings(max_instances=1, memory=1 << 16), 8).max_instances == 1
    assert share(Settings(), 2).seed is not None  # one for all


def test_what_needs_one_worker_is_refused() -> None:
    assert refusal(1, [object()], True, "out") is None
    assert "-w out.pcap" in (refusal(2, output="out.pcap") or "")
    assert "Python" in (refusal(2, [object()]) or "")
    with pytest.raises(RunError, match="from 1 to 64"):
        WorkerBoxes(stack(), workers=65)


def test_the_command_line_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hello = str(ROOT / "examples" / "first" / "hello.py")
    assert main(["run", hello, "-r", str(FIRST), "--workers", "2"]) == 2
    assert "write the function in C" in capsys.readouterr().err
    own = tmp_path / "own.c"
    own.write_text('#include "sluice.h"\nSLUICE_INLINE\nSLUICE_ARRIVAL { return false; }\nSLUICE_ON(tcp, packet) {}\n')
    for function, name in (("nat", "nat"), (str(own), "own")):
        assert main(["run", "tcp_ip", "-r", str(FIRST), "-f", function, "--workers", "2"]) == 2
        assert f"--workers 2: {name} translates packets when they arrive: give one worker" in capsys.readouterr().err
    with pytest.raises(RunError, match="own translates packets when they arrive: give one worker"):
        WorkerBoxes(
            replace(stack(), functions=Functions((read_c_function("own", own.read_text(), str(own)),))), workers=2
        )
    guard = str(ROOT / "examples" / "chain" / "guard.py")
    assert main(["chain", guard, "-i", "lo", "--forward", "eth9", "--workers", "2"]) == 2
    assert "write the function in C" in capsys.readouterr().err


SMALL = """
from sluice.lang import Pred, Stack
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.tcp import tcp_parser
from sluice.protocols.udp import udp_parser

stack = Stack("small")
stack.eth, stack.ip, stack.tcp, stack.udp = ethernet_parser(), ipv4_parser(), tcp_parser(), udp_parser()
stack += (stack.eth >> stack.ip) + Pred(stack.eth.header.type == 0x0800)
stack += (stack.ip >> stack.tcp) + Pred(stack.ip.header.protocol == 6)
stack += (stack.ip >> stack.udp) + Pred(stack.ip.header.protocol == 17)
"""


def test_a_signal_ends_it_cleanly(trace: Path, tmp_path: Path) -> None:
    """A pipe that stays open: all that came in is processed, rows and summary come, with status 0."""
    (tmp_path / "small.py").write_text(SMALL)
    out = tmp_path / "rows"
    words = ["flows", "--workers", "2", "-r", "-", "--stack", str(tmp_path / "small.py"), "-o", str(out), "--json"]
    with (tmp_path / "printed").open("w+") as printed, (tmp_path / "errors").open("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "sluice", *words],
            stdin=subprocess.PIPE, stdout=printed, stderr=errors, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(trace.read_bytes())  # it waits until the box has read most of it
        process.stdin.flush()
        waiting = array("i", [1])
        while waiting[0]:
            fcntl.ioctl(process.stdin, termios.FIONREAD, waiting)
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0, Path(errors.name).read_text()
        summary = json.loads(Path(printed.name).read_text())
    assert summary["stopped"] and summary["packets"] == sum(summary["packets_by_worker"]) == 20_000
    assert len(out.read_text().splitlines()) == len(run(trace)[0])


@pytest.mark.corpus
@pytest.mark.slow_matrix
@pytest.mark.parametrize("workers", [2, 4])
def test_the_corpus_gives_the_same_rows(workers: int) -> None:
    for path in captures():
        assert_same(run(path), run(path, workers))
        assert_same(run(path, idle=5), run(path, workers, idle=5))


@pytest.mark.corpus
def test_a_sample_of_the_corpus_gives_the_same_rows() -> None:
    for path in captures()[::12]:
        assert_same(run(path, idle=20), run(path, 2, idle=20))
