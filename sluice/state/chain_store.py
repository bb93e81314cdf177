"""The store of an isolated chain whose functions have several instances: clocks, owners of traffic, and the clients of
the processes (CHC, 3.3.3 and 3.4).
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from sluice.chain.processes.instances import StateError
from sluice.chain.processes.memory import FUNCTIONS, PARTS
from sluice.chain.processes.partition import watched
from sluice.chain.processes.program import IsolatedChain, Part
from sluice.hooks.function import CFunction
from sluice.state.client import Client, Place
from sluice.state.cluster import Cluster, open_store
from sluice.state.embedded import embedded
from sluice.state.errors import StoreError
from sluice.state.library import check_version, load_library, make_library
from sluice.state.location import Location
from sluice.state.peer import Peer
from sluice.state.rows import declare_objects, store_rows
from sluice.state.session import RUNS, RUNS_MOST

PROCESSES = "sluice-processes"
"""The number of processes of instances so far."""
SEED = "sluice-seed"
"""Of the hash that divides traffic: parts are the same in each run."""
SCOPES = "sluice-scopes"
"""The hash that says by which scope the traffic of a function is divided."""
CLOCK = "sluice-clock"
"""With the run: clocks below it may have been used."""


ATTEMPTS = 3
"""Connections that a process tries at its start, each for the time-out of the store."""


def owner_key(function: str, part: int) -> str:
    """The key whose value is the process that owns a part of the traffic (runtime/instance.c)."""
    return f"sluice-owner:{{{function}}}{part}"


@dataclass
class ChainStore:
    """The store of a running chain; `chain_store` opens it. run: its first identifier of updates, that of its root; the
    processes have the next ones. strict: operations with results are in the order of packets. off: what tests switch
    off.
    """

    location: Location
    chain: IsolatedChain
    prefix: str
    run: int
    peer: Peer | Cluster
    seed: int
    strict: bool = True
    off: frozenset[str] = frozenset()
    tokens: dict[int, str] = field(default_factory=lambda: {})
    _clients: list[Client] = field(default_factory=lambda: [])

    def attach(self, part: Part) -> int:
        """In the process of a function: connects. The address of its struct sl_store. Raises StateError."""
        function = part.functions.c[0]
        cached = self.chain.scopes[part.name].cached
        shown = watched(function, cached)
        place = Place(function.name, self.tokens[part.number], self.run, cached, shown, self.strict)
        epoch = self.run + 1 + part.number
        for left in reversed(range(ATTEMPTS)):
            try:
                self._clients.append(Client(self.location, self.prefix, epoch, str(part.instance or 0), place))
                break
            except StoreError as error:
                if not left:
                    raise StateError(str(error)) from error
        return self._clients[-1].address

    def admit(self, part: Part, parts: Sequence[int]) -> None:
        """These parts of the traffic are those of a process that has not started."""
        token = self._token(part)
        name = part.functions.c[0].name
        self._calls([("SET", owner_key(name, one), token) for one in parts])

    def succeed(self, part: Part) -> tuple[int, int]:
        """What a process owned that has ended is that of the next one. The last clock that it committed, and the bytes
        of its file of rows then.
        """
        before, name = self.tokens[part.number], part.functions.c[0].name
        token = self._token(part)
        keys = [owner_key(name, one) for one in range(PARTS)]
        marker = f"sluice-done:{{{name}}}{part.instance or 0}:{self.run}"
        inherit = ("FCALL", f"{self.prefix}_inherit", len(keys), *keys, before, token)
        _, done, rows = self._calls([inherit, ("HGET", marker, "clock"), ("HGET", marker, "rows")])
        return 0 if "repeated" in self.off else _number(done), _number(rows)

    def reserve(self, clock: int) -> None:
        """The store knows that clocks below this one may be used."""
        self._calls([("SET", f"{CLOCK}:{self.run}", clock)])

    def text(self) -> str:
        """The final state, a row a line. Raises StoreError."""
        names = [function.name for function in shared_functions(self.chain)]
        return "".join(f"{row}\n" for row in store_rows(self.peer, names))

    def _token(self, part: Part) -> str:
        (number,) = self._calls([("INCR", PROCESSES)])
        self.tokens[part.number] = f"{part.functions.c[0].name}@{part.instance or 0}/{number}"
        return self.tokens[part.number]

    def _calls(self, commands: list[tuple[str | bytes | int, ...]]) -> list[object]:
        try:
            return list(self.peer.calls(commands)) if commands else []
        except StoreError as error:
            raise StateError(str(error)) from error

    def clean(self) -> None:
        """Remove what is needed only while the chain runs."""
        keys = [f"{CLOCK}:{self.run}"]
        for part in self.chain.leaders:
            if not part.shares:
                continue
            name = part.functions.c[0].name
            keys += [
                f"sluice-done:{{{name}}}{one}:{self.run}" for one in range(len(self.chain.instances_of(part.name)))
            ]
            keys += [f"sluice-timers:{{{name}}}{one}:{self.run}" for one in range(PARTS)]
        self._calls([("DEL", key) for key in keys])


def _number(reply: object) -> int:
    return int(reply) if isinstance(reply, bytes) and reply.isdigit() else 0


def shared_functions(chain: IsolatedChain) -> list[CFunction]:
    """The functions of a chain that declare shared objects."""
    return [function for part in chain.leaders for function in part.functions.c if function.shared]


def hash_seed(location: Location, given: int | None) -> int:
    """The seed of the hash that divides traffic: that of a server that has one; else `given`, or a random one."""
    chosen = given if given is not None else secrets.randbits(62)
    if location.kind != "server":
        return chosen
    with open_store(location) as peer:
        peer.call("SETNX", SEED, chosen)
        known = peer.call("GET", SEED)
    return int(known) if isinstance(known, bytes) and known.isdigit() else chosen


@contextlib.contextmanager
def chain_store(
    location: Location,
    chain: IsolatedChain,
    off: frozenset[str] = frozenset(),
    strict: bool = True,
    seed: int = 0,
) -> Generator[ChainStore | None]:
    """The store of a chain, for functions that declare shared objects; None if there are none. Raises StoreError."""
    if not shared_functions(chain):
        yield None
        return
    with contextlib.ExitStack() as opened:
        server = opened.enter_context(embedded(location)) if location.kind == "embedded" else location
        peer = opened.enter_context(open_store(server, 60.0))
        store = _open(peer.location, chain, peer, off, strict, seed)
        yield store
        with contextlib.suppress(StateError):
            store.clean()


def _open(
    location: Location, chain: IsolatedChain, peer: Peer | Cluster, off: frozenset[str], strict: bool, seed: int
) -> ChainStore:
    functions = shared_functions(chain)
    library = make_library([operation for function in functions for operation in function.operations], off)
    check_version(peer)
    load_library(peer, library)
    declare_objects(peer, [(function.name, function.shared) for function in functions])
    count = 1 + FUNCTIONS
    runs = peer.call("INCRBY", RUNS, count)
    last = runs if isinstance(runs, int) else count
    if last > RUNS_MOST:
        raise StoreError(
            f"{location.name} has had as many runs as identifiers of updates can tell apart; while no run uses it, "
            f"delete its keys {RUNS} and sluice-log:*"
        )
    peer.call("SETNX", SEED, seed)
    for function in functions:
        name = chain.scopes[function.name].name
        peer.call("HSETNX", SCOPES, function.name, name)
        known = peer.call("HGET", SCOPES, function.name)
        before = known.decode() if isinstance(known, bytes) else ""
        if before != name:
            raise StoreError(
                f"{location.name} has the state of '{function.name}' divided by {before}, not by {name}: give "
                f"--partition {function.name}={before}, or use another store"
            )
    return ChainStore(location, chain, library.prefix, last - count + 1, peer, seed, strict, off)
