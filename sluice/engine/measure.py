"""How fast a compiled stack is, and how much memory it takes: in a process of its own, so that both are the
box's.

The C loop (sl_bench in runtime/run.c) loads the trace, then runs it as often as asked, each time in a new
box, on one pinned thread, and times the loop over the packets alone (of warm packets without copying them).
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sluice.engine.box import (
    BenchTotals,
    CompiledStack,
    COptions,
    Elapsed,
    RunError,
    Settings,
    c_options,
)


@dataclass
class Measured:
    """What came out.

    cpu_ns, wall_ns: of each run. peak_rss_bytes: of the trace and the box, without the process that they were in, as
    exact as the kernel counts (some hundred KB). counters, reports: of the last run, by number and by name.
    """

    packets: int
    bytes: int
    cpu_ns: list[int]
    wall_ns: list[int]
    peak_rss_bytes: int
    counters: list[int]
    reports: dict[str, int]


def measure(
    compiled: CompiledStack, settings: Settings, function_options: list[str], path: str, repeat: int, warm: bool = False
) -> Measured:
    """Run the capture at `path` through new boxes, `repeat` times; `warm`: each burst was copied into a small ring
    right before, which is not timed. Raises RunError with the reason if it cannot.
    """
    asked = {
        "library": str(compiled.compiled.path),
        "name": compiled.generated.name,
        "counters": len(compiled.generated.counters),
        "functions": len(compiled.functions.c),
        "natives": [module.option for module in compiled.program.natives],
        "function_options": function_options,
        "settings": asdict(settings),
        "path": path,
        "warm": warm,
        "repeat": repeat,
    }
    # its standard output belongs to the functions, so the answer has a pipe of its own
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
    return Measured(**found)


def _child(asked: dict[str, Any]) -> dict[str, Any]:
    """In the measured process: load the library and run."""
    library = ctypes.CDLL(asked["library"])
    settings = Settings(**asked["settings"])
    options = c_options(settings, asked["function_options"], asked["functions"], asked["natives"])
    repeat: int = asked["repeat"]
    count: int = asked["counters"]
    results = (Elapsed * repeat)()
    counters = (ctypes.c_uint64 * max(1, count))()
    totals = BenchTotals()
    totals.counters = ctypes.cast(counters, ctypes.POINTER(ctypes.c_uint64))
    totals.counter_count = count
    name: str = asked["name"]
    functions = [
        ctypes.cast(library[f"{name}_{part}"], ctypes.c_void_p) for part in ("open", "process", "finish", "close")
    ]
    library.sl_bench.argtypes = [ctypes.c_void_p] * 4 + [
        ctypes.POINTER(COptions),
        ctypes.c_char_p,
        ctypes.c_bool,
        ctypes.c_uint,
        ctypes.POINTER(Elapsed),
        ctypes.POINTER(BenchTotals),
    ]
    before = _forget_peak()
    path = os.fsencode(asked["path"])
    if library.sl_bench(*functions, ctypes.byref(options), path, asked["warm"], repeat, results, ctypes.byref(totals)):
        return {"error": totals.message.decode(errors="replace")}
    peak = _status("VmHWM")
    return asdict(
        Measured(
            packets=totals.packets,
            bytes=totals.bytes,
            cpu_ns=[result.cpu for result in results],
            wall_ns=[result.wall for result in results],
            peak_rss_bytes=max(peak - before, 0) if peak else int(totals.peak_rss_bytes),
            counters=list(counters)[:count],
            reports={totals.reports[n].name.decode(): totals.reports[n].value for n in range(totals.report_count)},
        )
    )


def _forget_peak() -> int:
    """Let the kernel count the peak from here; what is resident now, in bytes (0 where the kernel does not
    say).
    """
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return 0  # then the interpreter is part of the peak
    return _status("VmRSS")


def _status(field: str) -> int:
    """A size of this process in bytes, out of /proc/self/status; 0 where there is none."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def _main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C: the process that asked says what there is to say
    answer = _child(json.loads(sys.stdin.buffer.read()))
    with os.fdopen(int(sys.argv[1]), "wb") as pipe:
        pipe.write(json.dumps(answer).encode())


if __name__ == "__main__":
    _main()
