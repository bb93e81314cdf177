"""Runs compiled services, and replaces their process by one with another program or other backends.

The listening sockets belong to this process, and each process of services inherits them: no connection that waits to be
accepted is lost. The process before accepts no more, and ends when its connections have ended or their time is over.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import Any

from sluice.service.bounds import Limits
from sluice.service.serve import Address, Wiring, command_of

DRAINING_MOST = 4
"""Processes at a time whose connections are still to end: each has the memory that was announced for it."""
START_MOST = 30.0
"""Seconds in which a new process has to accept connections."""
PREPARE_MOST = 60.0
"""Seconds in which a reload has to be read, its names resolved, and its program compiled."""
ACCEPT_MOST = 10.0
"""Seconds for which the answer to a reload waits until the process before has accepted waiting connections."""
BACKLOG = 4096


class RefusedError(Exception):
    """Why a new version is not taken over; the services go on as they were."""


@dataclass(frozen=True)
class Plan:
    """A program and how each of its services is run."""

    program: Path
    names: Sequence[str]
    services: Sequence[tuple[Wiring, Limits]]


@dataclass
class Events:
    """What the services' operator is notified of. `ready` is given the plan, the number of a service and its address;
    before that, without a number, the address of metrics. `drained`: a process before has ended, with so many of its
    connections ended by the limit. `refused`: a reload that a signal requested was not done, and why.
    """

    ready: Callable[[Plan, int | None, str], None]
    reloaded: Callable[[], None]
    drained: Callable[[int], None]
    refused: Callable[[str], None]


Answer = SimpleQueue[dict[str, Any]] | None
"""The receiver of a reload's outcome; None: a signal has requested it."""


@dataclass
class _Preparation:
    """A reload whose plan a thread makes: names are resolved there, so that a slow resolver blocks nothing."""

    answer: Answer
    timer: threading.Timer | None = None
    overdue: bool = False
    """It was refused meanwhile."""


@dataclass
class _Process:
    """A process of services. `answer` receives the outcome of the reload that has started it."""

    plan: Plan
    process: subprocess.Popen[str]
    answer: Answer = None
    use: Callable[[], None] | None = None
    """The callback when it has taken over."""
    ready: int = 0
    draining: bool = False
    after: _Process | None = None
    """The process that has taken over, until this one has accepted the connections that were waiting."""
    timer: threading.Timer | None = None
    counters: list[dict[str, int]] = field(default_factory=lambda: [])


class Operation:
    """Services that run. `again` makes the plan of a reload from the request, in a separate thread, and raises
    RefusedError; with it is the callback for the use of the plan.

    `drain`: seconds in which the connections of a process may end after another has taken over.
    """

    def __init__(
        self,
        again: Callable[[dict[str, Any]], tuple[Plan, Callable[[], None]]],
        events: Events,
        metrics: Address | None = None,
        drain: int = 60,
    ) -> None:
        self._again, self._events, self._drain = again, events, drain
        self._happened: SimpleQueue[tuple[str, Any, Any]] = SimpleQueue()
        self._sockets: list[tuple[Address, list[socket.socket]]] = []
        self._metrics, self._metrics_socket = metrics, None if metrics is None else _listen(metrics, 16)
        self._processes: list[_Process] = []
        self._current: _Process | None = None
        self._preparation: _Preparation | None = None
        self._stopping = False
        self.totals: dict[str, dict[str, int]] = {}
        """The counters of each service by its name, of all processes that have ended."""

    def answer(self, what: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request of the control socket."""
        if what.get("do") != "reload" or "function" in what or "name" in what:
            return {"error": 'these are services: the request is {"do": "reload"}'}
        answer = SimpleQueue[dict[str, Any]]()
        self._happened.put(("reload", what, answer))
        return answer.get()

    def run(self, plan: Plan) -> int:
        """Run services until SIGINT or SIGTERM; SIGHUP reloads, SIGUSR1 reopens access logs. The exit
        status. Raises OSError if an address cannot be listened at.
        """

        def stop(number: int, _: FrameType | None) -> None:
            self._happened.put(("stop", None, None))

        def again(number: int, _: FrameType | None) -> None:
            self._happened.put(("reload", {}, None))

        def reopen(number: int, _: FrameType | None) -> None:
            self._happened.put(("reopen", None, None))

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, again)
        before[signal.SIGUSR1] = signal.signal(signal.SIGUSR1, reopen)
        try:
            self._start(plan, None)
            status = 0
            while self._processes:
                kind, first, second = self._happened.get()
                if kind == "stop":
                    self._stop()
                elif kind == "reload":
                    self._reload(first, second)
                elif kind == "prepared":
                    self._prepared(first, second)
                elif kind == "overdue":
                    self._overdue(first)
                elif kind == "waited":
                    self._settled(first)
                elif kind == "reopen":
                    for each in self._processes:
                        if each.ready == len(each.plan.services):  # before that, the signal could end it
                            each.process.send_signal(signal.SIGUSR2)
                elif kind == "line":
                    self._line(first, second)
                else:
                    status = self._ended(first) or status
            return status
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            if self._preparation is not None and self._preparation.answer is not None:
                self._refuse("the services are being stopped", self._preparation.answer)
            for each in self._processes:
                each.process.kill()
                each.process.wait()
            for _, sockets in self._sockets:
                for each in sockets:
                    each.close()
            if self._metrics_socket is not None:
                self._metrics_socket.close()

    def _start(self, plan: Plan, answer: Answer, use: Callable[[], None] | None = None) -> _Process:
        listeners = self._listeners(plan)
        fds = [[each.fileno() for each in sockets] for sockets in listeners]
        command = command_of(plan.program, *plan.services, metrics=self._metrics, listeners=fds)
        command += ["--drain", str(self._drain)]
        given = [fd for each in fds for fd in each]
        if self._metrics_socket is not None:
            given.append(self._metrics_socket.fileno())
            command += ["--metrics-listener", str(given[-1])]
        # a separate group: Ctrl-C reaches it once, through the handler
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True, pass_fds=given)
        started = _Process(plan, process, answer, use)
        self._processes.append(started)

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                self._happened.put(("line", started, line))
            self._happened.put(("end", started, None))

        threading.Thread(target=read, daemon=True).start()
        return started

    def _listeners(self, plan: Plan) -> list[list[socket.socket]]:
        """The listening sockets of each service: those that are there for its address, or new ones."""
        left = list(self._sockets)
        found: list[list[socket.socket]] = []
        for wiring, limits in plan.services:
            for number, (address, sockets) in enumerate(left):
                if address == wiring.listen:
                    found.append(sockets)
                    del left[number]
                    break
            else:
                first = _listen(wiring.listen)
                sockets = [first]
                self._sockets.append((wiring.listen, sockets))
                sockets += [_listen(first.getsockname()[:2]) for _ in range(1, limits.workers)]
                found.append(sockets)
        return found

    def _reload(self, what: dict[str, Any], answer: Answer) -> None:
        try:
            if self._stopping:
                raise RefusedError("the services are being stopped")
            if self._preparation is not None:
                raise RefusedError("another reload is being prepared: try again when its names are resolved")
            if self._current is None or any(
                each.after is not None or (not each.draining and each is not self._current) for each in self._processes
            ):
                raise RefusedError("a process is being started: try again when it accepts connections")
            if sum(each.draining for each in self._processes) >= DRAINING_MOST:
                raise RefusedError(
                    f"connections of {DRAINING_MOST} processes before have not ended yet: try again when they have"
                )
        except RefusedError as error:
            self._refuse(str(error), answer)
            return
        preparation = self._preparation = _Preparation(answer)

        def prepare() -> None:
            try:
                found: object = self._again(what)
            except Exception as error:  # this thread has no caller to report it to
                found = error if isinstance(error, RefusedError) else RefusedError(f"{type(error).__name__}: {error}")
            self._happened.put(("prepared", preparation, found))

        threading.Thread(target=prepare, daemon=True).start()
        preparation.timer = self._later(PREPARE_MOST, lambda: self._happened.put(("overdue", preparation, None)))

    def _later(self, seconds: float, act: Callable[[], object]) -> threading.Timer:
        timer = threading.Timer(seconds, act)
        timer.daemon = True
        timer.start()
        return timer

    def _overdue(self, preparation: _Preparation) -> None:
        """A reload could not be prepared in time. Until its thread has ended, there is no other one."""
        if self._preparation is not preparation or preparation.overdue:
            return
        preparation.overdue = True
        why = f"it was not prepared within {PREPARE_MOST:g} seconds: do the names of its backends resolve?"
        self._refuse(why, preparation.answer)

    def _prepared(self, preparation: _Preparation, found: tuple[Plan, Callable[[], None]] | RefusedError) -> None:
        """The thread of a reload has ended: its plan is used, unless it is overdue."""
        self._preparation = None
        if preparation.timer is not None:
            preparation.timer.cancel()
        if preparation.overdue:
            return
        answer = preparation.answer
        try:
            if isinstance(found, RefusedError):
                raise found
            if self._stopping or self._current is None:
                raise RefusedError("the services are being stopped")
            plan, use = found
            workers = self._current.plan.services[0][1].workers
            if plan.services[0][1].workers != workers:
                raise RefusedError(f"the number of workers stays {workers}: start the services anew to change it")
            try:
                started = self._start(plan, answer, use)
            except OSError as error:
                self._trim(self._current.plan)
                raise RefusedError(f"the new process cannot start: {error.strerror or error}") from error
        except RefusedError as error:
            self._refuse(str(error), answer)
            return
        started.timer = self._later(START_MOST, started.process.kill)

    def _refuse(self, why: str, answer: Answer) -> None:
        if answer is not None:
            answer.put({"error": why})
        else:
            self._events.refused(why)

    def _line(self, started: _Process, line: str) -> None:
        """The messages of a process: `ready` and `metrics` with an address, `draining`, or its counters."""
        word, *rest = line.split()
        if line.startswith("["):
            started.counters = json.loads(line)
        if word == "draining":
            self._settled(started)
        if word not in ("ready", "metrics"):
            return
        if self._current is None or self._current is started:
            host = f"[{rest[0]}]" if ":" in rest[0] else rest[0]
            self._events.ready(started.plan, started.ready if word == "ready" else None, f"{host}:{rest[1]}")
        started.ready += word == "ready"
        if started.ready == len(started.plan.services) and not self._stopping:
            self._take_over(started)

    def _take_over(self, started: _Process) -> None:
        """A process accepts connections: the one before accepts those that are waiting, and no more."""
        before, self._current = self._current, started
        if before is None:
            return
        if started.timer is not None:
            started.timer.cancel()
        if started.use is not None:
            started.use()
        before.draining, before.after = True, started
        before.process.send_signal(signal.SIGUSR1)
        before.timer = self._later(ACCEPT_MOST, lambda: self._happened.put(("waited", before, None)))
        self._trim(started.plan)

    def _settled(self, before: _Process) -> None:
        """A process has accepted the connections that were waiting, or has ended: the reload is done."""
        started, before.after = before.after, None
        if started is None:
            return
        if before.timer is not None:
            before.timer.cancel()
        self._events.reloaded()
        if started.answer is not None:
            started.answer.put({"done": "it accepts connections; those that were there go on"})

    def _trim(self, plan: Plan) -> None:
        """Close the listening sockets that a plan does not use."""
        used = self._listeners(plan)
        for place in [each for each in self._sockets if each[1] not in used]:
            self._sockets.remove(place)
            for each in place[1]:
                each.close()

    def _ended(self, ended: _Process) -> int:
        """A process has ended. The exit status of the services, which is not 0 if it should not have."""
        self._processes.remove(ended)
        status = ended.process.wait()
        if ended.timer is not None:
            ended.timer.cancel()
        for name, counters in zip(ended.plan.names, ended.counters, strict=False):
            sums = self.totals.setdefault(name, {})
            for counter, value in counters.items():
                sums[counter] = sums.get(counter, 0) + value
        if ended.draining:
            self._settled(ended)
            self._events.drained(sum(each.get(STOPPED, 0) for each in ended.counters))
            return 0
        if ended is not self._current and self._current is not None:
            if not self._stopping:
                self._trim(self._current.plan)
            self._refuse(f"the new process ended with status {status} before it accepted connections", ended.answer)
            return 0
        self._stop()
        return status

    def _stop(self) -> None:
        self._stopping = True
        for each in self._processes:
            each.process.send_signal(signal.SIGTERM)


STOPPED = "instances ended by the end of the service"
"""The counter of connections that the end of a process has ended."""


def _listen(address: tuple[Any, ...], backlog: int = BACKLOG) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if backlog == BACKLOG:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.setblocking(False)
        made.bind(address)
        made.listen(backlog)
    except OSError:
        made.close()
        raise
    return made
