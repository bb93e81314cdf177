"""Several instances of a function in a running chain: the division of traffic, moves, and the takeover of one
that ended. The controller calls it; where state is stored, `Stores` has the part that needs the store
(sluice/state/chain_store.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sluice.chain.processes.memory import PARTS, Memory
from sluice.chain.processes.partition import Candidate, assign, choose
from sluice.chain.processes.process import Process
from sluice.chain.processes.program import IsolatedChain, Part
from sluice.chain.processes.row_files import RowFiles, row_files

CLOCKS = 1 << 24
"""Events whose clocks the store has in advance: a root that replaces another one begins after these."""
ODD = 1
OFF = {"log": 1, "marks": 2, "order": 4, "state": 8}
"""enum sl_iso_off: features that tests disable."""


class StateError(Exception):
    """The store of a chain's state cannot be used."""


class AwayError(StateError):
    """It does not reply now, or is being recovered: the operation may be tried again."""


class Attaches(Protocol):
    """What connects the process of a function with its store."""

    def attach(self, part: Part, token: str = "") -> int:
        """In the process of a function: connects. The address of its struct sl_store. token: if it is another than when
        the process was forked.
        """
        ...

    def files(self, part: Part) -> tuple[int, ...]:
        """Files of the controller that the process of an instance writes to."""
        ...


class Attachment(Attaches, Protocol):
    """The same of one process, which may be on another host."""

    def with_log(self, file: int) -> Attachment:
        """With another file for its write-ahead log."""
        ...


class Stores(Attaches, Protocol):
    """The store of a chain's state, as the controller and the processes of functions use it."""

    seed: int
    """Of the hash that divides traffic: the same for all runs with a store."""
    off: frozenset[str]
    """Features that tests disable."""

    def attachment(self, part: Part, token: str = "") -> Attachment:
        """What connects the process of a function, as `attach` does."""
        ...

    def admit(self, part: Part, parts: Sequence[int]) -> None:
        """Before a process starts for the first time: these parts of the traffic are its own."""
        ...

    def begin(self) -> None:
        """The chain runs from now on: no call holds its controller for long."""
        ...

    def succeed(self, part: Part) -> tuple[int, int]:
        """Before a process replaces one that ended: it owns the objects of that one. Returns the clock of the
        last event that it committed, and the bytes of its file of rows then. Raises AwayError: call it again then.
        """
        ...

    def token(self, part: Part) -> str:
        """The token that identifies the process of an instance in the store."""
        ...

    def watch(self) -> None:
        """Called again and again while the chain runs: a step to recover a store that failed."""
        ...

    def busy(self) -> bool:
        """Whether there is a further step at once."""
        ...

    def figures(self) -> dict[str, int]:
        """The counters of the store's failures."""
        ...

    def failure(self) -> str | None:
        """The state of a failed store that could not be recovered."""
        ...

    def reserve(self, clock: int) -> None:
        """Clocks below this one may be used."""
        ...


@dataclass
class Instances:
    """The instances of a chain's functions."""

    chain: IsolatedChain
    memory: Memory
    stores: Stores | None = None
    log_drops: bool = False
    """Whether packets are dropped where the packet log is full; else they wait."""
    rows: RowFiles = field(default_factory=RowFiles)
    moves: dict[str, int] = field(default_factory=lambda: {})
    """Parts of the traffic that were moved, by function."""

    def open(self) -> None:
        """Describe them in shared memory, and give them their parts of the traffic."""
        control = self.memory.control
        names = self.chain.vertices()
        control.vertex_count = len(names)
        control.seed = self.stores.seed if self.stores is not None else 0
        control.log_waits = not self.log_drops
        if self.stores is not None:
            control.off = sum(OFF[name] for name in self.stores.off if name in OFF)
            self.advance()
        if self.stores is not None:
            self.rows = row_files(self.chain)
        for part in self.chain.parts:
            control.rank[part.number] = part.leader
        for number, name in enumerate(names):
            found = self.chain.instances_of(name)
            candidate = self.chain.scopes[name]
            vertex = control.vertices[number]
            vertex.fields = len(candidate.scope)
            for place, word in enumerate(candidate.scope):
                vertex.field[place].value = word.encode()
            owners = candidate.owners or assign((), len(found))
            for part in range(PARTS):
                vertex.owner[part] = found[owners[part] % len(found)].number
            vertex.version = 2
            control.routed |= 1 << found[0].number
            for part in found:
                self.describe(part, number)
                if part.shares and self.stores is not None:
                    self.stores.admit(part, [one for one in range(PARTS) if vertex.owner[one] == part.number])

    def describe(self, part: Part, vertex: int) -> None:
        """Report the function of an instance."""
        control, bit = self.memory.control, 1 << part.number
        control.vertex[part.number] = vertex
        control.row_file[part.number] = self.rows.open_files.get(part.number, 0)
        control.rank[part.number] = part.leader
        control.vertices[vertex].instances |= bit
        if part.shares and self.stores is not None:
            control.stateful |= bit

    def advance(self) -> None:
        """Reserve clocks, before those that are reserved are used up."""
        control = self.memory.control
        if self.stores is not None:
            self.stores.watch()
        if self.stores is not None and self.memory.stack.clock + CLOCKS // 2 >= control.clock_limit:
            limit = self.memory.stack.clock + CLOCKS
            with contextlib.suppress(AwayError):
                self.stores.reserve(limit)
                control.clock_limit = limit

    def takes_over(self, process: Process, killed: bool) -> bool:
        """A process of a function with state in a store has ended: prepares another one to continue from that. False if
        its state is not in a store. killed: by another program, and not by an event that it cannot handle. Raises
        AwayError: call it again then.
        """
        part, control = process.part, self.memory.control
        if not control.stateful >> part.number & 1 or self.stores is None:
            return False
        side, queue = self.memory.functions[part.number], self.memory.stack.queue[part.number]
        if (side.done - side.settled) % (1 << 32) > queue.count - side.settled:
            side.settled = side.done  # it may have written any number; uncommitted batches are not handled again
        control.resume[part.number] = 0
        control.committed[part.number], rows = self.stores.succeed(part)
        self.rows.cut(part, rows)
        if process.in_batch > 1 and not killed:
            control.poison[part.number] = side.begun
        side.sleeping = side.running = side.waits = side.flows = 0
        return True

    def places(self, name: str) -> tuple[int, list[Part]]:
        """The number of a function's vertex, and its instances."""
        return self.chain.vertices().index(name), self.chain.instances_of(name)

    def owned(self, name: str) -> dict[int, list[int]]:
        """The parts of each instance, by its number among those of the function."""
        number, found = self.places(name)
        owner = self.memory.control.vertices[number].owner
        return {
            part.instance: [one for one in range(PARTS) if owner[one] == part.number]
            for part in found
            if part.instance is not None
        }

    def load(self, name: str) -> list[int]:
        """Packets so far of each part."""
        number, _ = self.places(name)
        return list(self.memory.stack.packets[number])

    def assign(self, name: str, owners: dict[int, int]) -> int:
        """Move parts, given with the instance of each, from the next batch on. Returns how many get another one."""
        number, found = self.places(name)
        by_instance = {part.instance: part.number for part in found}
        vertex = self.memory.control.vertices[number]
        changed = {part: by_instance[to] for part, to in owners.items() if vertex.owner[part] != by_instance[to]}
        if not changed:
            return 0
        vertex.version += ODD
        for part, to in changed.items():
            vertex.owner[part] = to
        vertex.version += ODD
        self.moves[name] = self.moves.get(name, 0) + len(changed)
        return len(changed)

    def spread(self, name: str, instances: int) -> dict[int, int]:
        """Which instance has each part, if so many share the load; as few parts as possible move."""
        load = [packets + 1 for packets in self.load(name)]
        own = {number: parts for number, parts in self.owned(name).items() if number < instances}
        share = sum(load) / instances
        owners: dict[int, int] = {}
        left = set(range(PARTS))
        room = dict.fromkeys(range(instances), share)
        for number, parts in own.items():
            for part in sorted(parts, key=lambda one: -load[one]):
                if room[number] >= load[part]:
                    owners[part] = number
                    room[number] -= load[part]
                    left.discard(part)
        for part in sorted(left, key=lambda one: -load[one]):
            number = max(room, key=lambda one: room[one])
            owners[part] = number
            room[number] -= load[part]
        return owners

    def described(self, name: str) -> dict[str, object]:
        """The entry of the instances in `chainctl list`."""
        load, owned = self.load(name), self.owned(name)
        return {
            "scope": self.chain.scopes[name].name,
            "parts": {str(number): len(parts) for number, parts in owned.items()},
            "packets": {str(number): sum(load[part] for part in parts) for number, parts in owned.items()},
        }


def planned(chain: IsolatedChain, counts: Sequence[Sequence[int]], tried: Sequence[tuple[str, Candidate]]) -> None:
    """Choose the scopes of a chain by the load of a sample. counts: that of each of `tried`, by function and scope."""
    by_name: dict[str, list[Candidate]] = {}
    for (name, candidate), load in zip(tried, counts, strict=True):
        instances = len(chain.instances_of(name))
        by_name.setdefault(name, []).append(candidate.measured(load, instances))
    for name, found in by_name.items():
        chain.scopes[name] = choose(found)
