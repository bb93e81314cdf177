"""Write-ahead logs of instances (CHC, 3.4.4): what they have, in which order a store performs it again, and what a
checkpoint of the store makes unnecessary.

A log is a file to which the client of an instance appends (runtime/log.c): the calls of functions as they are
transmitted, and, for each call for whose result a packet waited, which calls of each process the store had performed by
then (TS).
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

Counts = Mapping[str, int]
"""TS: the number of the last call of each process that the store has performed."""
LOGGED = b"_logged"
"""What the names of functions end with that perform calls of logs (store/operations.lua)."""
_WORDS_MOST = 1 << 20
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


class WriteAheadLog:
    """The file of one instance, to which its processes append one after the other."""

    def __init__(self) -> None:
        file, path = tempfile.mkstemp(prefix="sluice-log-")
        os.close(file)
        self.file = os.open(path, os.O_RDWR | os.O_APPEND)
        os.unlink(path)
        self.start = 0
        """What is before it was removed."""

    @property
    def size(self) -> int:
        """Bytes that it has."""
        return os.fstat(self.file).st_size - self.start

    def entries(self) -> list[Entry]:
        """The calls, in the order of the file."""
        return self._read()[0]

    def cut(self) -> None:
        """Remove a last record that is not whole: the process that wrote it has ended, before it transmitted that."""
        os.ftruncate(self.file, self._read()[1])

    def drop(self, counts: Counts) -> None:
        """Remove what a checkpoint has: the calls up to these."""
        end = self.start
        for entry in self.entries():
            if entry.number > counts.get(entry.process, 0):
                break
            end = entry.end
        self._free(end)

    def discard(self) -> None:
        """Remove the older half: it was not saved in time."""
        entries = self.entries()
        if entries:
            last = entries[len(entries) // 2]
            self._free(last.end)

    def close(self) -> None:
        """The file is removed with that."""
        os.close(self.file)

    def _free(self, end: int) -> None:
        if end > self.start and _libc.fallocate(self.file, _PUNCH, 0, end) == 0:
            self.start = end

    def _read(self) -> tuple[list[Entry], int]:
        data, at = bytearray(), self.start
        while chunk := os.pread(self.file, 1 << 20, at + len(data)):
            data += chunk
        found: list[Entry] = []
        by_number: dict[tuple[str, int], Entry] = {}
        end = 0
        while (record := _record(data, end)) is not None:
            words, end = record
            try:
                if words[0] == b"TS" and len(words) == 4:
                    entry = by_number.get((words[1].decode(), int(words[2])))
                    if entry is not None:
                        entry.counts = read_counts(words[3])
                elif (entry := entry_of(words)) is not None:
                    entry.end = at + end
                    by_number[entry.process, entry.number] = entry
                    found.append(entry)
            except (ValueError, IndexError):  # a function that crashed may have written anything
                continue
        return found, at + end


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


def replay_order(entries: Iterable[Entry], has: Counts, live: Collection[str]) -> tuple[list[Entry], int]:
    """The calls that a store lacks which has performed these, in an order in which it may have performed them before,
    and how many of them no log has. live: processes that have not ended.

    Calls without a result commute, or are of one process, which the store performs in its order. A call with a result
    came after those of its TS, and before all others: packets relied on what it saw. The TS with the largest numbers is
    that of the most recent result (figure 3.10): what a process called after it was seen by no packet. Of a process
    that has ended, calls that no TS has were not performed, or its successor makes them again.
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
            take(process, number)
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
