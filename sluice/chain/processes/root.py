"""The process of the stack (CHC: the root) that replaces one that ended: which inputs allow it, what is
lost, and the capture file of transmitted packets, which both write.

The packet log is in shared memory and outlives the process (runtime/isolated/recover.h). Files are read again, without
events, up to what was logged; interfaces continue.
"""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sluice.chain.processes.memory import Memory

ROOTS_MOST = 16
"""Processes of the stack that replace one that ended; a stack that crashes at one packet does so again."""
HEAD, RECORD = 24, 16
"""Bytes before the first packet of a capture file (pcap), and before each."""
_PCAP = (b"\x4d\x3c\xb2\xa1", b"\xd4\xc3\xb2\xa1")


@dataclass
class Root:
    """The action when the process of the stack ends before its input does.

    restarts: another one replaces it. replays: that one can read the input from the beginning. output: the capture
    file of transmitted packets, if there is one.
    """

    restarts: bool = False
    replays: bool = False
    output: str | None = None
    lost: int = 0
    """Packets that were to leave, and are not in the output."""
    seconds: list[float] = field(default_factory=lambda: [])
    """From the end of each process until another one had its state."""
    _ended: float = 0.0
    _waiting: bool = False
    _parts: list[Path] = field(default_factory=lambda: [])

    def part(self, number: int) -> str | None:
        """Where the process of this number writes transmitted packets."""
        return self.output if self.output is None or not number else f"{self.output}.root{number}"

    def takes_over(self, memory: Memory, code: int) -> bool:
        """The process of the stack has ended, with a status as of subprocess: whether another one is to start."""
        number = memory.control.roots
        if not self.restarts or code >= 0 or number >= ROOTS_MOST:
            return False
        if (path := self.part(number)) is not None and not self._cut(Path(path)):
            return False  # which of its packets are whole is not known
        self._ended, self._waiting = time.monotonic(), True
        memory.control.replays = int(self.replays)
        memory.control.roots = number + 1
        if self.output is not None:
            left = memory.stack.left
            self.lost = max(0, left - sum(map(_records, self._parts)))
        return True

    def advance(self, memory: Memory) -> str | None:
        """The message once the process has the state of the one before."""
        if not self._waiting or memory.stack.roots != memory.control.roots:
            return None
        self._waiting = False
        self.seconds.append(time.monotonic() - self._ended)
        read = "its input was read again" if self.replays else "what it knew of connections is lost"
        lost, after = self.lost + memory.stack.root_lost, self.seconds[-1] * 1000
        return f"another process of the stack continues after {after:.1f} ms; {read}; packets in flight lost: {lost}"

    def figures(self, memory: Memory) -> dict[str, int]:
        """The counters, if a process replaced another one."""
        if not memory.control.roots:
            return {}
        found = {"root_crashes": memory.control.roots, "root_lost_packets": self.lost + memory.stack.root_lost}
        return found | {"root_recovery_us": int(max(self.seconds, default=0.0) * 1e6)}

    def join(self, memory: Memory) -> None:
        """Append the output of later processes to the output file. Raises OSError."""
        if self.output is None or not memory.control.roots:
            return
        with open(self.output, "ab") as to:
            for number in range(1, memory.control.roots + 1):
                path = Path(f"{self.output}.root{number}")
                if not path.exists():
                    continue
                with path.open("rb") as part:
                    head = part.read(HEAD)
                    if len(head) == HEAD:
                        if not to.tell():
                            to.write(head)
                        shutil.copyfileobj(part, to)
                path.unlink()

    def _cut(self, path: Path) -> bool:
        """Remove a last record that was not written whole. False: the file is no capture file of a known format."""
        found = _whole(path)
        if found is None:
            return False
        self._parts.append(path)
        if path.exists():
            os.truncate(path, found[1])
        return True


def _whole(path: Path) -> tuple[int, int] | None:
    """The records of a capture file that are whole, and where they end; None of a file of another format."""
    count, at = 0, HEAD
    size = path.stat().st_size if path.exists() else 0
    if size < HEAD:
        return 0, 0
    with path.open("rb") as file:
        if file.read(4) not in _PCAP:
            return None
        while at + RECORD <= size:
            file.seek(at + 8)
            end = at + RECORD + int.from_bytes(file.read(4), "little")
            if end > size:
                break
            count, at = count + 1, end
    return count, at


def _records(path: Path) -> int:
    found = _whole(path)
    return found[0] if found is not None else 0


def ended(code: int) -> str:
    """How a process ended."""
    return f"signal {-code}, {signal.strsignal(-code)}" if code < 0 else f"exit status {code}"


def result_of(text: bytes) -> tuple[str, Any] | None:
    """The final output of the process of the stack; None if it was killed before all of it was written."""
    try:
        return pickle.loads(text)
    except (EOFError, pickle.UnpicklingError):
        return None
