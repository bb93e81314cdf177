"""Recovery of a store that has lost acknowledged updates (CHC, 3.4.4): a server that restarts, from a checkpoint or
with nothing, or a replica that replaces its master.

The controller does that. A server is whole if its identity is in the key `sluice-whole`, which only the controller
sets; clients transmit nothing to another one (runtime/log.c).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from dataclasses import dataclass, field

from sluice.state.cluster import LATER, Cluster
from sluice.state.errors import StoreError
from sluice.state.logs import ENDED, Entry, WriteAheadLog, entry_of, read_counts, replay_order
from sluice.state.peer import Peer, ReplyError, info_fields

CONTROLLER = "controller"
"""The process in whose name the controller calls functions."""
TOGETHER = 200
"""Calls that are performed again with one round trip."""
LOG_MOST = 256 << 20
"""Bytes of a log; at half of it, a checkpoint is made."""
CHECK = 0.5
"""Seconds after which it is seen that another server has the place of one, whose connections remain."""
_SAVES = {False: ("BGSAVE", "rdb_last_bgsave_status"), True: ("BGREWRITEAOF", "aof_last_bgrewrite_status")}
_SAVING = ("rdb_bgsave_in_progress", "aof_rewrite_in_progress", "aof_rewrite_scheduled")
"""Fields of INFO: 1 while a checkpoint is made, of either kind, or waits for one of the other kind."""


def counts_key(function: str, run: int) -> str:
    """The hash of TS (runtime/log.c)."""
    return f"sluice-ts:{{{function}}}{run}"


def whole_key(function: str, run: int) -> str:
    """The key whose value is the identity of the server that has all of a function's state."""
    return f"sluice-whole:{{{function}}}{run}"


@dataclass
class Recovery:
    """Write-ahead logs, checkpoints and recoveries of a running chain's functions.

    establish: loads the functions into a server, and sets the keys of no process. live: processes that have not ended.
    """

    functions: Sequence[str]
    prefix: str
    run: int
    establish: Callable[[Peer | Cluster], None]
    live: Callable[[], Collection[str]]
    notify: Callable[[str], None] = lambda line: print(f"sluice: {line}", file=sys.stderr, flush=True)
    logs: dict[str, list[WriteAheadLog]] = field(default_factory=lambda: {})
    """By function."""
    missing: int = 0
    """Calls that neither a store nor a log had."""
    replayed: int = 0
    count: int = 0
    seconds: list[float] = field(default_factory=lambda: [])
    _own: dict[str, list[Entry]] = field(default_factory=lambda: {})
    _pending: dict[str, list[Entry]] = field(default_factory=lambda: {})
    _ended: dict[str, dict[str, int]] = field(default_factory=lambda: {})
    """By function, processes that have ended, and the call of the controller by which another one inherited."""
    _looked: int = 0
    _numbers: dict[str, int] = field(default_factory=lambda: {})
    _saving: dict[str, dict[str, int]] = field(default_factory=lambda: {})
    _save_failed: bool = False
    _checked: float = 0.0

    def open_log(self, function: str) -> WriteAheadLog:
        """The log of a further instance. Raises OSError."""
        log = WriteAheadLog()
        self.logs.setdefault(function, []).append(log)
        return log

    def called(self, function: str, name: str, keys: Sequence[str], *words: str) -> Entry:
        """A call of the controller, which is in its own log. It is `pending` until it was `performed`."""
        number = self._numbers[function] = self._numbers.get(function, 0) + 1
        all_words = ("FCALL", f"{self.prefix}_logged", str(1 + len(keys)), counts_key(function, self.run), *keys,
                     CONTROLLER, str(number), name, "t", *words)  # fmt: skip
        entry = entry_of([word.encode() for word in all_words])
        assert entry is not None
        self._own.setdefault(function, []).append(entry)
        self._pending.setdefault(function, []).append(entry)
        if name == "inherit":
            self._ended.setdefault(function, {})[words[0]] = number
        return entry

    def pending(self, function: str) -> list[Entry]:
        """Calls of the controller whose replies it does not have. Each may be performed again: the store takes no later
        one before.
        """
        return list(self._pending.get(function, []))

    def performed(self, function: str, entry: Entry, reply: object) -> None:
        """The reply to a call of the controller."""
        if isinstance(reply, bytes) and reply[:1] == b"@":
            entry.counts = read_counts(reply[1:].partition(b";")[0])
        self._pending[function] = [one for one in self.pending(function) if one is not entry]

    # --- recovery ---

    def begin(self, peer: Peer | Cluster) -> None:
        """The servers have all that there is."""
        for function in self.functions:
            key = whole_key(function, self.run)
            peer.call("SET", key, peer.server_of(key))

    def recover(self, peer: Peer | Cluster) -> Iterator[None]:
        """Restore acknowledged updates of the servers, if they are others than before: a short step for each item, so
        that the controller does something else in between, but no other call. Raises StoreError.
        """
        begin, done = time.monotonic(), 0
        lacking = [(name, self._server(peer, name)) for name in self.functions]
        lacking = [(name, server) for name, server in lacking if server]
        if not lacking:
            return
        self.establish(peer)
        for function, server in lacking:
            done += yield from self._replay(peer, function)
            peer.call("SET", whole_key(function, self.run), server)
        self._saving.clear()
        self.seconds.append(time.monotonic() - begin)
        self.count += 1
        self.replayed += done
        self.notify(
            f"warning: {peer.name} is another server than before, or began anew: {done} calls that it lacked were "
            f"performed again within {self.seconds[-1] * 1000:.1f} ms"
        )

    def due(self) -> bool:
        """Whether it is time to look for changes of servers."""
        now = time.monotonic()
        if now - self._checked < CHECK:
            return False
        self._checked = now
        return True

    def _server(self, peer: Peer | Cluster, function: str) -> str:
        """The identity of the server that has a function's keys; empty if it is whole."""
        key = whole_key(function, self.run)
        server, whole = peer.server_of(key), peer.call("GET", key)
        return "" if isinstance(whole, bytes) and whole.decode() == server else server

    def _replay(self, peer: Peer | Cluster, function: str) -> Generator[None, None, int]:
        entries = list(self._own.get(function, []))
        for log in self.logs.get(function, []):
            for some in log.entries():
                entries += some
                yield
        counts, live = self._counts(peer, function), {*self.live(), CONTROLLER}
        order, _ = replay_order(entries, self._with_ended(function, counts), live, self._inherits(function, counts))
        last = dict(counts)
        for first in range(0, len(order), TOGETHER):
            some = order[first : first + TOGETHER]
            replies = peer.calls([one for entry in some for one in self._again(function, entry, last)])
            for entry, reply in zip(some, (one for one in replies if not isinstance(one, int)), strict=True):
                if entry.process == CONTROLLER and entry.counts is None:
                    self.performed(function, entry, reply)
            yield
        return len(order)

    def _again(self, function: str, entry: Entry, last: dict[str, int]) -> list[tuple[str | bytes | int, ...]]:
        """The commands that perform a call again. Calls before it that no log has are counted as missing: the store
        would else refuse this one.
        """
        gap = entry.number - last.get(entry.process, 0) - 1
        self.missing += max(0, gap)  # at once: once it was skipped, a recovery that begins again does not see it
        last[entry.process] = entry.number
        skip = ("HSET", counts_key(function, self.run), entry.process, entry.number - 1)
        return [skip, entry.words] if gap > 0 else [entry.words]

    def _inherits(self, function: str, counts: dict[str, int]) -> list[tuple[str, Entry]]:
        """Processes from which another one inherits by a call that the store lacks, and whose reply was lost with
        it.
        """
        ended = {number: process for process, number in self._ended.get(function, {}).items()}
        return [
            (ended[entry.number], entry)
            for entry in self._own.get(function, [])
            if entry.number in ended and entry.number > counts.get(CONTROLLER, 0) and entry.counts is None
        ]

    def _with_ended(self, function: str, counts: dict[str, int]) -> dict[str, int]:
        """With what a store no longer counts (operations.lua): all calls of a process from which one inherited."""
        done, ended = counts.get(CONTROLLER, 0), self._ended.get(function, {})
        return counts | {process: ENDED for process, number in ended.items() if number <= done}

    def _counts(self, peer: Peer | Cluster, function: str) -> dict[str, int]:
        found = peer.call("HGETALL", counts_key(function, self.run))
        pairs = found if isinstance(found, list) else []
        return {
            name.decode(): int(number)
            for name, number in zip(pairs[::2], pairs[1::2], strict=False)
            if isinstance(name, bytes) and isinstance(number, bytes) and number.isdigit()
        }

    # --- checkpoints ---

    def checkpoint(self, peer: Peer | Cluster) -> None:
        """Let the server save its state when a log is long, and drop the saved part then."""
        sizes = [log.size for log in self._all()]
        if isinstance(peer, Peer) and (self._saving or max(sizes, default=0) > LOG_MOST // 2):
            self.save(peer)
        for log in self._all():
            if log.size > LOG_MOST:  # its lost calls are counted if the store fails
                log.discard()

    def look(self) -> None:
        """Look at a stretch of the next log that has one."""
        logs = self._all()
        for number in range(len(logs)):
            if logs[(self._looked + number) % len(logs)].look():
                self._looked += number + 1
                return

    def save(self, peer: Peer) -> bool:
        """Begin a checkpoint, or finish one that has begun: then True. Raises StoreError."""
        fields = info_fields(peer.call("INFO", "persistence"))
        command, status = _SAVES[fields.get("aof_enabled") == "1"]
        running = any(fields.get(name) == "1" for name in _SAVING)
        if running or (self._save_failed and not self._saving):
            return False
        if not self._saving:
            saving = {name: self._with_ended(name, self._counts(peer, name)) for name in self.functions}
            try:
                peer.call(command)
            except ReplyError as error:
                self._save_failed = True
                self.notify(f"warning: {peer.name} makes no checkpoint ({error.code}): logs are bounded without one")
                return False
            self._saving = saving
            return False
        saved, self._saving = self._saving, {}
        if fields.get(status) != "ok":
            return False
        for function, counts in saved.items():
            for log in self.logs.get(function, []):
                log.drop(counts)
            own = self._own.get(function, [])
            own[:] = [entry for entry in own if entry.number > counts.get(CONTROLLER, 0)]
        return True

    def _all(self) -> list[WriteAheadLog]:
        return [log for logs in self.logs.values() for log in logs]

    def figures(self) -> dict[str, int]:
        """The counters, if a store was recovered."""
        if not self.count:
            return {}
        found = {"store_recoveries": self.count, "store_replayed_calls": self.replayed}
        found["store_recovery_us"] = int(max(self.seconds) * 1e6)
        return found | ({"store_missing_calls": self.missing} if self.missing else {})

    def close(self) -> None:
        """Remove the logs."""
        for log in self._all():
            log.close()
        self.logs.clear()


def lost(found: StoreError) -> bool:
    """Whether a server may still reply, after this error: it is away, busy, loading, or being replaced; it has no
    memory now, or its passwords are not set yet, or are being changed.
    """
    soon = (*LATER, "BUSY ", "NOSCRIPT", "ERR Function not found", "OOM ", "NOAUTH", "WRONGPASS", "ERR AUTH", "MISCONF")
    return not isinstance(found, ReplyError) or found.code.startswith(soon)
