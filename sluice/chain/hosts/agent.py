"""The agent of an instance on another host: it starts the process of the instance in a copy of the chain's memory, and
mirrors that with the relay (`python -m sluice.chain.hosts`; an engine starts it, and writes the Task to its
input).

It ends with the process of the instance, when the relay is silent for too long, and when its input is closed.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import select
import signal
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from sluice.chain.hosts.mirror import WRITE, Returned, wake, write
from sluice.chain.hosts.tunnel import AGENT, MESSAGE_MOST, Tunnel, opened
from sluice.chain.processes.host import run_part
from sluice.chain.processes.instances import Attachment
from sluice.chain.processes.limits import Limits
from sluice.chain.processes.memory import Memory
from sluice.chain.processes.process import RESULT_MOST
from sluice.chain.processes.program import Part
from sluice.engine.options import Settings

BEGIN, RESULT, LOG, EXIT = b"B", b"R", b"L", b"E"
"""Messages besides those of the memory: all that the process needs is there; a part of its result, of its write-ahead
log; its exit status."""
BUSY, IDLE = 0.0002, 0.002
"""Seconds to wait for a datagram, after something has changed and otherwise."""
PENDING_MOST = 4096
"""Messages that wait for the other end, at most; the process goes on when it has them."""
DRAIN = 5.0
"""Seconds for which what is left is transmitted at the end."""
_PART = MESSAGE_MOST - 1
_LENGTH = 8
TASK_MOST = 1 << 28
_FREED = 1 << 20
"""Bytes of the log that are freed at once."""
_PUNCH = 3  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
_libc = ctypes.CDLL(None)
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]


@dataclass(frozen=True)
class Task:
    """What an agent needs. key: of the tunnel, whose other end has an address `relay`. addresses: of the regions of
    memory. library: of the compiled function. store: by which it connects with its store.
    """

    key: bytes
    relay: tuple[str, int]
    count: int
    addresses: tuple[int, ...]
    part: Part
    library: bytes
    settings: Settings
    forwards: bool
    store: Attachment

    def written(self) -> bytes:
        """As an agent reads it: its length, and what it is."""
        data = pickle.dumps(self)
        return len(data).to_bytes(_LENGTH, "big") + data


def read_bytes(source: BinaryIO) -> bytes:
    """A task as it is written; less, where the input ends early."""
    length = source.read(_LENGTH)
    size = int.from_bytes(length, "big")
    return length + (source.read(size) if size <= TASK_MOST else b"")


def read_task(source: BinaryIO) -> Task:
    """A task, from the program that started this one. Raises ValueError for something else."""
    data = read_bytes(source)
    whole = len(data) > _LENGTH and len(data) == _LENGTH + int.from_bytes(data[:_LENGTH], "big")
    task = pickle.loads(data[_LENGTH:]) if whole else None
    if not isinstance(task, Task):
        raise ValueError("there is no task: an engine of `sluice chain --engine` starts this program")
    return task


class LogFile:
    """The write-ahead log of the process, a file without a name. What was read of it is freed."""

    def __init__(self, folder: Path) -> None:
        self.file = os.open(folder / "log", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        (folder / "log").unlink()
        self._at = self._freed = 0

    def read(self) -> bytes:
        """What comes next, as much as a message has; nothing if there is no more now."""
        data = os.pread(self.file, _PART, self._at)
        self._at += len(data)
        if self._at - self._freed >= _FREED and _libc.fallocate(self.file, _PUNCH, 0, self._at) == 0:
            self._freed = self._at
        return data


class Agent:
    """Mirrors the memory of an instance, whose process it starts."""

    def __init__(self, task: Task, folder: Path) -> None:
        self.task, self.number = task, task.part.number
        self.memory = Memory(task.count, task.addresses)
        self.tunnel = Tunnel(opened("::" if ":" in task.relay[0] else "0.0.0.0"), task.key, AGENT, task.relay)
        self._returned = Returned(self.memory, self.number, self.tunnel.send)
        self._regions = [(region.at, region.at + region.size) for region in self.memory.regions]
        self._log = LogFile(folder)
        compiled = task.part.compiled
        assert compiled is not None
        library = folder / compiled.compiled.path.name
        library.write_bytes(task.library)
        self._part = replace(task.part, compiled=compiled.with_library(library))
        self._pid = 0
        self._result = -1
        self._result_bytes = 0

    def run(self) -> int:
        """Until the process has ended, or the relay is lost: its exit status, as of subprocess."""
        active = False
        try:
            while not self.tunnel.lost and not self._abandoned():
                messages = self.tunnel.exchange(BUSY if active else IDLE)
                active = self._take(messages) | self._give()
                code = self._ended()
                if code is not None:
                    while self._give() and not self.tunnel.lost:
                        self.tunnel.exchange(IDLE)
                    refused = self.tunnel.figures["refused"].to_bytes(8, "big")
                    self.tunnel.send(EXIT + code.to_bytes(4, "big", signed=True) + refused)
                    self.tunnel.drain(DRAIN)
                    return code
            return -signal.SIGKILL
        finally:
            if self._pid:
                os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)

    def _abandoned(self) -> bool:
        """Whether the program that started this one has ended, and closed its input."""
        return bool(select.select([0], [], [], 0)[0]) and not os.read(0, 1)

    def _take(self, messages: list[bytes]) -> bool:
        written = False
        for message in messages:
            if message[:1] == WRITE:
                written |= bool(write(message, self._regions))
            elif message[:1] == BEGIN and not self._pid:
                self._start()
        if written:
            stack = self.memory.stack
            wake(ctypes.addressof(stack.queue[self.number]), *map(ctypes.addressof, self.memory.functions))
        return bool(messages)

    def _give(self) -> bool:
        """Send what the process has written: its log before what counts as acknowledged by the store."""
        found = False
        while data := self._log.read() if self.tunnel.pending < PENDING_MOST else b"":
            self.tunnel.send(LOG + data)
            found = True
        if self.tunnel.pending >= PENDING_MOST:
            return True
        while self._result >= 0 and select.select([self._result], [], [], 0)[0]:
            data = os.read(self._result, _PART)
            self._result_bytes += len(data)
            if not data or self._result_bytes > RESULT_MOST:
                os.close(self._result)
                self._result = -1
                if data and self._pid:  # it writes without end
                    os.kill(self._pid, signal.SIGKILL)
                break
            self.tunnel.send(RESULT + data)
            found = True
        return self._returned.advance() or found

    def _start(self) -> None:
        """The process of the instance."""
        self._result, write_end = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self._pid = os.fork()
        if self._pid:
            os.close(write_end)
            return
        part, task = self._part, self.task
        unlimited = ("control groups",) if part.memory or part.cpu else ()
        limits = Limits(part.number, part.memory, False, part.shares, True, (), unlimited)
        store = task.store.with_log(self._log.file)
        others = [self._result, self.tunnel.socket.fileno()]
        run_part(part, self.memory, task.settings, task.forwards, limits, write_end, others, store)

    def _ended(self) -> int | None:
        """The status of the process, if it has ended."""
        if not self._pid:
            return None
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if not pid:
            return None
        self._pid = 0
        return os.waitstatus_to_exitcode(status)
