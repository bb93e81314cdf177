"""The processes of a chain in a simulation: threads of one process, of which the schedule runs one at a time."""

from __future__ import annotations

import contextlib
import ctypes
import random
import threading
from collections.abc import Callable
from dataclasses import replace

from sluice.chain.processes.boxes import FunctionBox, stack_box
from sluice.chain.processes.instances import AwayError, Instances
from sluice.chain.processes.memory import Memory
from sluice.chain.processes.process import Process
from sluice.chain.processes.program import IsolatedChain, Part
from sluice.state.chain_store import ChainStore
from tests.state.instances import MILLISECOND, SETTINGS
from tests.state.simulation.chains import packets
from tests.state.simulation.libraries import copied

FILES = 1024
"""File descriptors below this number may be connections of the simulated network."""
BURST = 16


class Processes:
    """The threads of a chain: started, crashed, and started again. `network` is the loaded network.c."""

    chain: IsolatedChain
    memory: Memory
    store: ChainStore
    instances: Instances

    def __init__(self, seed: int, network: ctypes.CDLL) -> None:
        self.random, self.network = random.Random(seed), network
        self.threads: dict[int, str] = {}
        """The labels of the processes that run, by the number of their threads."""
        self.processes: dict[int, int] = {}
        """The threads of the instances of functions, by the number of the part."""
        self.failures: list[str] = []
        self.ended: list[Process] = []
        """Processes that crashed, and that no other one has replaced yet."""
        self.crashes = self._count = 0

    def _start(self, label: str, run: Callable[[], None]) -> int:
        number = self._count
        self._count += 1

        def body() -> None:
            self.network.simulated_enter(number)
            try:
                run()
            except BaseException as error:
                self.failures.append(f"{label}: {error!r}")
            finally:
                self.network.simulated_leave()

        threading.Thread(target=body, daemon=True).start()
        self.threads[number] = label
        return number

    def _start_part(self, part: Part) -> None:
        def run() -> None:
            assert part.compiled is not None
            own = part.compiled.with_library(copied(part.compiled.compiled.path))
            settings = replace(SETTINGS, memory=1 << 20, prefault=False, store=self.store.attach(part))
            box = FunctionBox(own, settings, part.python, part.options, None, False)
            if not box.receive(self.memory.mapping(part.number)) and not self.memory.control.ending:
                self.failures.append(f"{part.label} ended before the input")
            elif box.failure():
                self.failures.append(f"{part.label}: {box.failure()}")

        self.processes[part.number] = self._start(part.label, run)

    def _start_stack(self) -> int:
        def run() -> None:
            assert self.chain.stack is not None
            given = packets()
            own = self.chain.stack.with_library(copied(self.chain.stack.compiled.path))
            chain = replace(self.chain, stack=own)
            kind = stack_box(chain, self.memory.mapping(None))
            with kind(own, SETTINGS, [], [{}], None) as box:
                for first in range(0, len(given), BURST):
                    self.network.simulated_pause()
                    burst = enumerate(given[first : first + BURST], first + 1)
                    box.burst([(packet, number * MILLISECOND, 1, None) for number, packet in burst])
                box.finish()

        return self._start("stack", run)

    def _files(self) -> list[tuple[int, int]]:
        found = [(fd, self.network.simulated_owner(fd)) for fd in range(3, FILES)]
        return [(fd, owner) for fd, owner in found if owner >= 0]

    def _crash(self, part: Part) -> None:
        """A process ends: a part of what it has written arrives, and its connections are lost."""
        thread = self.processes[part.number]
        for fd, owner in self._files():
            if owner == thread:
                self.network.simulated_deliver(fd, self.random.randrange(self.network.simulated_out(fd) + 1))
                self.network.simulated_forget(fd)
        del self.threads[thread]
        self.crashes += 1
        self.ended.append(Process(part))
        self._take_over()

    def _take_over(self) -> None:
        """Start processes in the place of those that crashed, unless the store is being recovered."""
        for process in list(self.ended):
            with contextlib.suppress(AwayError):
                assert self.instances.takes_over(process, killed=True)
                self.ended.remove(process)
                self._start_part(process.part)
