"""Runs many sets of captures in several processes: `--jobs N`.

If a process dies, only its current set is lost. Rows are in the order of the sets, whichever ends first:
those of a later set wait in a temporary file.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path

from sluice.cli.common.errors import CommandError
from sluice.cli.common.progress import progress_line
from sluice.engine.box import Outcome, RunError
from sluice.engine.inputs import InputError
from sluice.report.capture_sets import CaptureSet

Report = Callable[[int, int, int], bool]
"""Gets the bytes read of the input, its size, and the number of packets; returns whether to stop."""
Work = Callable[[CaptureSet, str, Report], Outcome]
"""Processes one set, and writes its rows to a file."""
_SECONDS = 0.2
"""Between two reports of one process."""


@dataclass
class Done:
    """The outcome of one set."""

    captures: CaptureSet
    outcome: Outcome


@dataclass
class _Job:
    process: SpawnProcess
    connection: Connection
    number: int = -1
    """Of its current set; -1 if it has none."""
    progress: tuple[int, int] = (0, 0)
    """Bytes read of it, and packets."""


class Jobs:
    """Processes that handle one set after the other.

    prepare: called in each process, before its first set; must be picklable. take: gets the rows of each set, in order.
    at_once: the number of processes.
    """

    def __init__(self, prepare: Callable[[], Work], take: Callable[[CaptureSet, Path], None], at_once: int) -> None:
        self._prepare, self._take, self._at_once = prepare, take, at_once
        self._jobs: list[_Job] = []
        self._done: dict[int, Outcome] = {}

    def run(self, sets: Sequence[CaptureSet]) -> list[Done]:
        """Process all sets. After Ctrl-C, those that have begun end early, and others do not begin."""
        sizes = [captures.size() for captures in sets]
        waiting, taken = list(range(len(sets)))[::-1], 0
        with tempfile.TemporaryDirectory(prefix="sluice-jobs-") as folder, progress_line() as show, self._ended():
            rows = [Path(folder) / f"{number}.jsonl" for number in range(len(sets))]
            while waiting or self._busy():
                try:
                    while waiting and (job := self._free()):
                        number = waiting.pop()
                        job.number, job.progress = number, (0, 0)
                        try:
                            job.connection.send((sets[number], str(rows[number])))
                        except OSError:  # it died between two sets: another process handles this one
                            waiting.append(number)
                            self._remove(job)
                    self._receive()
                except KeyboardInterrupt:
                    waiting.clear()
                    self._interrupt()
                while taken in self._done:
                    self._take(sets[taken], rows[taken])
                    rows[taken].unlink(missing_ok=True)
                    taken += 1
                if show:
                    show(*self._progress(sizes))
        return [Done(sets[number], self._done[number]) for number in sorted(self._done)]

    def _busy(self) -> list[_Job]:
        return [job for job in self._jobs if job.number >= 0]

    def _free(self) -> _Job | None:
        """A process without a set, perhaps a new one; None if there are enough."""
        free = next((job for job in self._jobs if job.number < 0), None)
        return free or (self._start() if len(self._jobs) < self._at_once else None)

    def _start(self) -> _Job:
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        process = context.Process(target=_serve, args=(there, self._prepare), daemon=True)
        # until it can handle Ctrl-C, which all processes of a terminal get, it is not interrupted
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
            self._jobs.append(_Job(process, here))
        finally:
            there.close()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return self._jobs[-1]

    def _receive(self) -> None:
        """Wait for reports and outcomes."""
        jobs = {job.connection: job for job in self._busy()}
        for connection in wait(list(jobs), timeout=_SECONDS):
            assert isinstance(connection, Connection)
            job = jobs[connection]
            try:
                received = connection.recv()
            except (EOFError, OSError):
                self._remove(job)
                received = Outcome(job.progress[1], {}, {}, failure=_death(job.process.exitcode))
            if isinstance(received, Outcome):
                self._done[job.number] = received
                job.number = -1
            else:
                job.progress = received

    def _remove(self, job: _Job) -> None:
        """Forget a process that has ended."""
        job.process.join()
        job.connection.close()
        self._jobs.remove(job)

    def _progress(self, sizes: list[int]) -> tuple[int, int, int]:
        """Bytes read, bytes in all, and packets."""
        read = sum(sizes[number] for number in self._done) + sum(job.progress[0] for job in self._busy())
        packets = sum(one.packets for one in self._done.values()) + sum(job.progress[1] for job in self._busy())
        return read, max(sum(sizes), read), packets

    def _interrupt(self) -> None:
        """Pass Ctrl-C on: processes that did not get it from the terminal end their set, too."""
        for job in self._busy():
            if job.process.pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(job.process.pid, signal.SIGINT)

    @contextlib.contextmanager
    def _ended(self) -> Generator[None]:
        """At the end, no process is left."""
        try:
            yield
        finally:
            for job in self._jobs:
                job.process.kill()
                job.process.join()
                job.connection.close()


def _death(status: int | None) -> str:
    how = f"was ended by signal {-status}" if status is not None and status < 0 else f"ended with status {status}"
    return f"its process {how}; the rows before are there"


def _serve(connection: Connection, prepare: Callable[[], Work]) -> None:
    """In a process: work on sets until the parent ends it."""
    with contextlib.suppress(KeyboardInterrupt, EOFError, OSError):  # no set is interrupted, or the parent has ended
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        work: Work | None = None
        while True:
            captures, rows = connection.recv()
            try:
                work = work or prepare()
                outcome = work(captures, rows, _Reporter(connection))
            except KeyboardInterrupt:
                outcome = Outcome(0, {}, {}, stopped=True, interrupted=True)
            except (CommandError, InputError, RunError) as error:
                outcome = Outcome(0, {}, {}, failure=str(error))
            connection.send(outcome)


class _Reporter:
    """Sends the progress of a set now and then."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._last = connection, 0.0

    def __call__(self, done: int, _size: int, packets: int) -> bool:
        if (now := time.monotonic()) - self._last >= _SECONDS:
            self._last = now
            self._connection.send((done, packets))
        return False


def of_whole_sets(done: Sequence[Done]) -> list[Done]:
    """The outcomes of sets from those of their shares, which follow each other and have all read all packets."""
    whole: list[Done] = []
    for one in done:
        if not (one.captures.share and whole and whole[-1].captures.files == one.captures.files):
            whole.append(one)
            continue
        first, further = whole[-1].outcome, one.outcome
        both = joined([whole[-1], one], 2, max(first.seconds, further.seconds))
        both.packets = max(first.packets, further.packets)
        both.divided, both.unlearned = first.divided, first.unlearned  # each task has seen all of them
        both.failure, both.fault = first.failure or further.failure, first.fault or further.fault
        whole[-1] = Done(whole[-1].captures, both)
    return whole


def joined(done: Sequence[Done], sets: int, seconds: float) -> Outcome:
    """The sum of the outcomes of all sets. sets: how many there were."""
    counters: dict[str, Counter[str]] = {}
    reports: Counter[str] = Counter()
    unlearned: Counter[str] = Counter()
    refused: Counter[int] = Counter()
    takes: set[int] = set()
    for one in done:
        for layer, values in one.outcome.counters.items():
            counters.setdefault(layer, Counter[str]()).update(values)
        reports.update(one.outcome.reports)
        unlearned.update(one.outcome.unlearned)
        refused.update(one.outcome.refused)
        takes.update(one.outcome.takes)
    failed = sum(bool(one.outcome.fault or one.outcome.failure) for one in done)
    divided = [one.outcome.divided for one in done if one.outcome.divided is not None]
    interrupted = len(done) < sets or any(one.outcome.interrupted for one in done)
    return Outcome(
        sum(one.outcome.packets for one in done),
        {layer: dict(values) for layer, values in counters.items()},
        dict(reports),
        failure=f"{failed} of {sets} captures could not be read to their end" if failed else None,
        stopped=interrupted,
        interrupted=interrupted,
        seconds=seconds,
        refused=dict(refused),
        takes=sorted(takes),
        divided=sum(divided) if divided else None,
        unlearned=dict(unlearned),
    )
