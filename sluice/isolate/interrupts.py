"""Measures the part of an interrupt that no probe sees: entry into the kernel, exit, and on a virtual machine the
hypervisor's share of both. A process that reads the clock without pause sees all of it, as the victim of traffic does.
"""

from __future__ import annotations

import bisect
import contextlib
import os
import statistics
import subprocess
import time
from dataclasses import dataclass

from sluice.isolate.accounting import HOST, Accounting
from sluice.isolate.build import compiled_gaps

MILLISECONDS = 400
"""How long it is measured by default."""
_PAUSE = 100e-6
"""Seconds between two interrupts: the clock reader runs undisturbed in between."""
_THRESHOLD = 500
_LONGEST = 100_000
"""Nanoseconds of gaps that may be an interrupt; a longer one is another task's time slice."""
_ENOUGH = 50
"""Interrupts that must have been measured."""
_QUARTILE = 4
"""The charge is the lower quartile of the measurements: other load on the machine only adds."""


@dataclass(frozen=True)
class InterruptCost:
    """The measurements."""

    hidden_ns: int
    """Charged per network interrupt, in addition to its probed part."""
    seen_ns: int
    """The part of the measured interrupts that the probes saw."""
    samples: int
    """0 where it could not be measured."""
    why_not: str = ""
    """Why it could not be measured; empty if it was."""


@dataclass(frozen=True)
class _Sent:
    """An interrupt that was sent: when, by the monotonic clock, and its probed part."""

    begin: int
    end: int
    seen: int


def measure(accounting: Accounting, milliseconds: int = MILLISECONDS) -> InterruptCost:
    """Interrupt a CPU on which a process reads the clock, and compare its gaps with the probes' times. Both are
    busy for the given time.
    """
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        return InterruptCost(0, 0, 0, "one CPU cannot interrupt itself")
    if {"call_function_single_entry", "call_function_single_exit"} & set(accounting.missing):
        return InterruptCost(0, 0, 0, "the kernel has no tracepoint of inter-processor interrupts")
    target = cpus[0]
    policy = os.sched_getscheduler(0)
    try:
        os.sched_setaffinity(0, set(cpus[1:]))
        _prefer(0, os.SCHED_FIFO, 1)
        sent, output = _interrupt(accounting, target, milliseconds)
    finally:
        os.sched_setaffinity(0, set(cpus))
        _prefer(0, policy, 0)
    step, gaps = _parse(output)
    hidden = sorted(found for one in sent if (found := _hidden(one, step, gaps)) is not None)
    if len(hidden) < _ENOUGH:
        return InterruptCost(0, 0, len(hidden), f"only {len(hidden)} of {len(sent)} interrupts could be measured")
    seen = statistics.median(one.seen for one in sent)
    return InterruptCost(max(0, hidden[len(hidden) // _QUARTILE]), round(seen), len(hidden))


def _prefer(process: int, policy: int, priority: int) -> None:
    """Set the scheduling policy of a process, if it may be set: else other tasks take turns, and less is measured."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(process, policy, os.sched_param(priority))


def _interrupt(accounting: Accounting, target: int, milliseconds: int) -> tuple[list[_Sent], str]:
    """Send interrupts while the clock is read; returns these, and its output."""
    sent: list[_Sent] = []
    command = [str(compiled_gaps()), str(target), str(milliseconds), str(_THRESHOLD)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        _prefer(process.pid, os.SCHED_FIFO, 1)
        process.stdout.readline()
        end = time.monotonic() + milliseconds / 1000
        while time.monotonic() < end:
            before = accounting.read_cpu(HOST, target)
            begin = time.monotonic_ns()
            accounting.interrupt(target)
            finish = time.monotonic_ns()
            time.sleep(_PAUSE)
            after = accounting.read_cpu(HOST, target)
            if after.interrupts == before.interrupts + 1:
                sent.append(_Sent(begin, finish, after.measured_ns - before.measured_ns))
        output, _ = process.communicate()
    return sent, output


def _parse(output: str) -> tuple[int, list[tuple[int, int]]]:
    """The median step, and the gaps by start."""
    step, *rows = output.split("\n")
    return int(step or 0), [(int(row.split()[0]), int(row.split()[1])) for row in rows if row]


def _hidden(one: _Sent, step: int, gaps: list[tuple[int, int]]) -> int | None:
    """The cost of an interrupt beside its probed part; None if it is not in exactly one gap, as when the clock was
    not read at that time.
    """
    first = bisect.bisect_left(gaps, (one.begin, 0))
    inside = [length for start, length in gaps[first : first + 3] if start <= one.end]
    if len(inside) != 1 or not one.seen < inside[0] < _LONGEST:
        return None
    return inside[0] - step - one.seen
