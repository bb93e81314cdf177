"""The relay of an instance that runs on another host: the controller has it in the place of the instance's process.

It lets an engine start the agent, writes to the memory of the instance what comes from there, and ends as the
process on the other host does: that the host, the engine or the tunnel fails is the same as a process that is killed.
"""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import signal
import sys
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NoReturn

from sluice.chain.hosts.agent import BEGIN, BUSY, EXIT, IDLE, LOG, RESULT, Task
from sluice.chain.hosts.engine import Engine, EngineError
from sluice.chain.hosts.mirror import WRITE, Given, wake, write
from sluice.chain.hosts.tunnel import RELAY, Tunnel, opened
from sluice.chain.processes.host import FAILED, TOKEN_MOST
from sluice.chain.processes.instances import Stores
from sluice.chain.processes.limits import begin_process
from sluice.chain.processes.memory import FunctionSide, Memory
from sluice.chain.processes.program import Part
from sluice.chain.processes.row_files import OUT
from sluice.engine.options import Settings


@dataclass(frozen=True)
class Hosts:
    """Where instances run. tunnel: the address of this host that the others reach."""

    engine: Engine
    tunnel: str

    def has(self, part: Part) -> bool:
        """Whether a process runs on another host: that of an instance whose state is in a store."""
        return part.instance is not None and part.shares and not part.python


def run_relay(
    hosts: Hosts,
    part: Part,
    memory: Memory,
    settings: Settings,
    forwards: bool,
    result: int,
    others: Iterable[int],
    stores: Stores,
    go: int = -1,
) -> NoReturn:
    """As run_part, of a process on another host."""
    begin_process(session=True)
    try:
        for file in others:
            os.close(file)
        memory.restrict(part.number)
        token = os.read(go, TOKEN_MOST).decode() if go >= 0 else ""
        code = Relay(hosts, part, memory, settings, forwards, result, stores, token).run()
    except (OSError, EngineError) as error:
        print(f"sluice: '{part.label}' on another host: {error}", file=sys.stderr, flush=True)
        code = -signal.SIGKILL
    except BaseException as error:  # it must not return to what the controller does
        traceback.print_exception(error)
        code = FAILED
    sys.stderr.flush()
    if -code in signal.valid_signals():
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if 0 <= code < 256 else FAILED)


def _elsewhere(part: Part) -> Part:
    """A part with what its process needs on another host: what it writes to a descriptor of this one goes to its
    standard output.
    """
    options = [
        {**one, OUT: ""} if isinstance(one, dict) and str(one.get(OUT, "")).startswith("/dev/") else one
        for one in part.options
    ]
    return replace(part, options=options)


class Relay:
    """Mirrors the memory of an instance on another host."""

    def __init__(
        self,
        hosts: Hosts,
        part: Part,
        memory: Memory,
        settings: Settings,
        forwards: bool,
        result: int,
        stores: Stores,
        token: str,
    ) -> None:
        assert part.compiled is not None
        self.part, self.memory, self._result = part, memory, result
        files = stores.files(part)
        self._log = files[0] if files else -1
        key, made = secrets.token_bytes(32), opened(hosts.tunnel)
        port: int = made.getsockname()[1]
        self.tunnel = Tunnel(made, key, RELAY)
        library = part.compiled.compiled.path.read_bytes()
        store = stores.attachment(part, token)
        self._task = Task(
            key,
            (hosts.tunnel, port),
            memory.count,
            memory.addresses,
            _elsewhere(part),
            library,
            settings,
            forwards,
            store,
        )
        self._engine = hosts.engine

    def run(self) -> int:
        """Until the process has ended: its exit status, as of subprocess. Raises EngineError."""
        running = self._engine.start(self.part.label, self._task.written())
        given = Given(self.memory, self.part.number, self.tunnel.send)
        own = [self.memory.own(self.part.number)]
        side = self.memory.functions[self.part.number]
        words = [ctypes.addressof(side) + offset for offset in (0, FunctionSide.settled_batch.offset)]
        given.begin()
        given.advance()
        self.tunnel.send(BEGIN)
        active = True
        try:
            while True:
                written = False
                messages = self.tunnel.exchange(BUSY if active else IDLE)
                for message in messages:
                    kind = message[:1]
                    if kind == WRITE:
                        written |= bool(write(message, own))
                    elif kind == RESULT:
                        os.write(self._result, message[1:])
                    elif kind == LOG and self._log >= 0:
                        os.write(self._log, message[1:])
                    elif kind == EXIT:
                        self.tunnel.figures["refused"] += int.from_bytes(message[5:13], "big")
                        self.tunnel.drain(0.1)  # the agent ends once it has the acknowledgement
                        return int.from_bytes(message[1:5], "big", signed=True)
                if written:
                    wake(*words)
                active = given.advance() or bool(messages)
                why = running.ended()
                if why is not None and not messages:
                    raise EngineError(why)
                if self.tunnel.lost and self.tunnel.other is not None:
                    raise EngineError("the tunnel is silent: the host is lost, or cannot be reached")
        finally:
            running.stop()
            os.write(self._result, json.dumps({"tunnel": self.tunnel.figures}).encode() + b"\n")
