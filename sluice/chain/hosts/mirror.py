"""The shared memory of a chain, mirrored on another host (runtime/isolated/memory.h).

Each word has one writer, and each host writes to its copy what the other one has sent, in the order in which it was
sent. So a process sees what others wrote later than they did, but never in another order: what a word says is there (a
batch in a queue, a log of a batch that is done) is sent before the word.
"""

from __future__ import annotations

import ctypes
import platform
import struct
from collections.abc import Callable, Iterable

from sluice.chain.hosts.tunnel import MESSAGE_MOST
from sluice.chain.processes.memory import (
    LOG_BYTES,
    PACKETS,
    QUEUE,
    SLOT_BYTES,
    SLOTS,
    Control,
    FunctionSide,
    Memory,
    Queue,
    Slot,
)

WRITE = b"W"
"""A message: an address, and what was written there."""
_ADDRESS = struct.Struct("<Q")
_BLOCK = 128
"""Bytes that are compared, and sent, at once."""
_WRITE_MOST = (MESSAGE_MOST - 1 - _ADDRESS.size) // _BLOCK * _BLOCK
LOG_HEAD = 8 + 8 * PACKETS + 2 * 4 * (PACKETS + 1)
"""Bytes of struct sl_iso_log."""
_PROGRESS = FunctionSide.progress.offset
_SETTLED = FunctionSide.settled.offset
_SIDE = ctypes.sizeof(FunctionSide)
_WAKE, _ALL = 1, 2**31 - 1
_FUTEX = {"x86_64": 202, "aarch64": 98}
_libc = ctypes.CDLL(None, use_errno=True)

Send = Callable[[bytes], None]


def wake(*words: int) -> None:
    """Wake the processes that sleep on these words. Those that cannot be woken look after some milliseconds."""
    number = _FUTEX.get(platform.machine())
    if number is None:
        return
    for word in words:
        _libc.syscall(ctypes.c_long(number), ctypes.c_void_p(word), _WAKE, _ALL, None, None, 0)


class Sent:
    """What the other host has of this memory."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._known: dict[int, bytes] = {}

    def send(self, at: int, data: bytes) -> bool:
        """Send the blocks of `data`, which is at an address, that have changed. Whether there are some."""
        known = self._known.get(at, b"")
        if known == data:
            return False
        self._known[at] = data
        begin, end = 0, 0
        for place in range(0, len(data), _BLOCK):
            block = data[place : place + _BLOCK]
            if known[place : place + len(block)] == block:
                continue
            if place != end or end - begin + len(block) > _WRITE_MOST:
                self._write(at, data, begin, end)
                begin = place
            end = place + len(block)
        self._write(at, data, begin, end)
        return True

    def _write(self, at: int, data: bytes, begin: int, end: int) -> None:
        if end > begin:
            self._send(WRITE + _ADDRESS.pack(at + begin) + data[begin:end])


def write(message: bytes, allowed: Iterable[tuple[int, int]]) -> int:
    """Write what the other host has sent, within these ranges of addresses. The address; 0: it is not within them."""
    if len(message) < 1 + _ADDRESS.size:
        return 0
    (at,), data = _ADDRESS.unpack_from(message, 1), message[1 + _ADDRESS.size :]
    if not any(begin <= at and at + len(data) <= end for begin, end in allowed):
        return 0
    ctypes.memmove(at, data, len(data))
    return at


def sides(memory: Memory, number: int) -> list[tuple[int, bytes]]:
    """What a function writes besides its logs, as addresses and bytes, in the order in which another host gets it: its
    progress is as of before the rest, which may be newer, and comes last.
    """
    at = ctypes.addressof(memory.functions[number])
    progress = memory.functions[number].progress.to_bytes(8, "little")
    data = ctypes.string_at(at, _SIDE)
    after = _PROGRESS + 8
    return [(at, data[:_PROGRESS]), (at + after, data[after:]), (at + _PROGRESS, progress)]


def log(memory: Memory, number: int, place: int) -> tuple[int, bytes]:
    """The log of a function for the batch in a slot, with its address."""
    at = memory.log(number, place)
    used = ctypes.c_uint32.from_address(at + 4).value
    return at, ctypes.string_at(at, min(LOG_HEAD + used, LOG_BYTES))


def batches(queue: Queue, first: int, end: int) -> list[int]:
    """The slots of the batches of a queue from one to another."""
    count = min((end - first) % (1 << 32), QUEUE)
    return [queue.entry[(end - count + n) % QUEUE] % SLOTS for n in range(count)]


class Given:
    """What a relay sends: the memory of the stack, of the controller, and of other functions, as far as an instance
    reads it. number: of the instance.
    """

    def __init__(self, memory: Memory, number: int, send: Send) -> None:
        self.memory, self.number = memory, number
        self._sent = Sent(send)
        self._words = Sent(send)
        self._first: int = memory.functions[number].settled
        self._with_logs: set[tuple[int, int]] = set()

    def begin(self) -> None:
        """What a process needs that takes the place of another one: what that one wrote."""
        queue = self.memory.stack.queue[self.number]
        for place in batches(queue, self._first, queue.count):
            self._sent.send(*log(self.memory, self.number, place))
        for part in sides(self.memory, self.number):
            self._sent.send(*part)

    def advance(self) -> bool:
        """Send what has changed. Whether something has."""
        memory, control = self.memory, self.memory.control
        others = [n for n in range(memory.count) if n != self.number and not control.absent >> n & 1]
        written = {number: sides(memory, number) for number in others}
        queue = memory.stack.queue[self.number]
        count = queue.count
        found = self._sent.send(
            ctypes.addressof(control), ctypes.string_at(ctypes.addressof(control), ctypes.sizeof(Control))
        )
        for place in batches(queue, self._first, count):
            found |= self._batch(place)
        self._first = count
        found |= self._logs(written, queue)
        for number in others:
            for part in written[number]:
                found |= self._sent.send(*part)
        return self._queues(count) or found

    def _batch(self, place: int) -> bool:
        """The messages and packets of a slot, and the references to messages."""
        slot = self.memory.slot(place)
        at = ctypes.addressof(slot)
        found = self._sent.send(at, ctypes.string_at(at, min(slot.used, SLOT_BYTES)))
        references = self.memory.references(place, self.number)
        return self._sent.send(references, ctypes.string_at(references, 4 * slot.references[self.number])) or found

    def _logs(self, written: dict[int, list[tuple[int, bytes]]], queue: Queue) -> bool:
        """The logs of the functions before this one, of batches with which these are done."""
        control, found, current = self.memory.control, False, set[tuple[int, int]]()
        reads = control.before[self.number] | control.drops[self.number]
        for place in batches(queue, self.memory.functions[self.number].settled, self._first):
            slot = self.memory.slot(place)
            for number in (one for one in written if reads >> one & 1 and slot.functions >> one & 1):
                done = int.from_bytes(written[number][0][1][:4], "little")
                if (done - slot.batch) % (1 << 32) < 1 << 31:
                    current.add((number, slot.batch))
                    if (number, slot.batch) not in self._with_logs:
                        found |= self._sent.send(*log(self.memory, number, place))
        self._with_logs = current
        return found

    def _queues(self, count: int) -> bool:
        """What is in the queues; that of this instance, with its batches up to `count`, last."""
        found, stack = False, self.memory.stack
        for place in range(SLOTS):  # of batches of other instances, too: they are older or newer than this one's
            at = ctypes.addressof(self.memory.slot(place))
            found |= self._words.send(at, ctypes.string_at(at, Slot.kind.offset))
        for number in (*(one for one in range(self.memory.count) if one != self.number), self.number):
            at, head = ctypes.addressof(stack.queue[number]), Queue.entry.offset
            data = ctypes.string_at(at, head + 4 * QUEUE)
            if number == self.number and int.from_bytes(data[:4], "little") != count:
                return True  # the batch that has come meanwhile is that of the next step
            found |= self._sent.send(at + head, data[head:])
            found |= self._sent.send(at, data[:head])
        return found


class Returned:
    """What an agent sends: the memory of the instance itself."""

    def __init__(self, memory: Memory, number: int, send: Send) -> None:
        self.memory, self.number = memory, number
        self._sent = Sent(send)
        self._first: int = memory.functions[number].settled
        self._known: list[tuple[int, bytes]] = []

    def advance(self) -> bool:
        """Send what has changed. Whether something has."""
        queue, written = self.memory.stack.queue[self.number], sides(self.memory, self.number)
        if written == self._known:
            return False
        self._known = written
        for place in batches(queue, self._first, queue.count):
            self._sent.send(*log(self.memory, self.number, place))
        self._first = int.from_bytes(written[0][1][_SETTLED : _SETTLED + 4], "little")
        for part in written:
            self._sent.send(*part)
        return True
