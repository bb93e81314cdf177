"""A running box gets a new version of a function in C: the side of the box.

`describe` gives what the version is compiled by (cli/common/reloading.py does that, in another process). Then a
Reloading loads its library, tries it on a copy of the process, and exchanges the versions between two bursts.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import socket
import time
from collections.abc import Generator, Sequence
from dataclasses import asdict, replace
from typing import Any

from sluice.codegen.events.functions import function_states
from sluice.codegen.layer.instance_layout import tables
from sluice.codegen.stack import Generated
from sluice.engine.box import Box
from sluice.engine.options import c_options
from sluice.engine.workers import WorkerBoxes
from sluice.hooks.function import CFunction, Functions, Reload
from sluice.ir.graph import Program
from sluice.ir.hook import Hook

TRIAL_MOST = 60.0
"""Seconds of a trial at most."""
PATIENCE = 2.0
"""Seconds in which the copy has to end after the trial."""
_STRUCTS = re.compile(
    r"^(?:struct sl_instance_\w+ \{.*?^\};|struct sl_stack_box \{.*?^\};|"
    r"static const struct sl_sequence_rules \w+ = \{.*?^\};)$",
    re.MULTILINE | re.DOTALL,
)
_STATE = re.compile(r"^    \w+ \w+_(?:state|former)(?:\[\d+\])? __attribute__.*\n", re.MULTILINE)
_CREATE, _APPEND, _NOTHING = 0, 1, 2
"""sl_create_mode."""


class ReloadError(Exception):
    """The box keeps the version that it has; the text says why."""


class _Adoption(ctypes.Structure):
    """struct sl_adoption."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in ("workers", "parameters", "counters", "texts", "beside"))


def layout(generated: Generated) -> str:
    """What must be the same in a new version: memory but for state of functions, counters, and numbers of events."""
    structs = _STATE.sub("", "\n".join(_STRUCTS.findall(generated.source)))
    return f"{structs}\n{generated.counters}\n{generated.events}\n{generated.columns}\n{generated.timeouts}"


def reload_of(given: dict[str, Any]) -> Reload:
    """A Reload from its JSON. Raises KeyError or TypeError."""
    return Reload(int(given["former"]), tuple(given["tables"]), bool(given["beside"]), tuple(given["fresh"]))


def state_tables(program: Program, function: CFunction) -> tuple[str, ...]:
    """The tables in whose instances a function has state."""
    alone = Functions((function,))
    return tuple(table.name for table in tables(program).values() if function.name in function_states(table, alone))


def describe(box: Box, arguments: Sequence[str]) -> dict[str, Any]:
    """What a new version is compiled by. arguments: the command line of the box."""
    count = len(box.stack.functions.c)
    sizes = (ctypes.c_uint64 * count).in_dll(box.code, f"{box.prefix}_state_sizes") if count else ()
    return {
        "arguments": list(arguments),
        "folder": os.getcwd(),
        "prefix": box.prefix,
        "layout": layout(box.stack.generated),
        "functions": [
            {
                "name": function.name,
                "path": function.path,
                "text": function.text,
                "reload": asdict(function.reload) if function.reload is not None else None,
                "size": sizes[index],
                "tables": list(state_tables(box.stack.program, function)),
            }
            for index, function in enumerate(box.stack.functions.c)
        ],
    }


class Reloading:
    """One reload. `step` is called by the thread that drives the box, between two bursts, until it returns a text."""

    def __init__(self, box: Box, given: dict[str, Any]) -> None:
        """given: of the new version `function`, `text`, `path`, `counters`, `reload`, `library`, `options` (the text of
        its parameters, or null for those that it has), and `trial` in seconds. Raises ReloadError.
        """
        self.box, self.given = box, given
        if isinstance(box, WorkerBoxes) and box.isolated:
            raise ReloadError("the box runs with --isolate, whose workers are processes: start it again")
        names = [function.name for function in box.stack.functions.c]
        try:
            self.index = names.index(given["function"])
            self.reload = reload_of(given["reload"])
            self.seconds = min(max(float(given["trial"]), 0.0), TRIAL_MOST)
            self.library = ctypes.CDLL(given["library"])
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise ReloadError(f"the box cannot load the new version: {error}") from error
        self._check()
        if given["options"] is not None:
            options = [*box.function_options]
            options[self.index] = given["options"]
            box.function_options = options
        natives = [module.option for module in box.stack.program.natives]
        self.options = c_options(box.settings, box.function_options, len(names), natives)
        self.child, self.end, self.due = 0, None, 0.0
        self.packets = 0

    def _check(self) -> None:
        """Raise ReloadError if the memory of the new version is another one."""
        shapes: list[list[int]] = []
        for library in (self.box.code, self.library):
            count = ctypes.c_uint64.in_dll(library, f"{self.box.prefix}_shape").value
            shapes.append(list((ctypes.c_uint64 * (count + 1)).in_dll(library, f"{self.box.prefix}_shape")))
        if shapes[0] != shapes[1]:
            raise ReloadError(
                "the new version, or this version of Sluice, has another layout of memory: start the box again"
            )

    def step(self) -> str | None:
        """What happened, once all is done; None: not yet. Raises ReloadError."""
        if self.seconds and not self.child and self.end is None:
            self._begin_trial()
            return None
        if self.child and not self._ended():
            return None
        with self._paused():
            self._adopt(_APPEND)
        self._exchange()
        if not self.seconds:
            return "without a trial"
        left = self.box.drive.trial_left_out
        slower = f", {left} left out as it was slower than they came" if left else ""
        return f"{self.packets} packets in the trial{slower}"

    @contextlib.contextmanager
    def _paused(self) -> Generator[None]:
        """No other thread uses a box meanwhile."""
        box = self.box
        if not isinstance(box, WorkerBoxes):
            yield
            return
        box.pause()
        try:
            yield
        finally:
            box.resume()

    def _begin_trial(self) -> None:
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        ctypes.CDLL(None).fflush(None)  # what is buffered is written once
        with self._paused():
            self.child = os.fork()
            if not self.child:
                self._try(there)
        there.close()
        self.end, self.due = here, time.monotonic() + self.seconds
        self.box.drive.trial_left_out = 0
        self.box.drive.trial = here.fileno()

    def _try(self, end: socket.socket) -> None:
        """The copy of the process: it writes to nothing but `end`."""
        status = 1
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            nothing = os.open(os.devnull, os.O_RDWR)
            for descriptor in map(int, os.listdir("/proc/self/fd")):
                if descriptor not in (nothing, end.fileno()):
                    with contextlib.suppress(OSError):
                        os.fstat(descriptor)
                        os.dup2(nothing, descriptor)
            packets, said = 0, ""
            try:
                packets, said = self._run_trial(end)
            except Exception as error:
                said = str(error)
            end.send(f"{packets} {said}".encode()[:60000])
            status = 0
        finally:
            os._exit(status)

    def _run_trial(self, end: socket.socket) -> tuple[int, str]:
        """The number of packets, and what a function said when it failed."""
        box = self.box
        self._adopt(_NOTHING)
        run = self.library.sl_trial_run
        run.restype, run.argtypes = ctypes.c_uint64, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
        packets = run(ctypes.addressof(box.drive), box.drive.workers, end.fileno())
        return packets, box.failure() or box.function_failure() or ""

    def _ended(self) -> bool:
        """Whether the trial is over. Raises ReloadError if it went wrong."""
        assert self.end is not None
        pid, status = os.waitpid(self.child, os.WNOHANG)
        now = time.monotonic()
        if not pid and now >= self.due and self.box.drive.trial:
            self._end_copies()
            self.end.shutdown(socket.SHUT_WR)
        if not pid and now < self.due + PATIENCE:
            return False
        self.abandon(pid == 0)
        name = self.given["function"]
        if not pid:
            raise ReloadError(f"the new version of {name} does not end: a packet takes more than {PATIENCE:g} seconds")
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            raise ReloadError(f"the new version of {name} crashed in the trial: {signal.Signals(number).name}")
        text = self.said
        count, _, said = text.partition(" ")
        if os.WEXITSTATUS(status) or said or not count.isdecimal():
            raise ReloadError(f"the new version of {name} failed in the trial: {said or 'without a reason'}")
        self.packets = int(count)
        return True

    def _end_copies(self) -> None:
        """From now on, no thread sends copies of packets to the trial."""
        if self.box.drive.trial:
            with self._paused():
                self.box.drive.trial = 0

    def abandon(self, kills: bool = True) -> None:
        """End the trial."""
        self._end_copies()
        if self.child and kills:
            os.kill(self.child, signal.SIGKILL)
            os.waitpid(self.child, 0)
        self.child, self.said = 0, ""
        if self.end is not None:
            self.end.setblocking(False)
            for _ in range(2):  # ECONNRESET comes first if the copy has left packets unread
                with contextlib.suppress(OSError):
                    self.said = self.said or self.end.recv(65536).decode(errors="replace")
            self.end.close()

    def _adopt(self, mode: int) -> None:
        """Exchange the versions in all boxes, or in none."""
        box, library = self.box, self.library
        prepare, adopt = library[f"{box.prefix}_prepare"], library[f"{box.prefix}_adopt"]
        prepare.restype = ctypes.c_bool
        retire = ctypes.cast(box.code[f"{box.prefix}_retire"], ctypes.c_void_p)
        created = ctypes.c_int.in_dll(library, "sl_create_mode")
        abandon = library[f"{box.prefix}_abandon"]
        abandon.restype = None
        created.value = mode
        handles = box.handles()
        made = [_Adoption() for _ in handles]
        try:
            for number, handle in enumerate(handles):
                if not prepare(handle, ctypes.byref(self.options), ctypes.byref(made[number])):
                    said = box.failure()
                    for earlier, one in zip(handles[:number], made, strict=False):
                        abandon(earlier, ctypes.byref(one))
                    raise ReloadError(f"{self.given['function']} refuses to open" + (f": {said}" if said else ""))
            for handle, one in zip(handles, made, strict=True):
                adopt(handle, ctypes.byref(one), retire)
        finally:
            created.value = _CREATE
        box.use(library)

    def _exchange(self) -> None:
        """What the box knows of its functions."""
        functions = self.box.stack.functions
        given, old = self.given, functions.c[self.index]
        version = replace(
            old,
            text=given["text"],
            path=given["path"],
            counters=tuple((name, text) for name, text in given["counters"]),
            hooks=tuple(Hook(*hook) for hook in given["hooks"]),
            state=given["state"],
            reload=replace(self.reload, fresh=()),
        )
        every = [*functions.c]
        every[self.index] = version
        self.box.stack.functions = replace(functions, c=tuple(every))
