"""The processes of an isolated chain's functions: how they start, and what their shared memory says of them."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from sluice.chain.processes import snapshot
from sluice.chain.processes.cgroups import Cgroups
from sluice.chain.processes.host import run_part
from sluice.chain.processes.instances import Instances, Stores
from sluice.chain.processes.limits import Limits, group_name, quota_of
from sluice.chain.processes.memory import QUEUE, SLOTS, FunctionSide, Memory
from sluice.chain.processes.process import Process, read_result
from sluice.chain.processes.program import IsolatedChain, Part
from sluice.chain.processes.requests import Requests
from sluice.chain.processes.root import Root
from sluice.engine.box import RunError, Settings

SPARE = 4
"""Places for functions that are added while a chain runs."""
PATIENCE = 30.0
"""Seconds after which a function that does not return from an event is killed."""
FIGURES = ("skipped", "flows_lost", "not_published", "not_decided")
"""The figures of its progress that a function writes."""
FIGURE_MOST = 1 << 53
"""A function that has written a higher one has written anything."""


@dataclass
class FunctionProcesses:
    """The processes of a chain's functions. notify: prints a line. log_drops: packets are dropped where the packet log
    is full, as on an interface; else they wait. root: what happens when the process of the stack ends early.
    """

    chain: IsolatedChain
    settings: Settings
    forwards: bool
    patience: float = PATIENCE
    requests: Requests | None = None
    stores: Stores | None = None
    log_drops: bool = False
    root: Root = field(default_factory=Root)
    notify: Callable[[str], None] = lambda line: print(f"sluice: {line}", file=sys.stderr, flush=True)

    def __post_init__(self) -> None:
        self.memory = Memory(min(64, len(self.chain.parts) + SPARE))
        self.processes = [Process(part) for part in self.chain.parts]
        control = self.memory.control
        for place in range(len(self.chain.parts), 64):
            control.absent |= 1 << place
        for part in self.chain.parts:
            self._describe(part)
        self.instances = Instances(self.chain, self.memory, self.stores, self.log_drops)
        self.instances.open()
        self.cgroups = Cgroups()
        self._stack = 0
        self._of_stack: tuple[int, ...] = ()
        self._former: list[Process] = []
        self._stopping = False

    def _describe(self, part: Part) -> None:
        """Set what other processes need to know of a part."""
        control, bit = self.memory.control, 1 << part.number
        snapshot.describe(self.chain, control)
        for name, is_so in (
            ("decide", part.decides),
            ("always", part.always),
            ("closed", part.closed),
            ("lossy", part.lossy),
        ):
            value = getattr(control, name)
            setattr(control, name, value | bit if is_so else value & ~bit)
        control.before[part.number], control.drops[part.number] = part.before, part.drops
        control.rank[part.number] = part.leader
        for number in self.chain.subscriptions(part) if not part.instance else ():  # the first one, for all of them
            control.subscribed[number] |= bit

    def _start(self, process: Process) -> None:
        """Start the process of a function."""
        part = process.part
        read, write = os.pipe()
        groups, missing = self.cgroups.make(group_name(part), quota_of(part))
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if not pid:
            os.close(read)
            limits = Limits(
                part.number, part.memory, bool(part.python), part.shares, True, tuple(groups), tuple(missing)
            )
            stores = self.stores if part.shares else None
            rows = self.instances.rows.open_files.get(part.number, -1)
            others = self._files() - {rows}
            run_part(part, self.memory, self.settings, self.forwards, limits, write, others, stores, rows)
        os.close(write)
        os.set_blocking(read, False)
        process.pid, process.result, process.text = pid, read, b""
        process.pidfd = os.pidfd_open(pid)
        process.since = time.monotonic()

    def _files(self) -> set[int]:
        """The files of the controller that functions must not have."""
        files = {file for process in self.processes for file in (process.result, process.pidfd)}
        if self.requests is not None:
            files |= set(self.requests.files())
        return (files | set(self._of_stack) | set(self.instances.rows.open_files.values())) - {-1}

    def _await_start(self, process: Process) -> None:
        """Wait until a function has opened. Raises RunError if it refuses."""
        side = self.memory.functions[process.part.number]
        while not side.running:
            process.take()
            if select.select([process.pidfd], [], [], 0.002)[0]:
                process.reap()
                raise RunError(process.error or f"'{process.part.name}' ended before the first packet")
        process.take()
        process.missing = (read_result(process.text) or {}).get("missing", [])

    def _resumed(self, number: int) -> int:
        """The last event that a function had begun with, if it is not done with the batch."""
        side, queue = self.memory.functions[number], self.memory.stack.queue[number]
        working = queue.count != side.done
        return min(side.begun, self.memory.slot(queue.entry[side.done % QUEUE]).last) if working else 0

    def _skip(self, process: Process) -> None:
        """A function goes on with the next batch. What it counted stays, or was last known."""
        number = process.part.number
        side, control, stack = self.memory.functions[number], self.memory.control, self.memory.stack
        count = stack.queue[number].count
        control.unseen_to[number] = stack.batches
        control.unseen |= 1 << number
        for name in FIGURES:
            if getattr(side, name) >= FIGURE_MOST:
                setattr(side, name, process.known.get(name, 0))
        side.sleeping = side.running = side.begun = side.flows = 0
        side.done, side.done_batch = count, control.unseen_to[number]

    def _is_whole(self, side: FunctionSide, given: int, batches: int) -> bool:
        """Whether what a function has written of its progress can be true."""
        near = (given - side.done) % (1 << 32) <= QUEUE and (batches - side.done_batch) % (1 << 32) < 1 << 31
        return near and max(side.begun, side.flows, *(getattr(side, name) for name in FIGURES)) < FIGURE_MOST

    def _newest(self) -> int:
        """The number of the newest instance that a function may have missed."""
        return max(self.memory.slot(place).created for place in range(SLOTS))

    def figures(self, process: Process) -> dict[str, int]:
        """What a function lost, and why."""
        if process.removed:
            return process.last
        counted = self._counted(process.part.number)
        return {
            "crashes": process.crashes,
            **{name: max(0, value - process.before.get(name, 0)) for name, value in counted.items()},
        }

    def _counted(self, number: int) -> dict[str, int]:
        """What the functions in a place have lost."""
        side, stack = self.memory.functions[number], self.memory.stack
        return {
            "events_skipped": side.skipped,
            "flows_lost": side.flows_lost,
            "events_lost": stack.lost[number],
            "events_without_room": stack.no_room[number],
            "not_published": side.not_published,
            "not_decided": side.not_decided,
        }
