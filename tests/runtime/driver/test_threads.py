"""Boxes in threads, under the thread sanitizer: no data of one worker is touched by another without order."""

from __future__ import annotations

import json
import os
import random
import subprocess
from functools import cache
from pathlib import Path

import pytest

from sluice.cli.main import main
from sluice.engine.compiler import compiler
from tests.support.capture import pcap
from tests.support.packets import A4, B4, UDP, eth, ip4, udp

HERE = Path(__file__).resolve().parent
STACK = """
from sluice.lang import Pred, Stack
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.udp import udp_parser

stack = Stack("pair")
stack.eth, stack.ip, stack.udp = ethernet_parser(), ipv4_parser(), udp_parser()
stack += (stack.eth >> stack.ip) + Pred(stack.eth.header.type == 0x0800)
stack += (stack.ip >> stack.udp) + Pred(stack.ip.header.protocol == 17)
"""
COMMON = """
#include "sluice.h"
struct all { uint64_t packets, closed; };
SLUICE_COMMON(struct all)
SLUICE_ON(udp, packet) {
    SLUICE_LOCK(event->box);
    SLUICE_COMMON_OF(event->box)->packets++;
    SLUICE_UNLOCK(event->box);
}
SLUICE_CLOSE {
    SLUICE_LOCK(box);
    SLUICE_COMMON_OF(box)->closed++;
    SLUICE_UNLOCK(box);
}
"""
THREADS = ["-std=gnu11", "-O1", "-g", "-fsanitize=thread", "-Wno-tsan"]


@cache
def why_not() -> str:
    """What keeps a program with the sanitizer from running here; empty when it can."""
    words = [*compiler(), "-fsanitize=thread", "-x", "c", "-", "-o", "/dev/null"]
    built = subprocess.run(words, input=b"int main(void) { return 0; }", capture_output=True, timeout=300)
    return f"{compiler()[0]} comes without the thread sanitizer" if built.returncode else ""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("threads")
    (folder / "pair.py").write_text(STACK)
    (folder / "common.c").write_text(COMMON)
    assert main(["build", f"{folder}/pair.py", "-o", f"{folder}/c", "-f", f"flow_log,{folder}/common.c"]) == 0
    built = folder / "c"
    sources = [built / "pair.c", *built.glob("runtime/driver/*.c"), *built.glob("runtime/io/*.c")]
    includes = [f"-I{built / name}" for name in (".", "runtime", "runtime/function", "runtime/native")]
    defined = ["-include", str(built / "pair_symbols.h"), '-DSTACK_HEADER="pair.h"', "-DSTACK=pair"]
    words = [*compiler(), *THREADS, *includes, *defined, *map(str, sources), str(HERE / "workers_main.c")]
    done = subprocess.run(
        [*words, "-o", str(folder / "program"), "-ldl", "-lm"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return folder / "program"


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    chances = random.Random(38)
    packets = [
        eth(ip4(udp(chances.randrange(1, 200), 9, b"x" * chances.randrange(1400)), UDP, chances.choice([A4, B4]), B4))
        for _ in range(6000)
    ]
    times = [1000 + number / 50 + chances.choice([0, 0, 0, -2]) for number in range(len(packets))]
    path = tmp_path_factory.mktemp("capture") / "pair.pcap"
    path.write_bytes(pcap(packets, times))
    for workers, folder in ((1, "alone"), (3, "three")):  # each worker's own file; no flow expires
        for worker in range(workers):
            part = packets[worker::workers]
            own = path.parent / folder / f"pair.pcap.{worker}"
            own.parent.mkdir(exist_ok=True)
            own.write_bytes(pcap(part, [1000.0] * len(part)))
    return path


@pytest.mark.skipif(bool(why_not()), reason=why_not())
@pytest.mark.parametrize("how", ["ordered", "live", "copied", "moving"])
def test_two_boxes_in_two_threads(program: Path, capture: Path, tmp_path: Path, how: str) -> None:
    rows: list[list[str]] = []
    for workers in (1, 2):
        counted, written = run(program, capture, workers, tmp_path, how)
        assert sum(counted) == 6000 and len(counted) == workers * (3 if how == "moving" else 1)
        rows.append(written)
    assert len(rows[0]) > 100
    assert sorted(rows[0]) == sorted(rows[1]) if how == "live" else rows[0] == rows[1]


def run(program: Path, capture: Path, workers: int, folder: Path, how: str) -> tuple[list[int], list[str]]:
    """The packets of each box, and the rows."""
    out = folder / f"rows{workers}"
    done = subprocess.run(
        ["setarch", "-R", str(program), str(capture), str(workers), str(out), how],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "TSAN_OPTIONS": "halt_on_error=1 exitcode=66"},
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-4000:])
    return [int(word) for word in done.stdout.split()], out.read_text().splitlines()


def of_flows(rows: list[str]) -> list[tuple[object, ...]]:
    """What does not depend on the order of the packets of different files."""
    found = [json.loads(row) for row in rows]
    return sorted((row["src"], row["sport"], row["src_pkts"], row["src_payload"]) for row in found)


@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_each_worker_hands_over_what_others_are_to_process(program: Path, capture: Path, tmp_path: Path) -> None:
    """Three workers receive packets of each other, as from queues of a card that divides them by another hash."""
    alone, rows = run(program, capture.parent / "alone" / "pair.pcap", 1, tmp_path, "own")
    counted, divided = run(program, capture.parent / "three" / "pair.pcap", 3, tmp_path, "own")
    assert alone == [6000] and sum(counted) == 6000 and sorted(counted)[1] > 1000
    assert of_flows(rows) == of_flows(divided) and len(rows) > 100
