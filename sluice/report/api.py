"""What `import sluice` offers to Python programs and notebooks: flows, log and run."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from sluice.engine.box import Box, CompiledStack, Outcome, RunError, Settings, compile_stack
from sluice.engine.events import PythonFunction, Seen
from sluice.engine.functions import FunctionError, Options, Wanted, find_functions, module_function
from sluice.engine.inputs import Inputs
from sluice.engine.workers import WorkerBoxes, refusal
from sluice.hooks.parameter import ParameterError
from sluice.hooks.published import CHAIN
from sluice.hooks.subscription import is_named
from sluice.ir.graph import Program
from sluice.lang.errors import did_you_mean
from sluice.lang.events import BUILT_IN
from sluice.lang.stack import Stack
from sluice.report.logs import LOGS, function_of, schema_of
from sluice.report.output import Rows
from sluice.report.schema import Schema
from sluice.report.table import Table
from sluice.stacks.find import DEFAULT, find_stack
from sluice.stacks.ports import searches_tunnels

Source = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A capture file (pcap or pcapng, perhaps compressed), or several, whose packets are taken in the order of time."""
Function = str | Callable[..., Any] | ModuleType
"""A function on events: its name or file as for `sluice run -f`, a Python function with a decorator of
sluice.functions, or a module with such functions.
"""
_COMPILING = 2.0
"""Seconds after which a note says that a stack is being compiled."""
_REGISTERED = "__sluice_registered__"


def flows(
    source: Source,
    *,
    stack: str | Stack = DEFAULT,
    idle: float | None = None,
    keylog: str | None = None,
    workers: int = 1,
    **parameters: Any,
) -> Table:
    """The connections and bidirectional flows of captures: the rows of `flowlog`, in order of first packet.

    stack: a stack's name, its file, or a Stack. idle: seconds of packet time after which a quiet flow ends; without it
    no flow times out. keylog: a file of TLS secrets. workers: threads that share the flows. parameters: those of
    `flowlog`, such as rows=1000. Raises FunctionError, UnknownStackError and RunError, also while the rows are read.
    """
    return _table("flowlog", source, stack, Settings(timeouts=idle is not None, idle=idle), keylog, workers, parameters)


def log(
    name: str,
    source: Source,
    *,
    stack: str | Stack = DEFAULT,
    idle: float | None = None,
    keylog: str | None = None,
    workers: int = 1,
    **parameters: Any,
) -> Table:
    """The rows of a log about captures: log("http", "capture.pcap").

    name: the log's name ("http") or its function's ("httplog"). The other parameters are those of `flows`, and of the
    log: log("dns", path, answers=10). Raises FunctionError with the nearest name for an unknown log.
    """
    function = function_of(name)
    if function is None:
        known = sorted({log for log, _ in LOGS.values()})
        raise FunctionError(f"there is no log '{name}': {did_you_mean(name, known)}")
    return _table(function, source, stack, Settings(idle=idle), keylog, workers, parameters)


@dataclass
class Result:
    """The outcome of a run.

    packets: their number. seconds: how long it took. counters: by layer ("box" for the whole) and name. reports: the
    figures that functions reported, by name. rows: the rows of each log or function that wrote some, by the log's or
    the function's name. events: the requested events, in order. fault: why an input ended early, or None.
    """

    packets: int
    seconds: float
    counters: dict[str, dict[str, int]]
    reports: dict[str, int]
    rows: dict[str, Table | list[dict[str, Any]]] = field(default_factory=lambda: {})
    events: list[Event] = field(default_factory=lambda: [])
    fault: str | None = None


@dataclass(frozen=True)
class Event:
    """An event: its layer and name, the number of its instance, side (0: the active one), time in nanoseconds since
    1970, number of its packet, key (sender first), and values.
    """

    layer: str
    name: str
    instance: int
    side: int
    time: int
    packet: int
    key: dict[str, Any]
    values: dict[str, Any]


def run(
    stack: str | Stack,
    source: Source,
    functions: Sequence[Function] | Function = (),
    *,
    events: Sequence[str] = (),
    settings: Settings | None = None,
    keylog: str | None = None,
    workers: int = 1,
) -> Result:
    """Run a stack with functions over captures, as `sluice run` does.

    functions: ready ones by name ("httplog", "dnslog:answers=10"), files, and Python functions of the program itself:

        @on("tcp", "data")
        def saw(event): ...

        sluice.run("tcp_ip", "capture.pcap", [saw, "httplog"])

    events: what Result.events lists, as "tcp.data". settings: bounds and options of the box. Functions in C write
    their rows to Result.rows, unless they have a parameter out=FILE. Raises FunctionError, UnknownStackError, RunError,
    and what functions raise.
    """
    given = [functions] if isinstance(functions, (str, ModuleType)) or callable(functions) else list(functions)
    wanted = find_functions([one for one in given if isinstance(one, str)])
    wanted.python += [module_function(one, Path(one.__name__)) for one in given if isinstance(one, ModuleType)]
    own = [one for one in given if not isinstance(one, (str, ModuleType))]
    if own:
        wanted.python.append(module_function(_module_of(own), Path("notebook")))
    found: list[Event] = []
    if events:
        wanted.python.append(_collector(events, found))
    result = Result(0, 0.0, {}, {})
    with tempfile.TemporaryDirectory(prefix="sluice") as folder:
        collected = _collect(wanted, folder)
        outcome = _Run(stack, source, wanted, settings or Settings(), keylog, workers).outcome()
        for name, schema, path in collected:
            lines = path.read_bytes() if path.exists() else b""
            result.rows[name] = Table(schema, _again(lines)) if schema else _plain(lines)
    result.packets, result.seconds = outcome.packets, outcome.seconds
    result.counters, result.reports, result.fault = outcome.counters, outcome.reports, outcome.fault
    result.events = found
    return result


def _again(lines: bytes) -> Callable[[], Iterable[bytes]]:
    return lambda: [lines]


def _plain(lines: bytes) -> list[dict[str, Any]]:
    """Rows of a function that is no log: lines of JSON are objects, others have a member `line`."""
    rows: list[dict[str, Any]] = []
    for each in lines.removesuffix(b"\n").split(b"\n") if lines else []:
        line = each.decode(errors="replace")
        try:
            value = json.loads(line)
        except ValueError:
            value = None
        rows.append(cast(dict[str, Any], value) if isinstance(value, dict) else {"line": line})
    return rows


def _collect(wanted: Wanted, folder: str) -> list[tuple[str, Schema | None, Path]]:
    """Lead the rows of functions in C without an output file to files in a folder: name, columns, and path of each."""
    collected: list[tuple[str, Schema | None, Path]] = []
    values = iter(wanted.parameters())
    for number, function in enumerate(wanted.c):
        if not function.parameters:
            continue
        given = next(values)
        if given.get("out") == "":
            path = Path(folder, function.name)
            schema = schema_of(function.name)
            texts = {name: _text(value) for name, value in given.items()}
            wanted.options[number] = {**texts, "out": str(path)}
            collected.append((schema.log if schema else function.name, schema, path))
    return collected


def _text(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _module_of(functions: Sequence[Any]) -> ModuleType:
    """A module with functions of a program or notebook, with the counters and shared objects that they use."""
    module = ModuleType("notebook")
    registered: list[Any] = []
    for function in functions:
        plain: Any = getattr(function, "__wrapped__", function)
        scope: Mapping[str, Any] = getattr(plain, "__globals__", {})
        setattr(module, getattr(plain, "__name__", "function"), function)
        registered += [item for item in scope.get(_REGISTERED, []) if item[3] is function and item not in registered]
        for name in getattr(getattr(plain, "__code__", None), "co_names", ()):
            if any(hasattr(scope.get(name), mark) for mark in ("__sluice_counter__", "__sluice_shared__")):
                setattr(module, name, scope[name])
    setattr(module, _REGISTERED, registered)
    return module


def _collector(events: Sequence[str], found: list[Event]) -> PythonFunction:
    """A function that stores events. Raises FunctionError for a text that names none."""

    def store(seen: Seen) -> None:
        found.append(
            Event(
                seen.layer,
                seen.name,
                seen.instance,
                seen.side,
                seen.time,
                seen.packet,
                dict(seen.key),
                dict(seen.values),
            )
        )

    handlers: list[Any] = []
    for text in events:
        layer, dot, name = text.partition(".")
        if not dot or not layer or not name:
            raise FunctionError(f"'{text}' is no event: give a layer and an event, as in tcp.data")
        handlers.append((layer, name, store))
    return PythonFunction("events", handlers, [])


# --- running ---


def _table(
    function: str,
    source: Source,
    stack: str | Stack,
    settings: Settings,
    keylog: str | None,
    workers: int,
    parameters: Mapping[str, Any],
) -> Table:
    values = {name: _text(value) for name, value in parameters.items()}
    try:
        find_functions([function], {function: values}).parameters()  # mistakes are raised here, not at the first row
    except ParameterError as error:
        raise FunctionError(f"{function}: {error}") from None
    schema = schema_of(function)
    assert schema is not None, function
    for path in _paths(source):
        if not os.path.exists(path):
            raise RunError(f"{path}: no such file")

    def chunks() -> Iterator[bytes]:
        wanted = find_functions([function], {function: values})
        return _Run(stack, source, wanted, settings, keylog, workers).rows()

    return Table(schema, chunks)


def _paths(source: Source) -> list[str]:
    given = [source] if isinstance(source, (str, os.PathLike)) else source
    return [os.fsdecode(path) for path in given]


class _Queue:
    """Passes rows from the thread of a pipe to an iterator, a bounded number of chunks."""

    def __init__(self) -> None:
        self.chunks: queue.Queue[bytes | None] = queue.Queue(4)
        self.over = False

    def write(self, lines: bytes) -> None:
        while True:
            if self.over:
                raise BrokenPipeError
            with contextlib.suppress(queue.Full):
                self.chunks.put(lines, timeout=0.1)
                return

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            while not self.over:
                with contextlib.suppress(queue.Full):
                    self.chunks.put(None, timeout=0.1)
                    return


@dataclass
class _Run:
    """A run over captures."""

    stack: str | Stack
    source: Source
    wanted: Wanted
    settings: Settings
    keylog: str | None
    workers: int

    def outcome(self) -> Outcome:
        """Run to the end. Raises RunError if a function failed, or if no packet could be read."""
        stack = self.stack if isinstance(self.stack, Stack) else find_stack(self.stack)
        if searches_tunnels(stack):
            ports = find_functions(["tunnel_ports"])
            self.wanted.c += ports.c
            self.wanted.options += ports.options
        if (why := refusal(self.workers, self.wanted.python)) is not None:
            raise FunctionError(why)
        compiled = self._compiled(stack)
        if self.keylog is not None:
            self.wanted.set_unset("keylog", self.keylog)
            self.settings = replace(self.settings, natives={**self.settings.natives, "keylog": self.keylog})
        inputs = Inputs(tuple(f"file:{path}" for path in _paths(self.source)))
        with self._box(compiled, self.wanted.options) as box:
            return _checked(box.run(inputs), inputs)

    def _compiled(self, stack: Stack) -> CompiledStack:
        with _announced(f"sluice: compiling {stack.name}: up to a minute, and from the cache the next time"):
            return compile_stack(
                stack,
                tuple(self.wanted.c),
                self.wanted.python_hooks(),
                demanded=self.wanted.python_demanded(),
                many=self.wanted.python_many(),
                check=self._check,
            )

    def _check(self, program: Program) -> None:
        """Raise FunctionError for an event that a function in Python subscribes to and no layer has."""
        for hook in self.wanted.python_hooks() | self.wanted.python_many():
            own = any(event.name == hook.event for function in self.wanted.python for event in function.events)
            layers = [layer for layer in program.layers.values() if is_named(hook.layer, layer)]
            if hook.layer == CHAIN or own:
                continue
            if not layers:
                raise FunctionError(f"no layer is called '{hook.layer}': {did_you_mean(hook.layer, program.layers)}")
            known = {*BUILT_IN, *(event for layer in layers for event in layer.events)}
            if hook.event not in known:
                raise FunctionError(f"'{hook.layer}' has no event '{hook.event}': {did_you_mean(hook.event, known)}")

    def _box(self, compiled: CompiledStack, options: list[Options]) -> Box:
        if self.workers == 1:
            return Box(compiled, self.settings, self.wanted.python, options)
        return WorkerBoxes(compiled, self.settings, [], options, workers=self.workers)

    def rows(self) -> Generator[bytes]:
        """The rows of the only log, as whole lines, while the run continues in a thread. Raises what `outcome` does."""
        taken = _Queue()
        rows = Rows(taken)
        values = self.wanted.parameters()[0]
        self.wanted.options[0] = {**{name: _text(value) for name, value in values.items()}, "out": rows.path}
        raised: list[BaseException] = []

        def work() -> None:
            try:
                self.outcome()
            except BaseException as error:
                raised.append(error)
            finally:
                rows.finish()

        thread = threading.Thread(target=work, name="sluice run", daemon=True)
        thread.start()
        try:
            while (chunk := taken.chunks.get()) is not None:
                yield chunk
        finally:
            taken.over = True
            thread.join()
        if raised:
            raise raised[0]


def _checked(outcome: Outcome, inputs: Inputs) -> Outcome:
    """The outcome. Raises RunError for a failure, and warns of a capture that ends early."""
    if outcome.failure:
        raise RunError(outcome.failure)
    if outcome.packets and sum(outcome.refused.values()) == outcome.packets:
        kinds = ", ".join(map(str, outcome.refused))
        raise RunError(f"no packet could be read: link type {kinds}; the stack begins with {outcome.takes}")
    if outcome.fault:
        warnings.warn(f"{outcome.fault}; the packets before it were processed", RuntimeWarning, stacklevel=2)
    return outcome


@contextlib.contextmanager
def _announced(text: str) -> Generator[None]:
    """Print a note if the context lasts long."""
    timer = threading.Timer(_COMPILING, lambda: print(text, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
