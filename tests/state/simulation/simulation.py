"""One schedule: by a seed, the processes of a chain run, bytes arrive, keys move, and processes, connections and the
store fail. The final state must be that of the ideal chain.
"""

from __future__ import annotations

import ctypes
import os
import socket

from sluice.chain.processes import snapshot
from sluice.chain.processes.instances import Instances
from sluice.chain.processes.memory import SLOTS, Memory
from sluice.chain.processes.program import Part
from sluice.state.chain_store import ChainStore, chain_store
from sluice.state.location import Location
from tests.state.instances import MILLISECOND
from tests.state.servers import Server
from tests.state.simulation.chains import CHAINS, NOT_CRASHED, NOTICED, chain_of, ideal_of
from tests.state.simulation.processes import Processes

STEPS = 60_000
"""Steps after which a chain has come to a stop."""
FAILS = 3
"""The maximum number of failures of the store in a schedule."""
SWINGS = 0.002
"""The probability of a step that assigns all keys to another instance, in schedules that swing."""
SLOW = 0.9
"""The probability that the straggler does not run when it is chosen."""
OFF = frozenset(filter(None, os.environ.get("SLUICE_STATE_OFF", "").split(",")))
"""Mechanisms of the protocol that are switched off."""


class ScheduleError(Exception):
    """A schedule whose result is not that of the ideal chain."""


def connected(location: Location) -> socket.socket:
    """A connection by which the simulated network sees what the server has done."""
    control = socket.socket(socket.AF_UNIX)
    control.connect(location.path)
    return control


class Simulation(Processes):
    """One schedule. `control` is a connection to the server, which this object closes when the server fails."""

    def __init__(self, seed: int, server: Location | Server, network: ctypes.CDLL, control: socket.socket) -> None:
        super().__init__(seed, network)
        self.server, self.control = server, control
        self.name = self.random.choice(sorted(CHAINS))
        self.swings = self.random.random() < 0.4
        self.follows = self.random.random() < 0.5
        self.slow = self.random.randrange(6)
        self.next_move = 0
        self.faults = self.random.choice((0.0, 0.01, 0.04))
        self.fails = self.swing = 0
        self.notices, self.noticed = self.name == "notices", 0

    def run(self) -> None:
        """Raises ScheduleError."""
        self.chain = chain_of(self.name)
        location = self.server.location if isinstance(self.server, Server) else self.server
        with chain_store(location, self.chain, OFF, True, seed=1) as store:
            assert isinstance(store, ChainStore)
            self.store = store
            labels = [part.label for part in self.chain.parts]
            self.straggler = labels[self.slow] if self.slow < len(labels) else ""
            store.recovery.notify = lambda _: None
            self.memory = Memory(len(self.chain.parts))
            control = self.memory.control
            for place in range(len(self.chain.parts), 64):
                control.absent |= 1 << place
            for part in self.chain.parts:
                self._describe(part)
            self.instances = Instances(self.chain, self.memory, store)
            self.instances.open()
            for part in self.chain.parts:
                self._start_part(part)
            self._start_stack()
            self._schedule()
            state = [row for row in store.text().splitlines() if '"object": "limit"' not in row]
        if self.failures:
            raise ScheduleError("; ".join(self.failures))
        ideal = ideal_of(self.name, self.noticed)
        if state != ideal:
            differing = next((pair for pair in zip(ideal, state, strict=False) if pair[0] != pair[1]), ("", ""))
            raise ScheduleError(f"the state differs: {differing[0][:200]} is {differing[1][:200]}")

    def _describe(self, part: Part) -> None:
        control, bit = self.memory.control, 1 << part.number
        snapshot.describe(self.chain, control)
        control.always |= bit if part.always else 0
        control.before[part.number], control.drops[part.number] = part.before, part.drops
        for number in self.chain.subscriptions(part) if not part.instance else ():
            control.subscribed[number] |= bit

    def _schedule(self) -> None:
        for _ in range(STEPS):
            if not (self.threads or self.ended) or self.failures:
                return
            self._step()
        raise ScheduleError(f"{', '.join(self.threads.values())}: at a stop")

    def _step(self) -> None:
        choose = self.random
        if self.notices and self._handled():
            self._notice()
        if choose.random() < self.faults:
            files = self._files()
            running = [part for part in self.chain.parts if self.processes[part.number] in self.threads]
            match choose.randrange(6 if isinstance(self.server, Server) and self.name != "notices" else 4):
                case 0 if running and self.crashes < 6 and self.name not in NOT_CRASHED:
                    self._crash(choose.choice(running))
                case 1 if files:
                    self.network.simulated_break(choose.choice(files)[0])
                case 4 if isinstance(self.server, Server):
                    self.server.save()
                case 5 if self.fails < FAILS:
                    self._fail()
                case _:
                    self._move()
            return
        if self.next_move and self.memory.stack.batches >= self.next_move:  # with the next batch after a move
            self._move()
        if self.swings and choose.random() < SWINGS:  # all of the traffic, and soon back
            self.swing += 1
            found = self.chain.instances_of(self.name)
            self.instances.assign(self.name, dict.fromkeys(range(1024), self.swing % len(found)))
        if choose.random() < 0.3:
            files = [fd for fd, _ in self._files()]
            out = [fd for fd in files if self.network.simulated_out(fd)]
            pending = [fd for fd in files if self.network.simulated_pending(fd)]
            if out and (choose.random() < 0.5 or not pending):
                fd = choose.choice(out)
                size = self.network.simulated_out(fd)
                self.network.simulated_deliver(fd, size if choose.random() < 0.7 else choose.randrange(size + 1))
            elif pending:
                self.network.simulated_reply(choose.choice(pending))
        thread = choose.choice(sorted(self.threads))
        if self.threads[thread] == self.straggler and choose.random() < SLOW:
            thread = choose.choice(sorted(self.threads))
        if self.notices and self.threads[thread] == "stack" and self.memory.stack.batches >= NOTICED:
            return
        if self.network.simulated_run(thread):
            del self.threads[thread]
        self.instances.advance()
        self._take_over()
        self._end()

    def _move(self) -> None:
        """Assign some or all of the keys to another instance."""
        found = self.chain.instances_of(self.name)
        to = self.random.randrange(len(found))
        some = self.random.sample(range(1024), self.random.choice((300, 1024)))
        self.instances.assign(self.name, dict.fromkeys(some, to))
        self.next_move = self.memory.stack.batches + 1 if self.follows and self.random.random() < 0.7 else 0

    def _fail(self) -> None:
        """The store has only what it had saved, and what it had not received is lost."""
        assert isinstance(self.server, Server)
        for fd, _ in self._files():
            self.network.simulated_deliver(fd, self.random.randrange(self.network.simulated_out(fd) + 1))
            if self.random.random() < 0.5:
                self.network.simulated_reply(fd)
        for fd, _ in self._files():
            self.network.simulated_break(fd)
        self.server.fail()
        self.control.close()
        self.control = connected(self.server.location)
        self.network.simulated_control(self.control.fileno())
        self.fails += 1

    def _handled(self) -> bool:
        """Whether the instances have handled the batches before a change from outside, and there are no others."""
        stack, side = self.memory.stack, self.memory.functions
        numbers = [part.number for part in self.chain.parts]
        return stack.batches >= NOTICED and all(side[one].done == stack.queue[one].count for one in numbers)

    def _notice(self) -> None:
        """The limit is changed from outside; the instances get the callbacks, as far as they have a connection."""
        self.notices = False
        latest = max((self.memory.slot(place) for place in range(SLOTS)), key=lambda slot: slot.batch)
        self.noticed = latest.now // MILLISECOND
        self.store.peer.call("SET", "sluice:{notices}limit:", 7)
        for fd, _ in self._files():
            self.network.simulated_deliver(fd, 0)
            self.network.simulated_reply(fd)

    def _end(self) -> None:
        """Let instances end that have handled all, as the controller does: one may have begun after the last batch."""
        stack, side = self.memory.stack, self.memory.functions
        left = [part.number for part in self.chain.parts if self.processes[part.number] in self.threads]
        if not self.ended and "stack" not in self.threads.values():
            done = all(side[one].running and side[one].done == stack.queue[one].count for one in left)
            self.memory.control.ending = int(done)
