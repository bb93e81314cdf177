"""Write-ahead logs of instances (CHC, 3.4.4): what they have, in which order a store performs it again, and what a
checkpoint of the store makes unnecessary.

A log is a file to which the client of an instance appends (runtime/log.c): the calls of functions as they are
transmitted, and, for each call for whose result a packet waited, which calls of each process the store had performed by
then (TS).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import tempfile
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

Counts = Mapping[str, int]
"""TS: the number of the last call of each process that the store has performed."""
LOGGED = b"_logged"
"""The suffix of functions that perform calls of logs (store/operations.lua)."""
STRETCH = 1 << 20
"""Bytes of a log that are read at once; a longer record is read whole."""
ENDED = 1 << 62
"""The number of a process of which a store has all calls: it had ended, and another one has inherited from it."""
_WORDS_MOST = 1 << 23
_PUNCH = 3  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE


@dataclass
class Entry:
    """A call of a process, as the words of a command. counts: as of when it was performed, if that is known."""

    process: str
    number: int
    words: tuple[bytes, ...]
    counts: Counts | None = None
    end: int = 0
    """Where it ends in the file."""


@dataclass
class _Stretch:
    """Records of a log that lie one after the other. last: the largest number of each process among them."""

    end: int
    last: dict[str, int] = field(default_factory=lambda: {})


class WriteAheadLog:
    """The file of one instance, to which its processes append one after the other.

    `look` reads its content step by step, so that no other method has to read all of a long log at once.
    """

    def __init__(self) -> None:
        file, path = tempfile.mkstemp(prefix="sluice-log-")
        os.close(file)
        self.file = os.open(path, os.O_RDWR | os.O_APPEND)
        os.unlink(path)
        self.start = 0
        """The bytes before it were removed."""
        self._stretches: deque[_Stretch] = deque()
        self._wanted = 0
        """The size from which on it is looked at again: a long record was not whole."""

    @property
    def size(self) -> int:
        """Bytes that it has."""
        return os.fstat(self.file).st_size - self.start

    def entries(self) -> Iterator[list[Entry]]:
        """The calls, in the order of the file; those of about one stretch at once."""
        by_number: dict[tuple[str, int], Entry] = {}
        at = self.start
        while True:
            found: list[Entry] = []
            records, end = self._records(at)
            for words, place in records:
                with contextlib.suppress(ValueError, IndexError):  # a function that crashed may have written anything
                    if words[0] == b"TS" and len(words) == 4:
                        entry = by_number.get((words[1].decode(), int(words[2])))
                        if entry is not None:
                            entry.counts = read_counts(words[3])
                    elif (entry := entry_of(words)) is not None:
                        entry.end = place
                        by_number[entry.process, entry.number] = entry
                        found.append(entry)
            if end == at:
                return
            yield found
            at = end

    def look(self, now: bool = False) -> bool:
        """Look at about one stretch that was appended. Whether there was one. now: also where a long record was not
        whole a short time ago, which would be slow to read again and again.
        """
        size = os.fstat(self.file).st_size
        at = self._cut_to(size)
        if size == at or (size < self._wanted and not now):
            return False
        records, end = self._records(at)
        if end == at:
            self._wanted = at + 2 * (size - at) if size - at > STRETCH else 0
            return False
        before = self._stretches[-2].end if len(self._stretches) > 1 else self.start
        if not self._stretches or at - before >= STRETCH:
            self._stretches.append(_Stretch(at))
        last = self._stretches[-1]
        last.end = end
        for words, _ in records:
            with contextlib.suppress(ValueError, IndexError):
                if (entry := entry_of(words)) is not None:
                    last.last[entry.process] = max(entry.number, last.last.get(entry.process, 0))
        return True

    def _cut_to(self, size: int) -> int:
        """Where to look from on: the end of what was looked at; or that of the file, if a process has removed the
        calls of an append that failed (runtime/log.c). What is left of a stretch has at most the numbers of the whole.
        """
        while self._stretches and self._stretches[-1].end > size:
            last = self._stretches.pop()
            if size > (self._stretches[-1].end if self._stretches else self.start):
                self._stretches.append(_Stretch(size, last.last))
        return self._stretches[-1].end if self._stretches else self.start

    def cut(self) -> None:
        """Remove a last record that is not whole: the process that wrote it has ended, before it transmitted that."""
        while self.look(now=True):
            pass
        os.ftruncate(self.file, self._stretches[-1].end if self._stretches else self.start)

    def drop(self, counts: Counts) -> None:
        """Remove the calls that a checkpoint has: those up to these."""
        end = self.start
        while self._stretches and _has(counts, self._stretches[0]):
            end = self._stretches.popleft().end
        self._free(end)
        if not self._stretches:
            return
        for words, place in self._records(end)[0]:
            entry = None
            with contextlib.suppress(ValueError, IndexError):
                entry = entry_of(words)
            if entry is not None and entry.number > counts.get(entry.process, 0):
                break
            end = min(place, self._stretches[0].end)
        self._free(end)

    def discard(self) -> None:
        """Remove the older half: it was not saved in time."""
        half, end = self.start + self.size // 2, self.start
        while (not self._stretches or self._stretches[-1].end < half) and self.look(now=True):
            pass
        while self._stretches and end < half:
            end = self._stretches.popleft().end
        self._free(end)

    def close(self) -> None:
        """The file is removed with that."""
        os.close(self.file)

    def _free(self, end: int) -> None:
        if end > self.start and _libc.fallocate(self.file, _PUNCH, 0, end) == 0:
            self.start = end

    def _records(self, at: int) -> tuple[list[tuple[tuple[bytes, ...], int]], int]:
        """The whole records of about one stretch from a place on, each with its end; and the end of the last one."""
        data, found, end = bytearray(), list[tuple[tuple[bytes, ...], int]](), 0
        while not found and (part := os.pread(self.file, max(STRETCH, len(data)), at + len(data))):
            data += part  # a record may be longer than a stretch
            while (record := _record(data, end)) is not None:
                words, end = record
                found.append((words, at + end))
        return found, at + end


def _has(counts: Counts, stretch: _Stretch) -> bool:
    """Whether a checkpoint has all calls of a stretch."""
    return all(number <= counts.get(process, 0) for process, number in stretch.last.items())


def entry_of(words: Sequence[bytes]) -> Entry | None:
    """The entry of a call; None of one that a log does not repeat."""
    if words[0] != b"FCALL" or not words[1].endswith(LOGGED):
        return None
    at = 3 + int(words[2])
    return Entry(words[at].decode(), int(words[at + 1]), tuple(words))


def read_counts(text: bytes) -> dict[str, int]:
    """TS, as the store writes it: PROCESS=NUMBER,..."""
    pairs = (one.rpartition("=") for one in text.decode().split(",") if one)
    return {process: int(number) for process, _, number in pairs}


def replay_order(
    entries: Iterable[Entry], has: Counts, live: Collection[str], inherits: Sequence[tuple[str, Entry]] = ()
) -> tuple[list[Entry], int]:
    """The calls that a store lacks which has performed these, in an order in which it may have performed them before,
    and how many of them no log has. live: processes that have not ended.

    Calls without a result commute, or are of one process, which the store performs in its order. A call with a result
    came after those of its TS, and before all others: packets relied on its result. The TS with the largest numbers is
    that of the most recent result (figure 3.10): no packet has seen later calls of a process. Of a process
    that has ended, calls that no TS has were not performed, or its successor makes them again.

    inherits: processes that have ended, each with the call by which another one inherits, whose reply is not known.
    What the store had acknowledged of such a process has no TS: all that it called comes before.
    """
    queues: dict[str, deque[Entry]] = {}
    for entry in entries:
        if entry.number > has.get(entry.process, 0):
            queues.setdefault(entry.process, deque()).append(entry)
    waited = [entry for queue in queues.values() for entry in queue if entry.counts is not None]
    order: list[Entry] = []
    missing, last = 0, dict(has)

    def take(process: str, most: float) -> None:
        nonlocal missing
        queue = queues.get(process, deque[Entry]())
        while queue and queue[0].number <= most:
            order.append(queue.popleft())
            missing += order[-1].number - last.get(process, 0) - 1
            last[process] = order[-1].number

    for entry in sorted(waited, key=lambda one: sum((one.counts or {}).values())):
        for process, number in (entry.counts or {}).items():
            if process != entry.process:
                take(process, number)
        take(entry.process, entry.number)  # after those of other processes: it may depend on them
    for process, entry in inherits:
        take(entry.process, entry.number - 1)
        take(process, float("inf"))
        take(entry.process, entry.number)
    for process in queues:
        if process in live:
            take(process, float("inf"))
    return order, missing


def _record(data: bytearray, at: int) -> tuple[tuple[bytes, ...], int] | None:
    """The words of a record, and where it ends; None if it is not whole."""
    words: list[bytes] = []
    count, at = _number(data, at, b"*")
    if not 0 < count <= _WORDS_MOST:
        return None
    for _ in range(count):
        size, at = _number(data, at, b"$")
        if size < 0 or at + size + 2 > len(data):
            return None
        words.append(bytes(data[at : at + size]))
        at += size + 2
    return tuple(words), at


def _number(data: bytearray, at: int, sign: bytes) -> tuple[int, int]:
    """A line with a number, and where it ends; -1 without one."""
    end = data.find(b"\r\n", at, at + 32)
    if end < 0 or data[at] != sign[0] or not data[at + 1 : end].isdigit():
        return -1, at
    return int(data[at + 1 : end]), end + 2


_libc = ctypes.CDLL(None)
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
