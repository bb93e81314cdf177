"""Runs many sets of captures on a Ray cluster: `--ray ADDRESS`.

A set is a task: Ray chooses the node, and repeats the task if the node or the process dies. Tasks return their rows as
one object, so that no row of an attempt that failed is written. Rows are in the order of the sets. The number of tasks
whose rows are not written yet is bounded.

Each node needs Sluice in the same version, a C compiler, and the captures at the same paths.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import tempfile
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

from sluice.cli.common.errors import CommandError
from sluice.cli.common.jobs import Done, Work
from sluice.cli.common.progress import progress_line
from sluice.engine.box import Outcome, RunError
from sluice.engine.inputs import InputError
from sluice.report.capture_sets import CaptureSet

_SECONDS = 0.2
"""Between two looks for tasks that have ended."""
_LEAST = 8
"""Tasks that are submitted at once, at least."""
_RETRIES = 5
"""Repetitions of a task whose process or node died."""


class RayJobs:
    """Tasks of a Ray cluster.

    prepare: called in each process, before its first set; must be picklable. take: gets the rows of each set, in order.
    address: of the cluster, such as `10.0.0.1:6379`; `auto` is the one that runs on this machine.
    """

    def __init__(self, prepare: Callable[[], Work], take: Callable[[CaptureSet, Path], None], address: str) -> None:
        self._prepare, self._take, self._address = pickle.dumps(prepare), take, address
        self._done: dict[int, Outcome] = {}

    def run(self, sets: Sequence[CaptureSet]) -> list[Done]:
        """Process all sets. After Ctrl-C, tasks are cancelled. Raises CommandError if there is no Ray or no cluster."""
        ray = _ray()
        sizes = [captures.size() for captures in sets]
        with (
            _connected(ray, self._address),
            tempfile.TemporaryDirectory(prefix="sluice-ray-") as folder,
            progress_line() as show,
        ):
            task = ray.remote(num_returns=2, num_cpus=1, max_retries=_RETRIES)(_work)
            most = max(_LEAST, 2 * int(ray.cluster_resources().get("CPU", 1)))
            running: dict[Any, int] = {}
            rows: dict[int, Any] = {}
            next_one = taken = 0
            try:
                while taken < len(sets):
                    while next_one < min(len(sets), taken + most):
                        outcome, rows[next_one] = task.remote(self._prepare, sets[next_one], os.getcwd())
                        running[outcome] = next_one
                        next_one += 1
                    for outcome in ray.wait(list(running), timeout=_SECONDS)[0] if running else ():
                        number = running.pop(outcome)
                        self._done[number] = _outcome(ray, outcome)
                    while taken in self._done:
                        self._write(ray, Path(folder) / "rows", sets[taken], taken, rows.pop(taken))
                        taken += 1
                    if show:
                        read = sum(sizes[number] for number in self._done)
                        show(read, max(sum(sizes), read), sum(one.packets for one in self._done.values()))
            except KeyboardInterrupt:
                for outcome in running:
                    ray.cancel(outcome, force=True)
                for number in sorted(rows.keys() & self._done.keys()):  # others before them will not end
                    self._write(ray, Path(folder) / "rows", sets[number], number, rows.pop(number))
        return [Done(sets[number], self._done[number]) for number in sorted(self._done)]

    def _write(self, ray: Any, path: Path, captures: CaptureSet, number: int, rows: Any) -> None:
        """Write the rows of a set whose task has ended."""
        try:
            path.write_bytes(ray.get(rows))
        except ray.exceptions.RayError as error:
            outcome = self._done[number]
            outcome.failure = outcome.failure or f"its rows are lost: {_first_line(error)}"
            return
        self._take(captures, path)


def _ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise CommandError("--ray: Ray is not installed: install it by `pip install 'sluice[cluster]'`") from None


@contextlib.contextmanager
def _connected(ray: Any, address: str) -> Generator[None]:
    """While the context is active, this process is a driver of the cluster."""
    try:
        ray.init(address=address, log_to_driver=False, logging_level="error")
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        advice = "start one by `ray start --head`, or give the address of one"
        raise CommandError(f"--ray {address}: no Ray cluster: {_first_line(error)}; {advice}") from None
    try:
        yield
    finally:
        ray.shutdown()


def _outcome(ray: Any, reference: Any) -> Outcome:
    """The outcome of a task that has ended, also of one that Ray could not complete."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        return Outcome(0, {}, {}, failure=f"its task failed: {_first_line(error)}")


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


_works: dict[bytes, Work] = {}
"""In a process of the cluster: its prepared state."""


def _work(prepare: bytes, captures: CaptureSet, folder: str) -> tuple[Outcome, bytes]:
    """In a process of the cluster: the outcome of a set, and its rows."""
    try:
        os.chdir(folder)
        work = _works.get(prepare)
        if work is None:
            made: Callable[[], Work] = pickle.loads(prepare)
            work = _works[prepare] = made()
        with tempfile.TemporaryDirectory(prefix="sluice-ray-") as own:
            path = Path(own) / "rows"
            outcome = work(captures, str(path), lambda _done, _size, _packets: False)
            return outcome, path.read_bytes() if path.exists() else b""
    except (CommandError, InputError, RunError, OSError) as error:
        return Outcome(0, {}, {}, failure=str(error)), b""
