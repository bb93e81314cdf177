"""`sluice reload`: a running box gets a new version of a function, and loses no flow and no packet."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sluice.cli.common.monitoring import ask
from sluice.cli.main import main
from sluice.engine.c_function import declared_types, read_c_function
from tests.support.capture import pcap
from tests.support.packets import eth, ip4, tcp
from tests.support.unoptimised import unoptimised

ROOT = Path(__file__).resolve().parents[2]
STACK = "from tests.chain.running import small_stack\n\nstack = small_stack()\n"
COUNT = """
#include "sluice.h"
#include "output_file.h"
struct flow { uint64_t segments; };
SLUICE_STATE(struct flow)
struct all { uint64_t segments; FILE *out; };
SLUICE_WORKER(struct all)
SLUICE_PARAMETER(out, text, "", "the file of rows")
SLUICE_PARAMETER(word, text, "old", "in rows")
SLUICE_COUNTER(seen, "segments")
SLUICE_OPEN {
    return !(SLUICE_WORKER_OF(box)->out = sl_output_file_open(box, SLUICE_PARAMETER_OF(box, out)));
}
SLUICE_ON(tcp, packet) {
    SLUICE_STATE_OF(event)->segments++;
    SLUICE_WORKER_OF(event->box)->segments++;
    SLUICE_COUNTER_OF(event->box, seen)++;
}
SLUICE_ON(tcp, end) {
    fprintf(SLUICE_WORKER_OF(event->box)->out, "%s flow %d\\n", SLUICE_PARAMETER_OF(event->box, word),
            (int)SLUICE_STATE_OF(event)->segments);
}
SLUICE_CLOSE {
    fprintf(SLUICE_WORKER_OF(box)->out, "%s closes %d\\n", SLUICE_PARAMETER_OF(box, word),
            (int)SLUICE_WORKER_OF(box)->segments);
    fclose(SLUICE_WORKER_OF(box)->out);
}
"""
FLOWS = 20


def segments(count: int, first: int) -> bytes:
    """The next segments of 20 connections, as packets of a capture."""
    frames: list[bytes] = []
    for number in range(first, first + count):
        for flow in range(FLOWS):
            frames.append(eth(ip4(tcp(1000 + flow, 80, 100 + number, "A", b"x", 1))))
    return pcap(frames)[24:]


class Running:
    """A box on a file that grows."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.capture, self.socket, self.rows = folder / "in.pcap", folder / "box.sock", folder / "rows"
        self.capture.write_bytes(pcap([]))
        (folder / "stack.py").write_text(STACK)
        (folder / "count.c").write_text(COUNT)
        self.sent, self.folder = 0, folder
        given = [str(folder / "stack.py"), "-r", str(self.capture), "--follow", "--json", "--no-timeouts"]
        given += ["-f", f"{folder / 'count.c'}:out={self.rows}", "--control", str(self.socket), *words]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sluice", "run", *given],
            stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        self.wait(lambda: self.socket.exists())

    def wait(self, done: Any) -> None:
        end = time.monotonic() + 300
        while not done():
            assert self.process.poll() is None and time.monotonic() < end
            time.sleep(0.05)

    def send(self, count: int) -> None:
        """So many more segments of each connection, until the box has processed them."""
        with self.capture.open("ab") as out:
            out.write(segments(count, self.sent))
        self.sent += count
        self.wait(lambda: ask(str(self.socket)).layers["box"]["packets"] == self.sent * FLOWS)

    def reload(self, *words: str) -> int:
        return main(["reload", str(self.socket), *words])

    def edit(self, *pairs: tuple[str, str]) -> None:
        text = COUNT
        for old, new in pairs:
            assert old in text
            text = text.replace(old, new)
        (self.folder / "count.c").write_text(text)

    def stop(self) -> dict[str, Any]:
        self.process.send_signal(signal.SIGTERM)
        text, _ = self.process.communicate(timeout=120)
        assert self.process.returncode == 0
        return json.loads(text)


@pytest.fixture(autouse=True)
def compiled_in_a_short_time() -> Generator[None]:
    with unoptimised():
        yield


@pytest.fixture
def running(tmp_path: Path, request: pytest.FixtureRequest) -> Generator[Running]:
    made = Running(tmp_path, *getattr(request, "param", ()))
    yield made
    made.process.kill()
    made.process.wait()


@pytest.mark.parametrize(
    "running",
    [(), pytest.param(("--workers", "2"), marks=pytest.mark.slow_matrix)],
    ids=["one box", "two workers"],
    indirect=True,
)
def test_state_is_kept_or_starts_anew_by_its_type(running: Running, capsys: pytest.CaptureFixture[str]) -> None:
    running.send(3)
    running.edit(("segments++;\n    SLUICE_WORKER", "segments += 100;   /* more */\n    SLUICE_WORKER"))
    assert running.reload("count:word=new", "--no-trial") == 0
    assert "state of flows is kept\nstate of the worker is kept" in capsys.readouterr().out
    running.send(2)
    # another type of state: the box has 3 + 200 in each flow, which are given up; the worker's state is kept
    running.edit(("{ uint64_t segments; };", "{ char more[40]; uint32_t segments; };"))
    assert running.reload("count", "--no-trial") == 0
    assert "state of flows starts anew: its type is another one\nstate of the worker is kept" in capsys.readouterr().out
    running.send(4)
    # the same once more with the third version's type, which is next to instances
    running.edit(("{ uint64_t segments; };", "{ char more[40]; uint32_t segments; };"), ("%s flow", "%s last"))
    assert running.reload("count", "--no-trial") == 0
    running.send(1)
    summary = running.stop()
    rows = running.rows.read_text().splitlines()
    assert rows.count("new last 5") == FLOWS
    closes = [int(row.split()[2]) for row in rows if row.startswith("new closes")]
    assert sum(closes) == summary["packets"] == 10 * FLOWS and summary["reports"]["seen"] == 10 * FLOWS


MANY = """
#include "sluice.h"
SLUICE_COUNTER(first, "calls of handler 0")
SLUICE_COUNTER(last, "calls of handler 69")
SLUICE_ON(tcp, created) { SLUICE_REGISTER_FLOW(event, tcp, own69); SLUICE_DEREGISTER_FLOW(event, tcp, own0); }
SLUICE_OPEN { SLUICE_REGISTER(box, tcp, own0); return 0; }
""" + "".join(
    f"""
SLUICE_EVENT(tcp, own{n}, packet) {{ return true; }}
SLUICE_ON_DEMAND(tcp, own{n}) {{ SLUICE_COUNTER_OF(event->box, {"last" if n == 69 else "first"}) += 1; }}"""
    for n in range(70)
)


def test_registrations_of_many_handlers_outlive_a_reload(tmp_path: Path) -> None:
    """Those of flows, in the second word of bits, and those for all, in the first one."""
    many = tmp_path / "many.c"
    many.write_text(MANY)
    running = Running(tmp_path, "-f", str(many))
    try:
        running.send(3)
        many.write_text(MANY.replace("last) += 1", "last) += 100"))
        assert running.reload("many", "--no-trial") == 0
        running.send(2)
        reports = running.stop()["reports"]
        assert (reports["first"], reports["last"]) == (0, (3 + 2 * 100) * FLOWS)
    finally:
        running.process.kill()
        running.process.wait()


def test_a_version_with_other_objects_closes_the_old_one(running: Running, capsys: pytest.CaptureFixture[str]) -> None:
    running.send(2)
    running.edit(("struct all { uint64_t", "struct all { int more; uint64_t"), ('"old"', '"second"'))
    assert running.reload("count", "--no-trial") == 0
    assert "state of the worker starts anew" in capsys.readouterr().out
    running.send(3)
    running.stop()
    rows = running.rows.read_text().splitlines()
    assert sum(int(row.split()[2]) for row in rows if row.startswith("old closes")) == 2 * FLOWS
    assert sum(int(row.split()[2]) for row in rows if row.startswith("second closes")) == 3 * FLOWS
    assert rows.count("second flow 5") == FLOWS


@pytest.mark.slow_matrix
def test_a_version_that_crashes_or_hangs_or_fails_is_refused(
    running: Running, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The trial gets the packets that arrive meanwhile; the box processes them by the old version."""
    running.send(1)
    for line, said in (
        ("*(volatile int *)0 = 1;", "crashed in the trial: SIGSEGV"),
        ('sl_fail(event->box, "count", "of no use");', "failed in the trial: count: of no use"),
        ('for (;;) __asm__ volatile("");', "does not end"),
    ):
        running.edit(("    SLUICE_COUNTER_OF", f"    {line}\n    SLUICE_COUNTER_OF"))
        trial = subprocess.Popen(
            [sys.executable, "-m", "sluice", "reload", str(running.socket), "count", "--trial", "2"],
            stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        while trial.poll() is None:
            running.send(1)
            with suppress(subprocess.TimeoutExpired):
                trial.wait(0.2)
        assert trial.stderr is not None
        text = trial.stderr.read()
        assert trial.returncode == 1 and said in text and "keeps the version that it has" in text
    running.edit(("%s flow", "%s good"))
    assert running.reload("count", "--trial", "0.2") == 0
    assert "packets in the trial" in capsys.readouterr().out
    running.stop()
    rows = running.rows.read_text().splitlines()
    assert rows.count(f"old good {running.sent}") == FLOWS, "by the new code, with the flows of the old one"


@pytest.mark.slow_matrix
def test_what_was_opened_is_closed_if_another_worker_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    running = Running(tmp_path, "--workers", "2")
    closed = tmp_path / "closed"
    try:
        running.send(1)
        running.edit(
            ('SLUICE_PARAMETER(word, text, "old"', 'static int opened;\nSLUICE_PARAMETER(word, text, "new"'),
            ("struct all { uint64_t segments;", "struct all { uint64_t segments, more;"),  # so that it is opened
            ("SLUICE_OPEN {", "SLUICE_OPEN {\n    if (opened++) return 1;"),
            (
                "SLUICE_CLOSE {",
                f'SLUICE_CLOSE {{\n    FILE *f = fopen("{closed}", "a"); fputs("closed", f); fclose(f);',
            ),
        )
        assert running.reload("count", "--no-trial") == 1
        assert "count refuses to open" in capsys.readouterr().err
        assert closed.read_text() == "closed"
        running.send(1)
    finally:
        running.stop()


def test_what_a_box_cannot_take(running: Running, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    running.send(1)
    for words, said in (
        (["other"], "the box has no function 'other' in C: it has count"),
        (["count=missing.c"], "missing.c: no such file"),
    ):
        assert running.reload(*words) == 1
        assert said in capsys.readouterr().err
    running.edit(("SLUICE_OPEN {", "SLUICE_TIMER(tcp, later) {}\nSLUICE_OPEN {"))
    assert running.reload("count") == 1
    assert "timers: other than those that the box began with" in capsys.readouterr().err
    running.edit(("SLUICE_OPEN {", "SLUICE_ARRIVAL { return false; }\nSLUICE_OPEN {"))
    assert running.reload("count") == 1
    assert "SLUICE_ARRIVAL: connections of the box have the ends" in capsys.readouterr().err
    running.edit(
        ("SLUICE_OPEN {", "SLUICE_OPEN {\n    if (box) return 1;"),
        ("{ uint64_t segments; FILE", "{ int a; uint64_t segments; FILE"),
    )
    assert running.reload("count", "--no-trial") == 1
    assert "count refuses to open" in capsys.readouterr().err
    running.send(1)
    running.stop()
    assert running.rows.read_text().splitlines().count("old flow 2") == FLOWS


def test_a_type_is_compared_with_those_that_it_is_made_of(tmp_path: Path) -> None:
    def state(text: str) -> str:
        body = f'#include "sluice.h"\n{text}\nSLUICE_STATE(struct flow)\nSLUICE_ON(tcp, packet) {{}}\n'
        return declared_types(read_c_function("f", body, str(tmp_path / "f.c")))["state"]

    base = "enum { N = 4 };\nstruct part { int a; };\nstruct flow { struct part parts[N]; };"
    assert state(base) == state("/* x */ static int g(void) { return 1; }\n" + base.replace("\n", "\n\n"))
    for old, new in (("N = 4", "N = 5"), ("int a", "long a"), ("parts[N]", "parts[N + 1]")):
        assert state(base) != state(base.replace(old, new))
