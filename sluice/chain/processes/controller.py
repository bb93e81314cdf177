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
from dataclasses import dataclass, field, replace

from sluice.chain.hosts.relay import Hosts, run_relay
from sluice.chain.processes import snapshot
from sluice.chain.processes.boxes import StackBox, stack_box
from sluice.chain.processes.cgroups import Cgroups
from sluice.chain.processes.figures import counted, figures, joined, of_chain
from sluice.chain.processes.host import run_part
from sluice.chain.processes.instances import AwayError, Instances, StateError, Stores
from sluice.chain.processes.limits import Limits, begin_process, group_name, quota_of
from sluice.chain.processes.memory import QUEUE, TYPES, Memory
from sluice.chain.processes.policy import Manager
from sluice.chain.processes.process import Process, read_result
from sluice.chain.processes.program import IsolatedChain, Part
from sluice.chain.processes.progress import at_end, credible, is_whole, newest, resumed, skip
from sluice.chain.processes.requests import Requests
from sluice.chain.processes.root import Root, ended, result_of
from sluice.engine.box import Outcome, RunError, Settings
from sluice.engine.options import seed_of

SPARE = 4
"""Places for functions that are added while a chain runs."""
CRASHES_MOST = 64
"""A function that crashes so often without being done with a batch does not run any more."""
PATIENCE = 30.0
"""Seconds after which a function that does not return from an event is killed."""
OPENING = 60.0
"""Seconds within which a function opens before the first packet."""
_STEP = 0.05


@dataclass
class Controller:
    """Runs a chain. run: runs the stack's box, given its class, in the process of the stack. notify: prints a line.
    log_drops: packets are dropped where the packet log is full, as on an interface; else they wait. root: what happens
    when the process of the stack ends early. policies: when functions are scaled, and stragglers cloned. hosts: where
    the processes of instances run; None: on this one.
    """

    chain: IsolatedChain
    settings: Settings
    forwards: bool
    patience: float = PATIENCE
    requests: Requests[Controller] | None = None
    stores: Stores | None = None
    log_drops: bool = False
    root: Root = field(default_factory=Root)
    policies: Manager | None = None
    hosts: Hosts | None = None
    notify: Callable[[str], None] = lambda line: print(f"sluice: {line}", file=sys.stderr, flush=True)

    def __post_init__(self) -> None:
        self.settings = replace(self.settings, seed=seed_of(self.settings))  # instances agree on random numbers
        self.memory = Memory(min(64, len(self.chain.parts) + SPARE))
        self.processes = [Process(part) for part in self.chain.parts]
        control = self.memory.control
        for place in range(len(self.chain.parts), 64):
            control.absent |= 1 << place
        for part in self.chain.parts:
            self.describe(part)
        self.instances = Instances(self.chain, self.memory, self.stores, self.log_drops)
        self.instances.open()
        self.cgroups = Cgroups()
        self._stack = 0
        self._of_stack: tuple[int, ...] = ()
        self._former: list[Process] = []
        self._stopping = False

    def describe(self, part: Part) -> None:
        """Set the data of a part that other processes need."""
        control, bit = self.memory.control, 1 << part.number
        snapshot.describe(self.chain, control)
        for name, is_so in (
            ("decide", part.decides),
            ("always", part.always),
            ("closed", part.closed),
            ("lossy", part.lossy),
            ("polls", part.number < len(os.sched_getaffinity(0)) - 1),  # the stack has the other core
        ):
            value = getattr(control, name)
            setattr(control, name, value | bit if is_so else value & ~bit)
        control.before[part.number], control.drops[part.number] = part.before, part.drops
        control.rank[part.number] = part.leader
        for number in self.chain.subscriptions(part) if not part.instance else ():  # the first one, for all of them
            control.subscribed[number] |= bit

    # --- processes ---

    def start(self, process: Process) -> None:
        """Start the process of a function; a clone of the one before is there already."""
        clone, process.clone = process.clone, None
        if clone is None:
            process.pid, process.result = self.fork(process)
            process.pidfd = os.pidfd_open(process.pid)
        else:
            process.pid, process.result, process.pidfd = clone.pid, clone.result, clone.pidfd
            clone.begin(self.stores.token(process.part) if self.stores is not None else "")
        process.text, process.since = b"", time.monotonic()

    def fork(self, process: Process, go: int = -1) -> tuple[int, int]:
        """A new process of a function, and the file of its result. go: see run_part."""
        part = process.part
        read, write = os.pipe()
        groups, missing = self.cgroups.make(group_name(part), quota_of(part))
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if not pid:
            os.close(read)
            if self.hosts is not None and self.stores is not None and self.hosts.has(part):
                others = self._files() - {go}
                run_relay(self.hosts, part, self.memory, self.settings, self.forwards, write, others, self.stores, go)
            limits = Limits(
                part.number, part.memory, bool(part.python), part.shares, True, tuple(groups), tuple(missing)
            )
            stores = self.stores if part.shares and part.instance is not None else None
            rows = self.instances.rows.open_files.get(part.number, -1)
            others = self._files() - {rows, go}
            run_part(part, self.memory, self.settings, self.forwards, limits, write, others, stores, rows, go)
        os.close(write)
        os.set_blocking(read, False)
        return pid, read

    def _files(self) -> set[int]:
        """The files of the controller that functions must not have."""
        files = {file for process in self.processes for file in (process.result, process.pidfd)}
        if self.requests is not None:
            files |= set(self.requests.files())
        return (files | set(self._of_stack) | set(self.instances.rows.open_files.values())) - {-1}

    def await_start(self, process: Process, seconds: float = OPENING) -> None:
        """Wait until a function has opened. Raises RunError if it refuses, or has not for so long: it is ended then."""
        side, end = self.memory.functions[process.part.number], time.monotonic() + seconds
        while not side.running:
            process.take()
            if select.select([process.pidfd], [], [], 0.002)[0]:
                process.reap()
                raise RunError(process.error or f"'{process.part.name}' ended before the first packet")
            if time.monotonic() > end:
                os.kill(process.pid, signal.SIGKILL)
                process.reap()
                raise RunError(f"'{process.part.name}' has not opened within {seconds:g} s: what does it wait for?")
        process.take()
        process.missing = (read_result(process.text) or {}).get("missing", [])

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
        part, side = process.part, self.memory.functions[process.part.number]
        queue, stack = self.memory.stack.queue[part.number], self.memory.stack
        process.crashes += process.clone is None
        whole = is_whole(side, queue.count, stack.batches)
        if not whole:  # the output of a crashed function is not trusted: skip to the next batch
            skip(self.memory, process)
        process.in_batch = process.in_batch + 1 if side.done == process.done else 1
        process.done = side.done
        process.waits = code, whole
        self._continue(process)

    def _continue(self, process: Process) -> None:
        """Start another process in the place of one that has ended; if it needs a store that does not reply, later."""
        assert process.waits is not None
        code, whole = process.waits
        part, side, control = process.part, self.memory.functions[process.part.number], self.memory.control
        at = self.memory.slot(self.memory.stack.queue[part.number].entry[side.done % QUEUE])
        try:
            takes_over = self.instances.takes_over(process, code == -signal.SIGKILL and not process.hangs)
        except AwayError:
            return
        process.waits = None
        if takes_over:
            self._again(process, code, "another process continues with its state in the store")
            return
        control.resume[part.number] = resumed(self.memory, part.number)
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
        if process.clone is not None:
            process.clones += 1
            self.notify(f"'{part.label}' was a straggler; its clone continues")
        elif process.crashes <= 10 or process.crashes % 100 == 0:
            self.notify(f"warning: '{part.label}' crashed ({why}); {what}")
        self.start(process)

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
        process.known = credible(side)
        if seen != process.seen or side.sleeping or side.waits or queue.count == side.done:
            process.seen, process.since = seen, now
        elif now - process.since > self.patience and process.pid:
            self.notify(f"warning: '{part.name}' has not returned from an event for {self.patience:g} s; it is killed")
            process.since, process.hangs = now, True
            os.kill(process.pid, signal.SIGKILL)

    # --- the run ---

    def run(self, run: Callable[[type[StackBox]], Outcome]) -> Outcome:
        """Run the chain to the end of its input. Raises what `run` raises, and RunError."""
        try:
            try:
                self.cgroups.open()
                path = None if self.requests is None else self.requests.path
                self.cgroups.watch(self._files(), *(() if path is None else (path,)))
                for process in self.processes:
                    self.start(process)
                for process in self.processes:
                    self.await_start(process)
                self._warn_of_missing()
                if self.stores is not None:
                    self.stores.begin()
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
        """Report the limits that the functions do not have."""
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
        """Run the process of the stack: its final output, and its exit status."""
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
                ready, _, _ = select.select([read, *self._also(), *files, *results], [], [], self._pause())
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
                self._await_store()
                if self.policies is not None:
                    self.policies.advance(self)
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

    def _pause(self) -> float:
        """The time for which it waits for events."""
        return 0.0 if self.stores is not None and self.stores.busy() else _STEP

    def _await_store(self) -> None:
        """The steps that need the store, as far as it replies. Raises StateError."""
        self.instances.advance()
        for process in self.processes:
            if process.waits is not None:
                self._continue(process)

    def _also(self) -> list[int]:
        """The file from which requests are read."""
        return [] if self.requests is None else [self.requests.fileno()]

    def _serve(self, _file: int) -> None:
        """Serve a request."""
        if self.requests is not None:
            self.requests.serve(self)

    def kill_root(self) -> None:
        """Kill the process of the stack, as a crash does. Raises RunError where no other one would replace it."""
        if not self.root.restarts or not self._stack:
            raise RunError(
                "no other process could take the place of the stack's: its input cannot be read again, or its output"
                " is no plain file"
            )
        os.kill(self._stack, signal.SIGKILL)

    def change(self, process: Process, part: Part | None) -> None:
        """End the process of a function after its current batch; `part` runs in its place, or nothing."""
        control, bit = self.memory.control, 1 << process.part.number
        process.following = (part,)
        for number in range(TYPES) if part is None else ():
            control.subscribed[number] &= ~bit
        if not process.pid:
            self._change(process)
            return
        control.leave |= bit

    def _change(self, process: Process) -> None:
        """The process of a function has left, or there was none."""
        assert process.following is not None
        (part,), process.following, process.waits = process.following, None, None
        control, bit = self.memory.control, 1 << process.part.number
        control.leave &= ~bit
        number, stack = process.part.number, self.memory.stack
        side, queue = self.memory.functions[number], stack.queue[number]
        if control.absent & bit or not is_whole(side, queue.count, stack.batches):
            skip(self.memory, process)  # batches that it was not waited for: their memory has others by now
        control.resume[number] = resumed(self.memory, number)
        control.lost_before[number] = newest(self.memory)
        side.running = side.sleeping = side.flows = 0
        if part is None:
            control.closed &= ~bit
            control.absent |= bit
            for other in range(len(control.before)):  # a later function in this place is after all others
                control.before[other] &= ~bit
                control.drops[other] &= ~bit
            if process.part in self.chain.parts:
                self.chain.parts.remove(process.part)
            process.last = figures(self.memory, process)
            process.ended = process.removed = True
            self.cgroups.remove(group_name(process.part))
            return
        for number in range(TYPES):
            control.subscribed[number] &= ~bit
        self.chain.parts[:] = [part if one.number == number else one for one in self.chain.parts]
        process.part, process.in_batch, process.ended = part, 0, False
        self.describe(part)
        self.start(process)
        control.absent &= ~bit

    def add(self, part: Part) -> None:
        """Run a further function, in a place that is free."""
        process = Process(part)
        process.before = counted(self.memory, part.number)
        for removed in [one for one in self.processes if one.removed]:
            if removed.part.number == part.number or removed.part.name == part.name:
                self.processes.remove(removed)
                self._former.append(removed)
        self.processes.append(process)
        self.chain.parts.append(part)
        control = self.memory.control
        control.changed[part.number] = control.changes + 1
        control.changes += 1
        process.following = (part,)
        self._change(process)

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
        while any(process.pid or process.waits for process in self.processes) and not self._stack:
            if time.monotonic() > end:
                break
            waiting = [process for process in self.processes if process.pid]
            for process in waiting:
                process.take()
            done = [process for process in waiting if select.select([process.pidfd], [], [], 0)[0]]
            for process in done:
                self._ended(process)
            try:
                self._await_store()
            except StateError:
                break
            if not done:
                self.memory.control.ending = int(all(self._at_end(process) for process in self.processes))
                select.select([process.pidfd for process in waiting if process.pid], [], [], self._pause())
        for process in self.processes:
            if process.waits is not None:
                process.failure = f"'{process.part.label}' ended, and its store was away: what it had to do is lost"
        self._stopping = True
        self.memory.control.ending = 1
        for pid in filter(None, [self._stack, *(process.pid for process in self.processes)]):
            os.kill(pid, signal.SIGKILL)
        if self._stack:
            os.waitpid(self._stack, 0)
            self._stack = 0
        for process in self.processes:
            if process.clone is not None:
                process.clone.end()
                process.clone = None
            if process.pid:
                self._ended(process)

    def _at_end(self, process: Process) -> bool:
        """Whether a function has nothing more to do. One that waits for a store has."""
        return at_end(self.memory, process) if process.pid else process.waits is None

    def _joined(self, outcome: Outcome) -> Outcome:
        """The outcome with the reports of the functions and the figures of their isolation."""
        isolation = of_chain(self.memory, [*self._former, *self.processes]) | self.root.figures(self.memory)
        if self.stores is not None:
            isolation |= self.stores.figures()
        outcome = joined(outcome, self.processes, isolation)
        if self.stores is not None:
            outcome.failure = outcome.failure or self.stores.failure()
        return outcome
