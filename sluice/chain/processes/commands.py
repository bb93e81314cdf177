"""Requests to a running chain, by a Unix socket: one JSON object in each direction.

{"do": "list"}
{"do": "remove", "name": NAME}
{"do": "replace" | "add", "name": NAME, "source": FILE, "parameters": {NAME: VALUE}}
{"do": "kill", "name": NAME}     of a process, as `list` has it; root is that of the stack
{"do": "clone", "name": NAME}    of an instance that is a straggler
{"do": "scale", "name": NAME, "instances": NUMBER}
{"do": "move", "name": NAME, "from": INSTANCE, "to": INSTANCE, "percent": NUMBER}
{"do": "subscribe" | "unsubscribe", "name": NAME, "event": "LAYER.EVENT", "flow": NUMBER}     flow: optional
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from sluice.chain.description import Function
from sluice.chain.plan import Member, Plan, loaded_function
from sluice.chain.processes.clone import clone
from sluice.chain.processes.controller import Controller
from sluice.chain.processes.figures import figures
from sluice.chain.processes.instances import StateError
from sluice.chain.processes.memory import FLOWS
from sluice.chain.processes.process import Process
from sluice.chain.processes.program import Part, added
from sluice.chain.processes.scale import scale
from sluice.chain.processes.snapshot import lacks
from sluice.engine.box import RunError
from sluice.engine.compiler import CompilerError
from sluice.engine.functions import FunctionError
from sluice.hooks.subscription import HookError
from sluice.lang.errors import DescriptionError
from sluice.lang.where import Where

ROOT = "root"
"""The name of the process of the stack."""
LENGTH_MOST = 1 << 16
"""Bytes of a request."""
SECONDS = 2.0
"""In which a client sends its request, as the controller waits for it."""


class RequestError(Exception):
    """A request that cannot be fulfilled."""


_REFUSED = (
    *(RequestError, DescriptionError, HookError, FunctionError, CompilerError, RunError, StateError),
    OSError,
)
"""The member with the reason why a request failed."""


class ControlSocket:
    """The socket of a chain. check: checks a plan for a changed chain. Raises OSError where it cannot be opened."""

    def __init__(self, path: str, check: Callable[[Plan], None]) -> None:
        self.path = path
        self.check = check
        self._client: socket.socket | None = None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        with contextlib.suppress(OSError):
            if not _answers(path):
                os.unlink(path)  # of a chain that was killed
        try:
            before = os.umask(0o177)  # for its owner alone
            try:
                self._socket.bind(path)
            finally:
                os.umask(before)
            self._socket.listen()
        except OSError as error:
            self._socket.close()
            raise OSError(error.errno, error.strerror, path) from error

    def fileno(self) -> int:
        return self._socket.fileno()

    def files(self) -> list[int]:
        """The socket, and the client whose request is served."""
        return [one.fileno() for one in (self._socket, self._client) if one is not None]

    def close(self) -> None:
        """Remove it."""
        self._socket.close()
        with contextlib.suppress(OSError):
            os.unlink(self.path)

    def serve(self, controller: Controller) -> None:
        """Serve one request. Whatever it is, the chain continues."""
        with contextlib.suppress(OSError):
            self._client, _ = self._socket.accept()
            with self._client as client:
                try:
                    answer = self._answer(controller, json.loads(_read(client, SECONDS)))
                except _REFUSED as error:
                    answer = {"error": str(error)}
                except (ValueError, TypeError, KeyError, AttributeError) as error:
                    answer = {"error": f"no request: {error}"}
                except Exception as error:
                    answer = {"error": f"{type(error).__name__}: {error}"}
                client.settimeout(SECONDS)
                client.sendall(json.dumps(answer).encode() + b"\n")
        self._client = None

    def _answer(self, controller: Controller, request: dict[str, Any]) -> dict[str, Any]:
        does = request["do"]
        if does == "list":
            return {"functions": [_listed(controller, process) for process in controller.processes]}
        if does == "add":
            return self._add(controller, request)
        if does in ("scale", "move"):
            return _moved(controller, request)
        if does == "clone":
            return {"cloned": clone(controller, _process(controller, request["name"]))}
        if does == "kill":
            return _killed(controller, request["name"])
        process = _named(controller, request["name"])
        if process.part.instance is not None:
            raise RequestError(
                f"'{process.part.name}' has instances, or stored state: scale it, move its traffic, restart the chain"
            )
        if does == "remove":
            plan, gone = controller.chain.plan, process.part.members
            members = tuple(one for one in plan.members if one.name not in gone)
            earlier = frozenset(pair for pair in plan.earlier if not set(pair) & set(gone))
            controller.change(process, None)
            controller.chain.plan = replace(plan, members=members, earlier=earlier)
            return {}
        if does == "replace":
            controller.change(process, self._replaced(controller, process, request))
            return {}
        if does in ("subscribe", "unsubscribe"):
            return _subscribe(controller, process, request["event"], request.get("flow"), does == "subscribe")
        raise RequestError(f"'{does}' is no request")

    def _replaced(self, controller: Controller, process: Process, request: dict[str, Any]) -> Part:
        name = process.part.name
        plan = controller.chain.plan
        member = _member(name, request)
        member.item.isolation = process.part.isolations[0][1]  # the chain's action on failure remains
        members = tuple(member if one.name == name else one for one in plan.members)
        return self._part(controller, replace(plan, members=members), name, process.part.number, process.part)

    def _add(self, controller: Controller, request: dict[str, Any]) -> dict[str, Any]:
        name, plan = request["name"], controller.chain.plan
        running = [process for process in controller.processes if not process.removed]
        if any(name in process.part.members for process in running):
            raise RequestError(f"the chain has a function '{name}'; replace that one, or give another name")
        taken = {process.part.number for process in running}
        free = [number for number in range(controller.memory.count) if number not in taken]
        if not free:
            raise RequestError("there is no place for a further function; remove one, or restart the chain")
        members = (*plan.members, _member(name, request))
        earlier = plan.earlier | {(one.name, name) for one in plan.members}
        controller.add(self._part(controller, replace(plan, members=members, earlier=earlier), name, free[0]))
        return {}

    def _part(self, controller: Controller, plan: Plan, name: str, number: int, replaced: Part | None = None) -> Part:
        """A part of a changed chain, compiled; then the chain is the changed one."""
        self.check(plan)
        part = added(controller.chain, plan, name, number)
        if replaced is not None and part.functions.c and (what := _differs(replaced, part)) is not None:
            raise RequestError(f"'{name}' {what}, and functions after it rely on that; restart the chain")
        if replaced is not None and lacks(controller.chain, controller.memory.control, part):
            raise RequestError(f"'{name}' reads fields or keys of instances, and no function did; restart the chain")
        controller.chain.compile_part(part)
        controller.chain.plan = plan
        return part


def _process(controller: Controller, name: str) -> Process:
    running = {process.part.label: process for process in controller.processes if process.pid and not process.removed}
    if name not in running:
        raise RequestError(f"the chain has no process '{name}'; it has {', '.join([ROOT, *running])}")
    return running[name]


def _killed(controller: Controller, name: str) -> dict[str, Any]:
    """Kill a process, as a crash does."""
    if name == ROOT:
        controller.kill_root()
        return {}
    os.kill(_process(controller, name).pid, signal.SIGKILL)
    return {}


def _moved(controller: Controller, request: dict[str, Any]) -> dict[str, Any]:
    """Move traffic between the instances of a function."""
    name, instances = request["name"], controller.instances
    if name not in controller.chain.vertices():
        known = ", ".join(controller.chain.vertices()) or "none"
        raise RequestError(f"'{name}' has no instances; functions that have: {known}")
    if request["do"] == "scale":
        count = request["instances"]
        if not isinstance(count, int) or not 1 <= count <= controller.memory.count:
            raise RequestError(f"{count} is no number of instances that this chain has places for")
        return {"moved": scale(controller, name, count)}
    owned = instances.owned(name)
    from_, to = int(request["from"]), int(request["to"])
    for one in (from_, to):
        if one not in owned:
            raise RequestError(f"'{name}' has no instance {one}; it has {', '.join(map(str, owned))}")
    percent = request["percent"]
    if not isinstance(percent, int) or not 1 <= percent <= 100:
        raise RequestError(f"{percent} is no part of the traffic in percent, from 1 to 100")
    parts = owned[from_][: -(-len(owned[from_]) * percent // 100)]
    return {"moved": instances.assign(name, dict.fromkeys(parts, to))}


def ask(path: str, request: dict[str, Any]) -> dict[str, Any]:
    """The answer of a running chain. Raises OSError, and RequestError if the chain refuses."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(path)
        client.sendall(json.dumps(request).encode() + b"\n")
        client.shutdown(socket.SHUT_WR)
        text = _read(client)
    try:
        answer = json.loads(text)
    except ValueError:
        raise RequestError(f"{path}: no answer; the chain has ended, or is no chain") from None
    if "error" in answer:
        raise RequestError(answer["error"])
    return answer


def _answers(path: str) -> bool:
    """Whether a chain uses the socket."""
    if not Path(path).is_socket():
        return True  # a file of another kind is not ours to remove
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        return client.connect_ex(path) == 0


def _read(client: socket.socket, seconds: float | None = None) -> bytes:
    """A line. seconds: after which the rest is not waited for."""
    data, end = b"", time.monotonic() + (seconds or 0)
    while not data.endswith(b"\n"):
        if seconds is not None:
            client.settimeout(max(0.001, end - time.monotonic()))
        if not (chunk := client.recv(LENGTH_MOST)):
            break
        data += chunk
        if len(data) > LENGTH_MOST:
            raise RequestError(f"more than {LENGTH_MOST} bytes")
    return data


def _named(controller: Controller, name: str) -> Process:
    known = [process.part.name for process in controller.processes if not process.removed]
    for process in controller.processes:
        if process.part.name == name and not process.removed:
            if process.following is not None:
                raise RequestError(f"'{name}' is just being changed; try again")
            return process
    raise RequestError(f"the chain has no function '{name}'; it has {', '.join(known)}")


def _member(name: str, request: dict[str, Any]) -> Member:
    where = Where("chainctl", 1)
    parameters = {str(key): str(value) for key, value in request.get("parameters", {}).items()}
    if not request["source"].endswith(".c"):  # a file in Python would be executed here, without limits
        raise RequestError(f"{request['source']}: give a function in C, FILE.c; restart the chain for another one")
    item = Function(os.path.abspath(request["source"]), name, dict(parameters), where)
    return Member(item, loaded_function(item, again=True))


def _differs(one: Part, other: Part) -> str | None:
    """The data that functions after a replaced one would lack from its replacement."""
    drops = [any(function.drops for function in part.functions.c) for part in (one, other)]
    published = [
        {(event.name, event.fields) for function in part.functions.c for event in function.publishes}
        for part in (one, other)
    ]
    if drops[0] != drops[1]:
        return (
            "does not drop packets as the one before did" if drops[0] else "drops packets, and the one before did not"
        )
    return "publishes other events than the one before" if published[0] != published[1] else None


def _events(controller: Controller, process: Process) -> list[str]:
    """The events of the stack that a function receives, and those that it could receive."""
    events, bit = controller.chain.events, 1 << process.part.number
    assert events is not None
    subscribed = controller.memory.control.subscribed
    return [f"{layer}.{event}" for n, (layer, event) in enumerate(events.stack) if subscribed[n] & bit]


def _listed(controller: Controller, process: Process) -> dict[str, Any]:
    part = process.part
    side, queue = controller.memory.functions[part.number], controller.memory.stack.queue[part.number]
    state = "removed" if process.removed else "left out" if process.ended else "running"
    return {
        "name": part.label,
        "functions": list(part.members),
        "state": state,
        "process": process.pid or None,
        "receives": _events(controller, process),
        "failure": "closed" if part.closed else "open",
        "overload": "lose" if part.lossy else "wait",
        "flows": side.flows,
        "waiting_batches": (queue.count - side.done) % (1 << 32),
        "not_limited": process.missing,
        **figures(controller.memory, process),
        "instance": part.instance,
        **(controller.instances.described(part.name) if part.instance == 0 else {}),
    }


def _subscribe(
    controller: Controller, process: Process, event: str, flow: int | None, subscribed: bool
) -> dict[str, Any]:
    """Change the packets that a function receives; for one flow, by its number (event.instance in Python)."""
    chain, control = controller.chain, controller.memory.control
    assert chain.events is not None
    layer, _, name = event.rpartition(".")
    own = chain.subscriptions(process.part)
    numbers = [number for number in own if chain.events.stack[number] == (layer, name)]
    if not numbers or name == "end":
        handled = [f"{chain.events.stack[number][0]}.{chain.events.stack[number][1]}" for number in own]
        raise RequestError(f"'{process.part.name}' does not handle {event}; it handles {', '.join(handled)}")
    bit, number = 1 << process.part.number, numbers[0]
    if flow is None:
        control.subscribed[number] = (
            control.subscribed[number] | bit if subscribed else control.subscribed[number] & ~bit
        )
        return {}
    same = [
        place
        for place in range(min(control.flow_count, FLOWS))
        if (control.flows[place].number, control.flows[place].type, control.flows[place].function)
        == (flow, number, bit)
    ]
    place = same[0] if same else control.flow_count % FLOWS
    entry = control.flows[place]
    entry.number = 0  # while it changes
    entry.function, entry.type, entry.subscribed = bit, number, int(subscribed)
    entry.number = int(flow)
    control.flow_count += not same
    return {}
