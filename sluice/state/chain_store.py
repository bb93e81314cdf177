"""The store of an isolated chain whose functions have several instances: clocks, owners of traffic, and the clients of
the processes (CHC, 3.3.3 and 3.4).
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace

from sluice.chain.processes.instances import AwayError, StateError
from sluice.chain.processes.memory import FUNCTIONS, PARTS
from sluice.chain.processes.partition import watched
from sluice.chain.processes.program import IsolatedChain, Part
from sluice.hooks.function import CFunction
from sluice.state.client import Client, Place
from sluice.state.cluster import Cluster, open_store
from sluice.state.embedded import embedded
from sluice.state.errors import StoreError
from sluice.state.library import Library, check_version, load_library, make_library
from sluice.state.location import Location
from sluice.state.logs import WriteAheadLog
from sluice.state.peer import Peer
from sluice.state.recovery import Recovery, counts_key, lost, whole_key
from sluice.state.rows import declare_objects, store_rows
from sluice.state.safety import with_safety
from sluice.state.session import RUNS, RUNS_MOST

PROCESSES = "sluice-processes"
"""The number of processes of instances so far."""
SEED = "sluice-seed"
"""Of the hash that divides traffic: parts are the same in each run."""
SCOPES = "sluice-scopes"
"""The hash with the scope by which the traffic of a function is divided."""
CLOCK = "sluice-clock"
"""With the run: clocks below it may have been used."""


PATIENCE = 12
"""Time-outs of the store after which the controller fails, as its instances do."""
REPLY = 1.0
"""Seconds for which the controller of a running chain waits for the store: it has other things to do."""
PAUSE, SOON = 1.0, 0.05
"""Seconds before it tries again to reach a store that did not reply, and one that refused the connection."""
OPENING = 60.0
"""Seconds for which it waits before the chain runs, and for the final state."""
ATTEMPTS = 3
"""Connections that a process tries at its start, each for the time-out of the store."""


def owner_key(function: str, part: int) -> str:
    """The key whose value is the process that owns a part of the traffic (runtime/instance.c)."""
    return f"sluice-owner:{{{function}}}{part}"


@dataclass
class Attached:
    """What connects the process of an instance with its store: the parameters of Client."""

    location: Location
    prefix: str
    epoch: int
    instance: str
    place: Place
    _client: Client | None = None

    def attach(self, part: Part, token: str = "") -> int:
        """In the process of the instance: connects. The address of its struct sl_store. Raises StateError."""
        place = replace(self.place, token=token or self.place.token)
        for left in reversed(range(ATTEMPTS)):
            try:
                self._client = Client(self.location, self.prefix, self.epoch, self.instance, place)
                return self._client.address
            except StoreError as error:
                if not left:
                    raise StateError(str(error)) from error
        raise AssertionError(part.label)

    def files(self, _part: Part) -> tuple[int, ...]:
        """The file of its write-ahead log."""
        return (self.place.log,) if self.place.log >= 0 else ()

    def with_log(self, file: int) -> Attached:
        """With another file for its write-ahead log; without one, if it has none."""
        return replace(self, place=replace(self.place, log=file if self.place.log >= 0 else -1))


@dataclass
class ChainStore:
    """The store of a running chain; `chain_store` opens it. run: its first identifier of updates, that of its root; the
    processes have the next ones. strict: operations with results are in the order of packets. off: what tests switch
    off.
    """

    location: Location
    chain: IsolatedChain
    library: Library
    run: int
    peer: Peer | Cluster
    seed: int
    strict: bool = True
    off: frozenset[str] = frozenset()
    tokens: dict[int, str] = field(default_factory=lambda: {})
    recovery: Recovery = field(init=False)
    _processes: int = 0
    _clock: int = 0
    _files: dict[int, WriteAheadLog] = field(default_factory=lambda: {})
    _attached: list[Attached] = field(default_factory=lambda: [])
    _successors: set[int] = field(default_factory=lambda: set())
    """Instances of which a process has ended, and the next one does not yet have its place in the store."""
    _steps: Iterator[None] | None = None
    """Those of a recovery that is under way."""
    _away: float | None = None
    """Since when the store does not reply."""
    _retry: float = 0.0
    _timeout: float = OPENING

    def attach(self, part: Part, token: str = "") -> int:
        """In the process of a function: connects. The address of its struct sl_store. Raises StateError."""
        self._attached.append(self.attachment(part, token))
        return self._attached[-1].attach(part)

    def attachment(self, part: Part, token: str = "") -> Attached:
        """What connects the process of an instance."""
        self.tokens[part.number] = token or self.tokens[part.number]
        function = part.functions.c[0]
        cached = self.chain.scopes[part.name].cached
        shown = watched(function, cached)
        log = self._files[part.number].file if part.number in self._files else -1
        place = Place(function.name, self.tokens[part.number], self.run, cached, shown, self.strict, log)
        return Attached(self.location, self.library.prefix, self.run + 1 + part.number, str(part.instance or 0), place)

    def admit(self, part: Part, parts: Sequence[int]) -> None:
        """These parts of the traffic are those of a process that has not started."""
        token, name = self._token(part), part.functions.c[0].name
        if "logs" not in self.off:
            self._files[part.number] = self.recovery.open_log(name)
        self.recovery.called(name, "admit", [owner_key(name, one) for one in parts], token)
        self._perform(name)

    def begin(self) -> None:
        """The chain runs from now on."""
        self._set_timeout(REPLY)

    def _set_timeout(self, seconds: float) -> None:
        self._timeout = seconds
        self.peer.set_timeout(seconds)

    def succeed(self, part: Part) -> tuple[int, int]:
        """Pass the ownership of an ended process to the next one. The last clock that it committed, and the bytes
        of its file of rows then. Raises AwayError: call it again then.
        """
        name = part.functions.c[0].name
        if part.number not in self._successors:
            before, token = self.tokens[part.number], self._token(part)
            if part.number in self._files:
                self._files[part.number].cut()
            self.recovery.called(name, "inherit", [owner_key(name, one) for one in range(PARTS)], before, token)
            self._successors.add(part.number)
        self._perform(name)
        marker = f"sluice-done:{{{name}}}{part.instance or 0}:{self.run}"
        done, rows = self._calls([("HGET", marker, "clock"), ("HGET", marker, "rows")])
        self._successors.discard(part.number)
        return 0 if "repeated" in self.off else _number(done), _number(rows)

    def reserve(self, clock: int) -> None:
        """Set in the store that clocks below this one may be used."""
        self._clock = clock
        self._calls([("SET", f"{CLOCK}:{self.run}", clock)])

    def text(self) -> str:
        """The final state, a row a line. Raises StoreError."""
        names = [function.name for function in shared_functions(self.chain)]
        while True:
            try:
                self._calls([("GET", CLOCK)])  # a server that failed at the end is recovered
                break
            except AwayError:
                time.sleep(0.01)
                self.watch()
        self._set_timeout(OPENING)
        return "".join(f"{row}\n" for row in store_rows(self.peer, names))

    def _token(self, part: Part) -> str:
        (number,) = self._calls([("INCR", PROCESSES)])
        self._processes = max(self._processes, _whole(number))
        self.tokens[part.number] = f"{part.functions.c[0].name}@{part.instance or 0}/{number}"
        return self.tokens[part.number]

    def _calls(self, commands: list[tuple[str | bytes | int, ...]]) -> Sequence[object]:
        if self._steps is None and self.peer.is_lost():
            self.watch()
        begin = time.monotonic()
        try:
            if self._steps is None and begin >= self._retry:
                replies = list(self.peer.calls(commands))
                self._away = None
                return replies
        except StoreError as error:
            self._leave(error, begin)
        raise AwayError(f"{self.peer.name} does not reply")

    def _perform(self, function: str) -> None:
        """The calls of the controller that are pending."""
        for entry in self.recovery.pending(function):
            (reply,) = self._calls([entry.words])
            self.recovery.performed(function, entry, reply)

    def watch(self) -> None:
        """A step to recover a store that restarted, or that another server has replaced; and to bound the logs. Raises
        StateError if the store is away for too long.
        """
        self.recovery.look()
        begin = time.monotonic()
        if begin < self._retry:
            return
        try:
            if self._steps is None and self.peer.is_lost():
                if isinstance(self.peer, Peer):
                    self.peer.close()
                    self.peer = Peer(self.peer.location, self._timeout)
                self._steps = self.recovery.recover(self.peer)
            if self._steps is not None:
                self._step()
            elif self._away is not None or self.recovery.due():
                if isinstance(self.peer, Cluster):  # a slot may move while its connection remains
                    self._steps = self.recovery.recover(self.peer)
                    self._step()
                if self._steps is None:
                    self.recovery.checkpoint(self.peer)
        except StoreError as error:
            self._leave(error, begin)

    def busy(self) -> bool:
        """Whether `watch` has something to do at once."""
        return self._steps is not None and time.monotonic() >= self._retry

    def _step(self) -> None:
        """A step of a recovery."""
        if self._steps is not None and next(self._steps, self) is self:
            self._steps = self._away = None

    def _leave(self, error: StoreError, begin: float) -> None:
        """The store did not reply to what began then, or is not ready. Raises StateError where that is for good."""
        now = time.monotonic()
        self._steps, self._away = None, self._away or now
        self._retry = now + (PAUSE if now - begin > REPLY / 2 else SOON)
        if isinstance(self.peer, Peer):
            self.peer.close()  # replies may be under way
        if not lost(error) or now - self._away > PATIENCE * self.location.timeout / 1000:
            raise StateError(str(error)) from error

    def establish(self, peer: Peer | Cluster) -> None:
        """Load the functions into a server, and set the keys of no process. Raises StoreError."""
        functions = shared_functions(self.chain)
        load_library(peer, self.library)
        declare_objects(peer, [(function.name, function.shared) for function in functions])
        runs = peer.call("GET", RUNS)
        if _number(runs) < self.run + FUNCTIONS:
            peer.call("SET", RUNS, self.run + FUNCTIONS)
        if _number(peer.call("GET", PROCESSES)) < self._processes:
            peer.call("SET", PROCESSES, self._processes)
        peer.call("SETNX", SEED, self.seed)
        if self._clock:
            peer.call("SET", f"{CLOCK}:{self.run}", self._clock)
        for function in functions:
            peer.call("HSETNX", SCOPES, function.name, self.chain.scopes[function.name].name)

    def token(self, part: Part) -> str:
        """The token that identifies the process of an instance."""
        return self.tokens[part.number]

    def files(self, part: Part) -> tuple[int, ...]:
        """The log of the process of an instance."""
        return (self._files[part.number].file,) if part.number in self._files else ()

    def figures(self) -> dict[str, int]:
        """The counters of the store's failures."""
        return self.recovery.figures()

    def failure(self) -> str | None:
        """The state that could not be recovered."""
        if not self.recovery.missing:
            return None
        missing = f"{self.peer.name} lost {self.recovery.missing} calls that no log has"
        return f"{missing}: its state is older than the packets that left"

    def clean(self) -> None:
        """Remove the keys that are needed only while the chain runs."""
        keys = [f"{CLOCK}:{self.run}"]
        for part in self.chain.leaders:
            if not part.shares:
                continue
            name = part.functions.c[0].name
            keys += [
                f"sluice-done:{{{name}}}{one}:{self.run}" for one in range(len(self.chain.instances_of(part.name)))
            ]
            keys += [counts_key(name, self.run), whole_key(name, self.run)]
            keys += [f"sluice-timers:{{{name}}}{one}:{self.run}" for one in range(PARTS)]
        with contextlib.suppress(StoreError):
            self.peer.calls([("DEL", key) for key in keys])


def _whole(reply: object) -> int:
    return reply if isinstance(reply, int) else 0


def _number(reply: object) -> int:
    return int(reply) if isinstance(reply, bytes) and reply.isdigit() else 0


def shared_functions(chain: IsolatedChain) -> list[CFunction]:
    """The functions of a chain of which a store has state."""
    return [function for part in chain.leaders for function in part.functions.c if function.shared or function.stored]


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
        peer = open_store(server, OPENING)
        try:
            peer.location = with_safety(peer, peer.location)
            store = _open(peer.location, chain, peer, off, strict, seed)
        except StoreError:
            peer.close()
            raise
        try:
            yield store
            store.clean()
        finally:
            store.recovery.close()
            store.peer.close()


def _open(
    location: Location, chain: IsolatedChain, peer: Peer | Cluster, off: frozenset[str], strict: bool, seed: int
) -> ChainStore:
    functions = shared_functions(chain)
    library = make_library([operation for function in functions for operation in function.operations], off)
    check_version(peer)
    count = 1 + FUNCTIONS
    runs = peer.call("INCRBY", RUNS, count)
    last = runs if isinstance(runs, int) else count
    if last > RUNS_MOST:
        raise StoreError(
            f"{location.name} has had as many runs as identifiers of updates can tell apart; while no run uses it, "
            f"delete its keys {RUNS} and sluice-log:*"
        )
    store = ChainStore(location, chain, library, last - count + 1, peer, seed, strict, off)
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
    store.recovery = Recovery(
        [function.name for function in functions],
        library.prefix,
        store.run,
        store.establish,
        lambda: store.tokens.values(),
    )
    store.establish(peer)
    store.recovery.begin(peer)
    return store
