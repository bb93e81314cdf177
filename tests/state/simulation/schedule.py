"""Runs a chain by a seed: the order in which its processes run and bytes arrive, moves, crashes and lost connections.

`python -m tests.state.simulation.schedule --seeds 0:100` prints the seeds at which the final state is not that of the
ideal chain, or the chain comes to a stop. The processes are threads of one process; a process that starts gets a copy
of its library, and so its own static data.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from sluice.chain.description import function
from sluice.chain.processes import snapshot
from sluice.chain.processes.boxes import FunctionBox, stack_box
from sluice.chain.processes.instances import AwayError, Instances
from sluice.chain.processes.memory import SLOTS, Memory
from sluice.chain.processes.process import Process
from sluice.chain.processes.program import IsolatedChain, Part
from sluice.state import chain_store as stores
from sluice.state.chain_store import ChainStore, chain_store
from sluice.state.client import Client, client_library
from sluice.state.embedded import embedded
from sluice.state.location import Location
from tests.state.instances import MILLISECOND, SETTINGS, compiled, plan_of, run_ideal
from tests.state.servers import Server, running
from tests.state.traffic import mixed
from tests.support.unoptimised import unoptimised

FOLDER = Path(__file__).parent
TURNS = 60_000
"""Turns after which a chain has come to a stop."""
FILES = 1024
BURST = 16
FAILS = 3
"""Failures of the store in a schedule, at most."""
SWINGS = 0.002
SLOW = 0.9
SALT = 1 << 32
CHAINS = {
    "claims": (function(str(FOLDER.parent / "claims.c")), 2),
    "takes": (function(str(FOLDER.parent / "takes.c")), 2),
    "notices": (function(str(FOLDER.parent / "notices.c")), 2),
    "lapses": (function(str(FOLDER.parent / "lapses.c"), wait=0.05), 3),
}
"""Functions, and how many instances they have."""
NOT_CRASHED = ("claims", "notices")
"""They read cached values, which may be later ones when a batch is handled again (docs/state.md)."""
NOTICED = 5
"""Batches after which the limit that `notices` reads is changed from outside; no log has that."""


class ScheduleError(Exception):
    """A schedule whose result is not that of the ideal chain."""


def preload(folder: Path) -> Path:
    """Compile network.c."""
    path = folder / "network.so"
    command = ["cc", "-O1", "-Wall", "-Wextra", "-shared", "-fPIC", str(FOLDER / "network.c"), "-o", str(path)]
    subprocess.run([*command, "-ldl", "-lpthread"], check=True, timeout=300)
    return path


@cache
def packets() -> list[bytes]:
    """What a chain gets."""
    return mixed(17, 26)


@cache
def chain_of(name: str) -> IsolatedChain:
    one, count = CHAINS[name]
    return compiled(plan_of(one), {name: count})


@cache
def ideal_of(name: str, noticed: int = 0) -> list[str]:
    """The state of the ideal chain. noticed: packets before the change that `notices` is told."""
    with tempfile.TemporaryDirectory() as folder:
        given: dict[str, Any] = {"from": noticed + 1}
        one = function(str(FOLDER.parent / "notices.c"), **given) if noticed else CHAINS[name][0]
        return run_ideal(plan_of(one), packets(), Path(folder)).state


class _OwnClient(Client):
    """A client with static data of its own."""

    def _path(self) -> Path:
        return copied(client_library())


_copies: list[Path] = []
_work = ""


def copied(path: Path) -> Path:
    """A copy of a library."""
    found = Path(_work, f"{len(_copies)}.so")
    shutil.copyfile(path, found)
    _copies.append(found)
    return found


class Simulation:
    """One schedule."""

    def __init__(self, seed: int, server: Location | Server, library: ctypes.CDLL) -> None:
        self.random = random.Random(seed)
        self.network, self.server = library, server
        self.name = self.random.choice(sorted(CHAINS))
        self.swings = self.random.random() < 0.4
        self.follows = self.random.random() < 0.5
        self.slow = self.random.randrange(6)
        self.next_move = 0
        self.faults = self.random.choice((0.0, 0.01, 0.04))
        self.threads: dict[int, str] = {}
        self.processes: dict[int, int] = {}
        self.failures: list[str] = []
        self.ended: list[Process] = []
        self.crashes = self.fails = self.swing = 0
        self.notices, self.noticed = self.name == "notices", 0

    # --- threads ---

    def _start(self, label: str, run: Callable[[], None]) -> int:
        global _count
        number = _count
        _count += 1

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
            own = replace(
                part.compiled, compiled=replace(part.compiled.compiled, path=copied(part.compiled.compiled.path))
            )
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
            kind = stack_box(self.chain, self.memory.mapping(None))
            own = replace(
                self.chain.stack,
                compiled=replace(self.chain.stack.compiled, path=copied(self.chain.stack.compiled.path)),
            )
            chain = replace(self.chain, stack=own)
            kind = stack_box(chain, self.memory.mapping(None))
            with kind(own, SETTINGS, [], [{}], None) as box:
                for first in range(0, len(given), BURST):
                    self.network.simulated_pause()
                    burst = enumerate(given[first : first + BURST], first + 1)
                    box.burst([(packet, number * MILLISECOND, 1, None) for number, packet in burst])
                box.finish()

        return self._start("stack", run)

    # --- what happens ---

    def _files(self) -> list[tuple[int, int]]:
        found = [(fd, self.network.simulated_owner(fd)) for fd in range(3, FILES)]
        return [(fd, owner) for fd, owner in found if owner >= 0]

    def _crash(self, part: Part) -> None:
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

    def _move(self) -> None:
        found = self.chain.instances_of(self.name)
        to = self.random.randrange(len(found))
        some = self.random.sample(range(1024), self.random.choice((300, 1024)))
        self.instances.assign(self.name, dict.fromkeys(some, to))
        self.next_move = self.memory.stack.batches + 1 if self.follows and self.random.random() < 0.7 else 0

    def _fail(self) -> None:
        """The store has only what it had saved, and what was under way is lost."""
        assert isinstance(self.server, Server)
        for fd, _ in self._files():
            self.network.simulated_deliver(fd, self.random.randrange(self.network.simulated_out(fd) + 1))
            if self.random.random() < 0.5:
                self.network.simulated_reply(fd)
        for fd, _ in self._files():
            self.network.simulated_break(fd)
        self.server.fail()
        control.close()
        self.network.simulated_control(connected(self.server.location).fileno())
        self.fails += 1

    def run(self) -> None:
        """Raises ScheduleError."""
        global _count
        _count = 0
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
        for _ in range(TURNS):
            if not (self.threads or self.ended) or self.failures:
                return
            self._step()
        raise ScheduleError(f"{', '.join(self.threads.values())}: at a stop")

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


def connected(location: Location) -> socket.socket:
    """A connection by which the simulated network sees what the server has done."""
    global control
    control = socket.socket(socket.AF_UNIX)
    control.connect(location.path)
    return control


control: socket.socket
_count = 0
OFF = frozenset(filter(None, os.environ.get("SLUICE_STATE_OFF", "").split(",")))


def simulate(seeds: Sequence[int], say: Callable[[str], None], first: bool = False) -> list[int]:
    """The seeds that fail, or the first one. In a process in which network.c is loaded."""
    global _work
    library = ctypes.CDLL(os.environ["LD_PRELOAD"])
    library.simulated_run.restype = ctypes.c_bool
    for name in ("out", "pending"):
        getattr(library, f"simulated_{name}").restype = ctypes.c_size_t
    library.simulated_deliver.argtypes = [ctypes.c_int, ctypes.c_size_t]
    stores.Client = _OwnClient  # pyright: ignore[reportPrivateImportUsage]
    with unoptimised():
        for name in CHAINS:
            chain_of(name)
            ideal_of(name)
    client_library()
    failed: list[int] = []
    with embedded(Location("embedded")) as server, tempfile.TemporaryDirectory() as _work:
        for seed in seeds:
            pid = os.fork()
            if not pid:
                os._exit(_one(seed, server, library, say))
            if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
                failed.append(seed)
                if first:
                    break
    return failed


def _one(seed: int, server: Location, library: ctypes.CDLL, say: Callable[[str], None]) -> int:
    """In a process of its own: what crashed threads had is given up with it."""
    global _work
    with tempfile.TemporaryDirectory(dir=_work) as own, contextlib.ExitStack() as opened:
        _work = own
        failing = random.Random(seed + SALT).random() < 0.4
        chosen = opened.enter_context(running(Path(own, "server"))) if failing else server
        first = connected(chosen.location if isinstance(chosen, Server) else chosen)
        first.sendall(b"*1\r\n$8\r\nFLUSHALL\r\n")
        first.recv(100)
        library.simulated_begin(first.fileno())
        made = Simulation(seed, chosen, library)
        try:
            made.run()
        except ScheduleError as stopped:
            say(f"seed {seed} ({made.name}): {stopped}")
            return 1
        except BaseException as error:
            say(f"seed {seed} ({made.name}): {error!r}")
            return 1
    return 0


def main() -> int:
    """Prints the seeds that fail."""
    parser = argparse.ArgumentParser(description="Schedules of chains with several instances, by seed.")
    parser.add_argument("--seeds", default="0:100", help="FIRST:LAST (0:100)")
    parser.add_argument("--first", action="store_true", help="stop at the first seed that fails")
    options = parser.parse_args()
    first, last = map(int, options.seeds.split(":"))
    if "network.so" not in os.environ.get("LD_PRELOAD", ""):
        with tempfile.TemporaryDirectory() as folder:
            environment = os.environ | {"LD_PRELOAD": str(preload(Path(folder)))}
            command = [sys.executable, "-m", "tests.state.simulation.schedule", *sys.argv[1:]]
            return subprocess.run(command, env=environment).returncode
    failed = simulate(range(first, last), lambda line: print(line, flush=True), options.first)
    print(f"{last - first} schedules, {len(failed)} failed{': ' + ', '.join(map(str, failed)) if failed else ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
