"""What happens when the process of a function ends or hangs: it is started again, or left out."""

from __future__ import annotations

import os
import signal
import time

from sluice.chain.processes.changes import ChangedProcesses
from sluice.chain.processes.functions import FIGURE_MOST, FIGURES
from sluice.chain.processes.memory import QUEUE
from sluice.chain.processes.process import Process
from sluice.chain.processes.root import ended

CRASHES_MOST = 64
"""A function that crashes so often without being done with a batch does not run any more."""


class WatchedProcesses(ChangedProcesses):
    """The processes of functions, which may crash."""

    def _ended(self, process: Process) -> None:
        """A process of a function has ended: restart it, unless it is done."""
        code = process.reap()
        if process.following is not None and not self._stopping:
            self._change(process)
            return
        if process.reports is not None or self._stopping or self.memory.control.ending:
            process.ended = True
            return
        if process.error is not None:
            self._leave_out(process, f"'{process.part.name}': {process.error}")
            return
        part, side, control = process.part, self.memory.functions[process.part.number], self.memory.control
        queue, stack = self.memory.stack.queue[part.number], self.memory.stack
        process.crashes += 1
        whole = self._is_whole(side, queue.count, stack.batches)
        if not whole:  # what a function that crashed has written may be anything: it goes on with the next batch
            self._skip(process)
        at = self.memory.slot(queue.entry[side.done % QUEUE])
        process.in_batch = process.in_batch + 1 if side.done == process.done else 1
        process.done = side.done
        if self.instances.takes_over(process, killed=code == -signal.SIGKILL and not process.hangs):
            self._again(process, code, "another process continues with its state in the store")
            return
        control.resume[part.number] = self._resumed(part.number)
        flows = f"{side.flows} flows" if whole else "flows"
        control.lost_before[part.number] = max(control.lost_before[part.number], at.created)
        side.sleeping = side.running = side.flows = 0
        self._again(process, code, f"it is restarted, and lost what it knew of {flows}")

    def _again(self, process: Process, code: int, what: str) -> None:
        """Start a process in the place of one that crashed, unless it did so too often."""
        part = process.part
        why = ended(code)
        if process.in_batch > CRASHES_MOST:
            self._leave_out(process, f"'{part.name}' crashed {process.in_batch} times in one batch ({why})")
            return
        if process.crashes <= 10 or process.crashes % 100 == 0:
            self.notify(f"warning: '{part.label}' crashed ({why}); {what}")
        self._start(process)

    def _leave_out(self, process: Process, why: str) -> None:
        """A function does not run any more."""
        part = process.part
        self.memory.control.absent |= 1 << part.number
        process.ended = True
        if self.memory.control.stateful >> part.number & 1:
            process.failure = f"'{part.label}' was left out: its state in the store lacks what it had not handled"
        closed = self.memory.control.closed >> part.number & 1
        self.notify(f"warning: {why}; it is left out, and packets {'do not ' if closed else ''}pass without it")

    def _watch(self, process: Process) -> None:
        """Kill a function that does not return from an event."""
        part, now = process.part, time.monotonic()
        side, queue = self.memory.functions[part.number], self.memory.stack.queue[part.number]
        seen = (side.done, side.begun)
        process.known = {name: value for name in FIGURES if (value := getattr(side, name)) < FIGURE_MOST}
        if seen != process.seen or side.sleeping or side.waits or queue.count == side.done:
            process.seen, process.since = seen, now
        elif now - process.since > self.patience and process.pid:
            self.notify(f"warning: '{part.name}' has not returned from an event for {self.patience:g} s; it is killed")
            process.since, process.hangs = now, True
            os.kill(process.pid, signal.SIGKILL)
