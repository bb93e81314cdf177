"""Write-ahead logs: what is in them, in steps; TS, which stays small; a disk that is full; checkpoints."""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sluice.state import logs
from sluice.state.errors import StoreError
from sluice.state.library import load_library, make_library
from sluice.state.location import Location
from sluice.state.logs import ENDED, Entry, WriteAheadLog, replay_order
from sluice.state.peer import Peer, Reply, ReplyError
from sluice.state.recovery import CONTROLLER, Recovery, counts_key, lost, whole_key
from tests.state.boxes import needs_store
from tests.state.servers import Server

RESTARTS = 700
PATIENCE = 20.0


def record(*words: str | bytes | int) -> bytes:
    texts = [one if isinstance(one, bytes) else str(one).encode() for one in words]
    return b"*%d\r\n" % len(texts) + b"".join(b"$%d\r\n%s\r\n" % (len(one), one) for one in texts)


def call(process: str, number: int, size: int = 0) -> bytes:
    return record("FCALL", "p_logged", "1", "counts", process, str(number), "add", "", "x" * size)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[WriteAheadLog]:
    """A log that is read in stretches of a few records."""
    monkeypatch.setattr(logs, "STRETCH", 500)
    found = WriteAheadLog()
    yield found
    found.close()


def numbers(log: WriteAheadLog) -> list[tuple[str, int]]:
    return [(one.process, one.number) for some in log.entries() for one in some]


@pytest.mark.parametrize("seed", range(4))
def test_what_a_checkpoint_has_is_dropped_however_the_log_was_looked_at(log: WriteAheadLog, seed: int) -> None:
    """Processes one after the other, records of all sizes, and a last one that is not whole."""
    choose, given, last = random.Random(seed), list[tuple[str, int]](), dict[str, int]()
    for process in "abc":
        for number in range(1, choose.randrange(5, 60)):
            data = call(process, number, choose.choice((0, 10, 400, 3000)))
            data += record("TS", process, str(number), f"{process}={number}") if choose.random() < 0.5 else b""
            os.write(log.file, data)
            given.append((process, number))
            while choose.random() < 0.2:
                log.look()
        torn = call(process, last.setdefault(process, number) + 1)
        os.write(log.file, torn[: choose.randrange(1, len(torn))])
        log.cut()
    assert numbers(log) == given
    counts = {"a": ENDED, "b": last["b"] // 2}
    log.drop(counts)
    assert [one for one in numbers(log) if one[1] > counts.get(one[0], 0)] == [
        one for one in given if one[1] > counts.get(one[0], 0)
    ]
    assert ("a", 1) not in numbers(log)
    size = log.size
    log.discard()
    assert size // 4 < log.size < size and set(numbers(log)) < set(given)


def test_a_long_record_that_is_not_whole_is_not_read_again_and_again(
    log: WriteAheadLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    torn = call("a", 1, 100_000)
    os.write(log.file, torn[:-50_000])
    assert not log.look()
    reads: list[int] = []
    read: Callable[[int, int, int], bytes] = os.pread
    monkeypatch.setattr(os, "pread", lambda *words: reads.append(1) or read(*words))
    assert not log.look() and not reads
    os.write(log.file, torn[-50_000:])
    log.cut()
    assert numbers(log) == [("a", 1)]


def test_a_call_follows_those_of_other_processes_on_which_it_depends() -> None:
    """An instance inherits after what the dead process did: else the store would refuse that, as it owns nothing."""
    inherit = Entry(CONTROLLER, 2, (), {CONTROLLER: 2, "dead": 2})
    given = [inherit, Entry("dead", 1, ()), Entry("dead", 2, ()), Entry("dead", 3, ()), Entry("next", 1, ())]
    order, missing = replay_order(given, {CONTROLLER: 1}, {"next", CONTROLLER})
    found = [(one.process, one.number) for one in order]
    assert found == [("dead", 1), ("dead", 2), (CONTROLLER, 2), ("next", 1)] and not missing


def test_a_process_inherits_after_all_that_was_called_if_the_reply_was_lost() -> None:
    """The store had acknowledged what no TS has, and failed before it replied that another process inherits."""
    inherit = Entry(CONTROLLER, 2, ())
    given = [Entry(CONTROLLER, 1, ()), inherit, Entry(CONTROLLER, 3, ()), Entry("dead", 1, ()), Entry("dead", 2, ())]
    order, missing = replay_order(given, {}, {"next", CONTROLLER}, [("dead", inherit)])
    found = [(one.process, one.number) for one in order]
    assert found == [(CONTROLLER, 1), ("dead", 1), ("dead", 2), (CONTROLLER, 2), (CONTROLLER, 3)] and not missing


def test_a_log_of_which_calls_were_removed_is_looked_at_from_there(log: WriteAheadLog) -> None:
    """A client removes what it could not append whole, also calls that were looked at."""
    first, second = call("a", 1, 300), call("a", 2, 900)
    os.write(log.file, first + second)
    while log.look():
        pass
    os.ftruncate(log.file, len(first))
    assert not log.look()
    os.write(log.file, call("b", 1, 700))
    assert log.look() and not log.look()
    log.drop({"a": 2})
    assert numbers(log) == [("b", 1)]


@pytest.mark.parametrize("code", ["OOM command not allowed", "NOAUTH Authentication required.", "LOADING", "BUSY x"])
def test_a_store_that_may_reply_later_is_waited_for(code: str) -> None:
    assert lost(ReplyError("the store", code)) and not lost(ReplyError("the store", "ERR unknown command"))


# --- with a store ---


def recovery_of(peer: Peer, *functions: str) -> Recovery:
    library = make_library()
    load_library(peer, library)
    found = Recovery(functions, library.prefix, 1, lambda _: None, lambda: [], lambda _: None)
    found.begin(peer)
    return found


def perform(recovery: Recovery, peer: Peer, name: str, keys: list[str], *words: str) -> int:
    """A call of the controller. Returns the size of the reply."""
    entry = recovery.called("f", name, keys, *words)
    reply = peer.call(*entry.words)
    recovery.performed("f", entry, reply)
    assert isinstance(reply, bytes)
    return len(reply)


@needs_store
def test_ts_does_not_grow_with_each_restart(store: Location) -> None:
    """A process of an instance ends again and again: TS has those that there are, and the sum of the others."""
    with Peer(store) as peer:
        recovery = recovery_of(peer, "f")
        log, sizes, owner = recovery.open_log("f"), list[int](), "sluice-owner:{f}0"
        perform(recovery, peer, "admit", [owner], "f@0/0")
        for number in range(RESTARTS):
            before, after = f"f@0/{number}", f"f@0/{number + 1}"
            words = (
                *("FCALL", f"{recovery.prefix}_logged", 3, counts_key("f", 1), "sluice:{f}n:", "sluice-log:{f}n:"),
                *(before, 1, "add", "t", bytes(8), b"\0\1\0\0" + number.to_bytes(4, "big"), 1),
            )
            os.write(log.file, record(*words))
            peer.call(*words)
            sizes.append(perform(recovery, peer, "inherit", [owner], before, after))
        assert max(sizes) < 100
        fields = peer.call("HKEYS", counts_key("f", 1))
        assert isinstance(fields, list) and len(fields) <= 4
        # what is no longer counted is performed again by a store without it, and by no other one
        peer.call("SET", whole_key("f", 1), "another")
        list(recovery.recover(peer))
        assert recovery.count == 1 and recovery.replayed == 0
        peer.call("FLUSHALL")
        load_library(peer, make_library())
        list(recovery.recover(peer))
        assert recovery.replayed == 2 * RESTARTS + 1 and not recovery.missing
        assert peer.call("GET", "sluice:{f}n:") == str(RESTARTS).encode()
        assert peer.call("GET", owner) == f"f@0/{RESTARTS}".encode()
        recovery.close()


def insert(recovery: Recovery, number: int) -> bytes:
    """A call of a process, as its log has it: adds its number to a set."""
    return record(
        *("FCALL", f"{recovery.prefix}_logged", "3", counts_key("f", 1), "sluice:{f}s:", "sluice-log:{f}s:"),
        *("f@0/1", str(number), "insert", "", "00000000", f"0000000{number}", str(number)),
    )


@needs_store
def test_a_gap_in_a_log_does_not_hide_what_comes_after_it(store: Location) -> None:
    with Peer(store) as peer:
        recovery = recovery_of(peer, "f")
        log = recovery.open_log("f")
        for number in (1, 3, 4):
            os.write(log.file, insert(recovery, number))
        recovery.live = lambda: ["f@0/1"]
        peer.call("SET", whole_key("f", 1), "another")
        list(recovery.recover(peer))
        found = peer.call("SMEMBERS", "sluice:{f}s:")
        assert isinstance(found, list) and {*map(str, found)} == {"b'1'", "b'3'", "b'4'"}
        assert recovery.missing == 1
        recovery.close()


@needs_store
def test_what_a_dead_process_had_committed_is_recovered_without_the_reply(store: Location) -> None:
    """The server fails within the round trip of `inherit`, and begins anew with nothing."""
    with Peer(store) as peer:
        recovery, owner = recovery_of(peer, "f"), "sluice-owner:{f}0"
        log = recovery.open_log("f")
        perform(recovery, peer, "admit", [owner], "f@0/1")
        for number in (1, 2):
            os.write(log.file, insert(recovery, number))
        recovery.called("f", "inherit", [owner], "f@0/1", "f@0/2")
        peer.call("FLUSHALL")
        load_library(peer, make_library())
        recovery.live = lambda: ["f@0/2"]
        list(recovery.recover(peer))
        found = peer.call("SMEMBERS", "sluice:{f}s:")
        assert isinstance(found, list) and len(found) == 2 and not recovery.missing
        assert peer.call("GET", owner) == b"f@0/2" and not recovery.pending("f")
        recovery.close()


class LostOnce(Peer):
    """A connection that is lost once, after the first of several commands."""

    is_over = False

    def calls(self, commands: list[tuple[str | bytes | int, ...]]) -> list[Reply]:
        if len(commands) == 1 or self.is_over:
            return super().calls(commands)
        self.is_over = True
        super().calls(commands[:1])
        raise StoreError("the connection is lost")


@needs_store
def test_a_recovery_that_begins_again_counts_what_is_missing(store: Location) -> None:
    """The first calls of a process are missing from its log."""
    with LostOnce(store) as peer:
        recovery = recovery_of(peer, "f")
        log = recovery.open_log("f")
        for number in (4, 5):
            os.write(log.file, insert(recovery, number))
        recovery.live = lambda: ["f@0/1"]
        peer.call("SET", whole_key("f", 1), "another")
        with pytest.raises(StoreError, match="the connection is lost"):
            list(recovery.recover(peer))
        list(recovery.recover(peer))
        assert recovery.missing == 3
        recovery.close()


@needs_store
def test_a_full_disk_hides_no_record(trial: Path, store: Location, tmp_path: Path) -> None:
    """The log has only whole records; what is not in it is counted."""
    library, path = make_library(), tmp_path / "log"
    with Peer(store) as peer:
        load_library(peer, library)
        peer.call("SET", whole_key("trial", 1), peer.server_of(""))
    words = [str(trial), store.path, library.prefix, "1", "1", "2000", "5000", str(1 << 20)]
    environment = os.environ | {"TRIAL_LOG": str(path), "TRIAL_ROOM": "30000"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    log = WriteAheadLog()
    os.write(log.file, path.read_bytes())
    log.cut()
    assert log.size == path.stat().st_size <= 30000
    assert found["unlogged"] > 0 and not found["lost"]
    with Peer(store) as peer:
        count = peer.call("HGET", counts_key("trial", 1), "trial@0/1")
    assert isinstance(count, bytes) and found["unlogged"] >= int(count) - len(numbers(log)) > 0
    log.close()


@needs_store
def test_a_checkpoint_that_waits_for_another_one_is_none_yet(own_server: Server) -> None:
    """An append-only file is rewritten after the end of a BGSAVE that another client began."""
    with own_server.peer() as peer:
        peer.call("CONFIG", "SET", "appendonly", "yes")
        recovery = recovery_of(peer, "f")
        end = time.monotonic() + PATIENCE
        while b"aof_rewrite_in_progress:1" in info(peer) and time.monotonic() < end:
            time.sleep(0.01)
        peer.call("CONFIG", "SET", "rdb-key-save-delay", 200_000)
        peer.call("BGSAVE")
        peer.call("BGREWRITEAOF")
        recovery.open_log("f")
        assert b"aof_rewrite_scheduled:1" in info(peer)
        assert [recovery.save(peer) for _ in range(3)] == [False] * 3
        peer.call("CONFIG", "SET", "rdb-key-save-delay", 0)
        while not recovery.save(peer) and time.monotonic() < end:
            time.sleep(0.01)
        assert b"aof_rewrite_scheduled:0" in info(peer) and time.monotonic() < end
        recovery.close()


def info(peer: Peer) -> bytes:
    found = peer.call("INFO", "persistence")
    assert isinstance(found, bytes)
    return found
