"""The controller of an isolated chain: starts the processes of the stack and of the functions, and restarts those that
crash.

It is the only process that changes struct sl_iso_control, and no packet passes it.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import sys
import time
from collections.abc import Callable

from sluice.chain.processes.boxes import StackBox, stack_box
from sluice.chain.processes.crashes import WatchedProcesses
from sluice.chain.processes.limits import begin_process
from sluice.chain.processes.process import Process
from sluice.chain.processes.root import ended, result_of
from sluice.engine.box import Outcome, RunError

STEP = 0.05
"""Seconds between two looks at the functions."""


class Controller(WatchedProcesses):
    """Runs a chain. run: runs the stack's box, given its class, in the process of the stack."""

    def run(self, run: Callable[[type[StackBox]], Outcome]) -> Outcome:
        """Run the chain to the end of its input. Raises what `run` raises, and RunError."""
        try:
            try:
                self.cgroups.open()
                path = None if self.requests is None else self.requests.path
                self.cgroups.watch(self._files(), *(() if path is None else (path,)))
                for process in self.processes:
                    self._start(process)
                for process in self.processes:
                    self._await_start(process)
                self._warn_of_missing()
                outcome = self._run_stack(run)
            finally:
                self._stop()
            self.instances.rows.join()
            return self._joined(outcome)
        finally:
            self.cgroups.close()
            self.instances.rows.close()
            self.memory.close()

    def _warn_of_missing(self) -> None:
        """Say what limits the functions do not have."""
        missing = list(dict.fromkeys(one for process in self.processes for one in process.missing))
        if missing:
            self.notify(f"warning: isolated functions run without {', and without '.join(missing)}")

    def _run_stack(self, run: Callable[[type[StackBox]], Outcome]) -> Outcome:
        while True:
            text, code = self._stack_text(run)
            result = result_of(text)
            if result is not None or not self.root.takes_over(self.memory, code):
                break
            self.notify(f"warning: the process of the stack crashed ({ended(code)})")
        self.root.join(self.memory)
        if result is None:
            raise RunError(f"the process of the stack ended ({signal.strsignal(-code) if code < 0 else code})")
        kind, value = result
        if kind == "raised":
            raise value
        return value

    def _stack_text(self, run: Callable[[type[StackBox]], Outcome]) -> tuple[bytes, int]:
        """Run the process of the stack: what it writes at its end, and how it ended."""
        read, write = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self._stack = os.fork()
        if not self._stack:
            os.close(read)
            self._be_stack(run, write)
        os.close(write)
        self._of_stack = (read,)
        previous = {number: signal.signal(number, self._forward) for number in (signal.SIGINT, signal.SIGTERM)}
        text = b""
        try:
            while True:
                files = {process.pidfd: process for process in self.processes if process.pid}
                results = {process.result: process for process in self.processes if process.result != -1}
                ready, _, _ = select.select([read, *self._also(), *files, *results], [], [], STEP)
                if read in ready:
                    chunk = os.read(read, 1 << 16)
                    if not chunk:
                        break
                    text += chunk
                for file in ready:
                    if file in results:
                        results[file].take()
                    elif file in files and files[file].pid:
                        self._ended(files[file])
                    elif file != read and file not in files:
                        self._serve(file)
                self.instances.advance()
                if (line := self.root.advance(self.memory)) is not None:
                    self.notify(line)
                for process in self.processes:
                    self._watch(process)
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
            self._of_stack = ()
            os.close(read)
        _, status = os.waitpid(self._stack, 0)
        self._stack = 0
        return text, os.waitstatus_to_exitcode(status)

    def _also(self) -> list[int]:
        """The file by which requests come."""
        return [] if self.requests is None else [self.requests.fileno()]

    def _serve(self, _file: int) -> None:
        """Serve a request."""
        if self.requests is not None:
            self.requests.serve(self)

    def kill_root(self) -> None:
        """Kill the process of the stack, as a crash does. Raises RunError where no other one would take its place."""
        if not self.root.restarts or not self._stack:
            raise RunError(
                "no other process could take the place of the stack's: its input cannot be read again, or its output"
                " is no plain file"
            )
        os.kill(self._stack, signal.SIGKILL)

    def _forward(self, number: int, _frame: object) -> None:
        """Ctrl-C and SIGTERM are the stack's: it ends its input."""
        if self._stack:
            os.kill(self._stack, number)

    def _be_stack(self, run: Callable[[type[StackBox]], Outcome], write: int) -> None:
        """The process of the stack."""
        status = 1
        try:
            begin_process()
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self.memory.restrict(None)
            try:
                number = self.memory.control.roots
                output = self.root.part(number) if number else None
                result = ("done", run(stack_box(self.chain, self.memory.mapping(None), output)))
            except BaseException as error:
                result = ("raised", error)
            sys.stdout.flush()
            data = pickle.dumps(result)
            while data:
                data = data[os.write(write, data) :]
            status = 0
        finally:
            sys.stderr.flush()
            os._exit(status)

    def _stop(self) -> None:
        """End all processes. Functions that have received the end of the input are waited for."""
        end = time.monotonic() + self.patience
        while any(process.pid for process in self.processes) and time.monotonic() < end and not self._stack:
            waiting = [process for process in self.processes if process.pid]
            for process in waiting:
                process.take()
            done = [process for process in waiting if select.select([process.pidfd], [], [], 0)[0]]
            for process in done:
                self._ended(process)
            if not done:
                self.memory.control.ending = int(all(self._at_end(process) for process in waiting))
                select.select([process.pidfd for process in waiting], [], [], STEP)
        self._stopping = True
        self.memory.control.ending = 1
        for pid in filter(None, [self._stack, *(process.pid for process in self.processes)]):
            os.kill(pid, signal.SIGKILL)
        if self._stack:
            os.waitpid(self._stack, 0)
            self._stack = 0
        for process in self.processes:
            if process.pid:
                self._ended(process)

    def _at_end(self, process: Process) -> bool:
        """Whether a function has nothing to do any more."""
        side = self.memory.functions[process.part.number]
        return bool(side.running) and side.done == self.memory.stack.queue[process.part.number].count

    def _joined(self, outcome: Outcome) -> Outcome:
        """The outcome with the figures of the functions, in the order of the fused chain."""
        in_c: dict[str, int] = {}
        python: dict[str, int] = {}
        isolation: dict[str, int] = {}
        for process in self.processes:
            found = python if process.part.python else in_c
            for figure, value in (process.reports or {}).items():
                found[figure] = found.get(figure, 0) + value  # of all instances
            outcome.failure = outcome.failure or process.failure
        for process in [*self._former, *self.processes]:
            for figure, value in self.figures(process).items():
                name = f"{process.part.label}.{figure}"
                isolation |= {name: isolation.get(name, 0) + value} if value else {}
        for name in ("closed_drops", "invalid", "uncommitted", "log_drops"):
            value: int = getattr(self.memory.stack, name)
            isolation |= {f"isolated_{name}": value} if value else {}
        isolation |= self.root.figures(self.memory)
        of_stack = outcome.reports
        joined = {name: value + of_stack.get(name, 0) for name, value in in_c.items()}  # all of them may store streams
        outcome.reports = joined | {name: of_stack[name] for name in of_stack if name not in in_c} | python | isolation
        return outcome
