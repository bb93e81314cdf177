"""Measures the speed and memory use of compiled stacks, in a child process, so that the figures exclude the caller's.

The C loop (sl_bench in runtime/driver/bench.c) loads the trace. Then the stacks process it alternately, `repeat` times,
each time in a new box, on one pinned thread. Only the loop over the packets is timed; with warm packets, copying them
is not. The ratio of two stacks within a round is reliable even if the single figures are not, because load on the
machine affects both.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sluice.engine.box import CompiledStack, RunError
from sluice.engine.functions import Options
from sluice.engine.inputs import MESSAGE_SIZE
from sluice.engine.options import COptions, Settings, c_options
from sluice.engine.reports import REPORTS_MOST, Report

_PARTS = ("open", "process", "finish", "close")


class _Elapsed(ctypes.Structure):
    """struct sl_elapsed."""

    _fields_ = (("cpu", ctypes.c_uint64), ("wall", ctypes.c_uint64))


class _Stack(ctypes.Structure):
    """struct sl_measured."""

    _fields_ = (
        *((part, ctypes.c_void_p) for part in _PARTS),
        ("options", ctypes.POINTER(COptions)),
        ("results", ctypes.POINTER(_Elapsed)),
        ("counters", ctypes.POINTER(ctypes.c_uint64)),
        ("counter_count", ctypes.c_uint32),
        ("reports", Report * REPORTS_MOST),
        ("report_count", ctypes.c_uint32),
    )


class _Bench(ctypes.Structure):
    """struct sl_bench."""

    _fields_ = (
        ("packets", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("peak_rss_bytes", ctypes.c_uint64),
        ("message", ctypes.c_char * MESSAGE_SIZE),
    )


@dataclass(frozen=True)
class Candidate:
    """What to measure: a compiled stack, the settings of its box, and the options of its functions in C."""

    compiled: CompiledStack
    settings: Settings
    function_options: Sequence[Options] = ()


@dataclass
class Measured:
    """The result of a measurement.

    cpu_ns, wall_ns: the times of each run. peak_rss_bytes: the memory of the trace and the box (with several
    candidates, the largest box) without that of the process before, to the precision of the kernel's counts.
    counters, reports: the values of the last run, by number and by name.
    """

    packets: int
    bytes: int
    cpu_ns: list[int]
    wall_ns: list[int]
    peak_rss_bytes: int
    counters: list[int]
    reports: dict[str, int]


def measure(candidates: Sequence[Candidate], path: str, repeat: int, warm: bool = False) -> list[Measured]:
    """Run the capture at `path` through new boxes of each candidate, alternately, `repeat` times. `warm`: each burst is
    copied into a small ring just before it is processed; the copy is not timed. Raises RunError with the reason.
    """
    asked = {
        "candidates": [
            {
                "library": str(one.compiled.compiled.path),
                "name": one.compiled.generated.name,
                "counters": len(one.compiled.generated.counters),
                "functions": len(one.compiled.functions.c),
                "natives": [module.option for module in one.compiled.program.natives],
                "function_options": [
                    given if isinstance(given, str) else dict(given) for given in one.function_options
                ],
                "settings": asdict(one.settings),
            }
            for one in candidates
        ],
        "path": path,
        "warm": warm,
        "repeat": repeat,
    }
    # functions may write to the child's standard output, so the answer uses a separate pipe
    reading, writing = os.pipe()
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "sluice.engine.measure", str(writing)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=(writing,), env=environment) as child:
        os.close(writing)
        assert child.stdin is not None
        child.stdin.write(json.dumps(asked).encode())
        child.stdin.close()
        with os.fdopen(reading, "rb") as pipe:
            answer = pipe.read()
    if child.returncode or not answer:
        raise RunError(f"the measured process ended with status {child.returncode}")
    found = json.loads(answer)
    if "error" in found:
        raise RunError(found["error"])
    return [Measured(**one) for one in found["measured"]]


def _child(asked: dict[str, Any]) -> dict[str, Any]:
    """In the child process: load the libraries and run."""
    repeat: int = asked["repeat"]
    loaded = [(ctypes.CDLL(one["library"]), one) for one in asked["candidates"]]
    stacks = (_Stack * len(loaded))()
    for stack, (library, one) in zip(stacks, loaded, strict=True):
        for part in _PARTS:
            setattr(stack, part, ctypes.cast(library[f"{one['name']}_{part}"], ctypes.c_void_p))
        settings = Settings(**one["settings"])
        options = c_options(settings, one["function_options"], one["functions"], one["natives"])
        stack.options = ctypes.pointer(options)
        stack.results = (_Elapsed * repeat)()
        stack.counters = (ctypes.c_uint64 * max(1, one["counters"]))()
        stack.counter_count = one["counters"]
    bench = _Bench()
    sl_bench = loaded[0][0].sl_bench
    sl_bench.argtypes = [
        *(ctypes.POINTER(_Stack), ctypes.c_uint, ctypes.c_char_p, ctypes.c_bool, ctypes.c_uint),
        ctypes.POINTER(_Bench),
    ]
    before = _forget_peak()
    path = os.fsencode(asked["path"])
    if sl_bench(stacks, len(stacks), path, asked["warm"], repeat, ctypes.byref(bench)):
        return {"error": bench.message.decode(errors="replace")}
    peak = _status("VmHWM")
    memory = max(peak - before, 0) if peak else int(bench.peak_rss_bytes)
    return {"measured": [asdict(_measured(bench, stack, repeat, memory)) for stack in stacks]}


def _measured(bench: _Bench, stack: _Stack, repeat: int, memory: int) -> Measured:
    reports = stack.reports[: stack.report_count]
    return Measured(
        packets=bench.packets,
        bytes=bench.bytes,
        cpu_ns=[stack.results[run].cpu for run in range(repeat)],
        wall_ns=[stack.results[run].wall for run in range(repeat)],
        peak_rss_bytes=memory,
        counters=[stack.counters[n] for n in range(stack.counter_count)],
        reports={report.full_name: report.value for report in reports},
    )


def _forget_peak() -> int:
    """Reset the kernel's peak of resident memory. Returns the resident bytes now, 0 if the kernel cannot reset it."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return 0  # then the peak includes the Python interpreter
    return _status("VmRSS")


def _status(field: str) -> int:
    """A size of this process from /proc/self/status, in bytes; 0 if it is missing."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def _main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # on Ctrl-C, the parent process reports
    answer = _child(json.loads(sys.stdin.buffer.read()))
    with os.fdopen(int(sys.argv[1]), "wb") as pipe:
        pipe.write(json.dumps(answer).encode())


if __name__ == "__main__":
    _main()
