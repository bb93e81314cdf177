"""A compiled program over channels in memory, in one process with the test; and the same of the interpreter."""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from sluice.engine.compiler import compiler
from sluice.service.build import RUNTIME
from sluice.service.interpreter.machine import Instance
from sluice.service.load import Service
from sluice.service.lower.program import lower

HERE = Path(__file__).parent
DEAD = 2
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wno-tautological-compare")
"""The last one is for programs that compare a variable with itself."""
COUNTERS = re.findall(r"X\((\w+),", (RUNTIME / "counters.h").read_text())[0:]


@dataclass
class Outcome:
    """What was sent to each channel, by name and index, why the instance failed, and whether it ended."""

    sent: dict[tuple[str, int], bytes]
    fault: str
    ended: bool


Input = dict[tuple[str, int], bytes]
"""What comes from each channel; all of them end after it."""


class Compiled:
    """A program compiled for trials."""

    def __init__(self, service: Service, flags: tuple[str, ...] = ("-O1",)) -> None:
        self.service = service
        self.process = service.process()
        self.source = lower(service, self.process).source
        self._folder = tempfile.TemporaryDirectory()
        program = Path(self._folder.name, "program.c")
        program.write_text(self.source)
        library = Path(self._folder.name, "trial.so")
        extra = shlex.split(os.environ.get("SLUICE_CFLAGS", ""))  # sanitizers, for instance
        command = [
            *compiler(),
            "-std=gnu11",
            *flags,
            *extra,
            *WARNINGS,
            "-DSERVICE_SPOIL_FRAMES",
            "-fPIC",
            "-shared",
            f"-I{RUNTIME}",
        ]
        files = [program, RUNTIME / "instance.c", HERE / "trial.c"]
        done = subprocess.run(
            [*command, *map(str, files), "-o", str(library)], capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr + self.source
        self._library = ctypes.CDLL(str(library))
        for name in ("trial_make", "trial_sent"):
            getattr(self._library, name).restype = ctypes.c_void_p
        for name in ("trial_counter", "trial_buffers"):
            getattr(self._library, name).restype = ctypes.c_uint64

    def run(
        self,
        given: Input,
        counts: dict[str, int] | None = None,
        buffer_size: int = 4096,
        budget: int = 1 << 30,
        end: bool = True,
        piece: int = 1 << 30,
    ) -> Outcome:
        """Run an instance over an input; so many bytes are read and written at once (`budget`), and arrive
        of each channel before the instance sleeps (`piece`).
        """
        counts = counts or {}
        ports = self.process.channels
        numbers = [counts.get(each.name, 1) if each.kind == "array" else 1 for each in ports]
        trial = ctypes.c_void_p(
            self._library.trial_make(
                (ctypes.c_uint32 * len(numbers))(*numbers), ctypes.c_uint32(buffer_size), ctypes.c_uint(budget)
            )
        )
        places = [(each.name, i) for each, count in zip(ports, numbers, strict=True) for i in range(count)]
        dead = False
        for start in range(0, max([1, *map(len, given.values())]), piece):
            for at, place in enumerate(places):
                data = given.get(place, b"")
                part, over = data[start : start + piece], end and start + piece >= len(data)
                self._library.trial_give(
                    trial, ctypes.c_uint32(at), part, ctypes.c_uint32(len(part)), ctypes.c_bool(over)
                )
            dead = self._library.trial_run(trial) == DEAD
        fault = self._library.trial_fault(trial)
        sent: dict[tuple[str, int], bytes] = {}
        for at, place in enumerate(places):
            length = ctypes.c_uint64()
            pointer = self._library.trial_sent(trial, ctypes.c_uint32(at), ctypes.byref(length))
            sent[place] = ctypes.string_at(pointer, length.value)
        self._library.trial_free(trial)
        return Outcome(sent, COUNTERS[fault] if fault else "", dead and not fault)


def interpreted(service: Service, given: Input, counts: dict[str, int] | None = None, end: bool = True) -> Outcome:
    """The same by the interpreter."""
    instance = Instance(service, service.process(), counts)
    for (name, index), data in given.items():
        instance.give(name, data, index)
    if end:
        for name, channels in instance.channels.items():
            for channel in channels:
                instance.end(name, channel.index)
    instance.run()
    sent = {(name, each.index): bytes(each.sent) for name, channels in instance.channels.items() for each in channels}
    return Outcome(sent, instance.fault, instance.finished)
