"""A box: a compiled stack with its functions, loaded and ready for packets."""

from __future__ import annotations

import ctypes
import os
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluice.engine.compiled_stack import CompiledStack
from sluice.engine.compiled_stack import compile_stack as compile_stack  # re-exported for users of Box
from sluice.engine.events import Handler, PythonFunction, Seen, place_of
from sluice.engine.forwarding import Forwarding
from sluice.engine.functions import Options
from sluice.engine.inputs import (
    PROGRESS,
    STOPPED,
    Drive,
    Frame,
    InputError,
    Inputs,
    Rotation,
    Source,
)
from sluice.engine.interrupt import noticed
from sluice.engine.options import DELIVER, COptions, c_options
from sluice.engine.options import Settings as Settings  # re-exported for users of Box
from sluice.engine.published import connect
from sluice.engine.reports import REPORTS_MOST, Busy, Refused, Report
from sluice.engine.reports import Outcome as Outcome  # re-exported for users of Box
from sluice.hooks.withheld import stream_layers

_DRIVEN = ("process", "tick", "finish_step")
"""The functions of a compiled stack that the driver calls."""
TLS_KEY_LOG = 0x544C534B
"""SL_SECRETS_TLS_KEY_LOG: secrets in the text format of SSLKEYLOGFILE."""


class RunError(Exception):
    """The box cannot run: out of memory, an unreadable file, or a function that refused to open."""


class _Bytes(ctypes.Structure):
    """sl_bytes."""

    _fields_ = (("at", ctypes.c_char_p), ("captured", ctypes.c_uint32), ("length", ctypes.c_uint32))


def _described(error: Exception) -> str:
    """FILE:LINE of the function that raised an exception, and what it is."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{frames[-1].filename}:{frames[-1].lineno}: " if frames else ""
    return f"{where}{type(error).__name__}: {error}"


@dataclass
class Box:
    """A running box. Feed it packets or files, then call `finish` and `close` (or use it in a `with`).

    output: a capture file for transmitted packets, if a function drops, changes or sends packets.
    forwards: they are transmitted on the interfaces of the inputs (Inputs.forwarding). rotation: of the output.
    """

    stack: CompiledStack
    settings: Settings = field(default_factory=Settings)
    python: list[PythonFunction] = field(default_factory=lambda: [])
    function_options: Sequence[Options] = field(default_factory=lambda: [])
    output: str | os.PathLike[str] | None = None
    forwards: bool = False
    rotation: Rotation | None = None

    def __post_init__(self) -> None:
        self._library = self.code = ctypes.CDLL(str(self.stack.compiled.path))
        """Its driver and sources; and the functions of the stack itself, with the present versions of functions."""
        self._prefix = self.prefix = self.stack.generated.name
        published = connect(self.stack.functions.published, self.python)
        publishes = any(function.published for function in self.python)
        self._decoder = self.stack.decoder_with(published) if publishes else self.stack.decoder
        self._route: dict[type, list[Callable[[Any], object]]] = {}
        """The handlers for each event class."""
        generated = self.stack.generated
        streams = stream_layers(self.stack.program)
        for kind, (layer_name, event), root in zip(self._decoder.types, generated.events, generated.roots, strict=True):
            layer = published if layer_name == published.name else self.stack.program.layers[layer_name]
            calls: list[Handler] = []
            bit = self.stack.functions.first_demanded
            for function in self.python:
                calls += function.called(layer, event, bit, root, streams)
                bit += len(function.on_demand)
            self._route[kind] = calls
        for many, (layer_name, event) in zip(self._decoder.many, self.stack.generated.columns, strict=True):
            layer = self.stack.program.layers[layer_name]
            self._route[many] = [call for function in self.python for call in function.called_with_many(layer, event)]
        self._error: BaseException | None = None
        self._in_function = False
        self._stopped = False
        self._endless = False
        """Whether the current input has no end, so that the first signal ends the input and not the run."""
        self._muted = False
        """Whether Ctrl-C interrupted a handler. If so, no event handler is called again; end handlers still are."""
        self._number = 0
        self._deliver = DELIVER(self._batch) if self._route else DELIVER()
        natives = [module.option for module in self.stack.program.natives]
        functions = len(self.stack.functions.c)
        self._options = c_options(self.settings, self.function_options, functions, natives, self._deliver)
        self._writer: Source | None = None
        self._options.forwards = self.forwards
        names, settings = [function.name for function in self.stack.functions.c], self.settings
        self._options.fault_open = settings.mask(names, settings.on_fault, "open")
        self._options.fault_closed = settings.mask(names, settings.on_fault, "closed")
        self._options.overload_open = settings.mask(names, settings.on_overload, "open")
        if self.output is not None:
            self._open_output(self.output)
        self._open = self._function("open", ctypes.c_void_p, ctypes.POINTER(COptions))
        self._close = self._function("close", None, ctypes.c_void_p)
        self._box = self._open_box()
        self._make_drive()
        self._switches()
        self._verdicts()
        self._finished = False
        self.busy: list[Busy] = []
        """The time of each thread that processes packets, once `measure` was called."""
        self.source: Source | None = None
        self.forwarding: Forwarding | None = None
        """What `run` receives from, and transmits to, while it runs."""
        self._output_fault: str | None = None
        self._function_fault: str | None = None
        """What a function in Python raised, where packets are forwarded nonetheless."""

    def _open_box(self) -> ctypes.c_void_p:
        """Open a box by the options. Raises RunError."""
        box = self._open(ctypes.byref(self._options))
        if not box:
            self._close_output()
            raise RunError(
                f"the box cannot be opened: a function refused, or the machine has no room for tables of "
                f"{self.settings.max_instances} instances and {self.settings.memory} bytes of held data"
            )
        return ctypes.c_void_p(box)

    def _open_output(self, path: str | os.PathLike[str]) -> None:
        """Create the capture file for transmitted packets."""
        try:
            self._writer = Source.create(self._library, path, self.rotation)
        except InputError as error:
            raise RunError(str(error)) from error
        self._options.forwards = True

    def _close_output(self) -> None:
        """Close the capture file for transmitted packets. A write error is stored in `_output_fault`."""
        if self._writer is None:
            return
        fault = self._writer.fault()
        lost = self._writer.close()
        self._writer = None
        self._output_fault = fault or lost

    def _make_drive(self) -> None:
        """Create the driver of this box."""
        self._drive = self.drive = Drive(**self._driven(), box=self._box, leaves_out=bool(self._options.overload_open))
        if self._writer is not None:
            self._ports = (ctypes.c_void_p * 1)(self._writer.handle)
            self._drive.ports, self._drive.port_count = self._ports, 1

    def _driven(self) -> dict[str, ctypes.c_void_p]:
        return {part: ctypes.cast(self.code[f"{self._prefix}_{part}"], ctypes.c_void_p) for part in _DRIVEN}

    def use(self, library: ctypes.CDLL) -> None:
        """From now on, the functions of this library process packets. It has new versions of the box's functions."""
        self.code = library
        for part, address in self._driven().items():
            setattr(self._drive, part, address)
        self._close = self._function("close", None, ctypes.c_void_p)

    def handles(self) -> list[ctypes.c_void_p]:
        """The boxes in C."""
        return self._boxes()

    def _function(self, name: str, result: type | None, *arguments: type) -> Callable[..., int]:
        function = self.code[f"{self._prefix}_{name}"]
        function.restype = result
        function.argtypes = arguments
        return function

    def _batch(self, _user: int, at: int, size: int) -> None:
        """Pass a batch of events to the functions. Exceptions are stored; `_raise` raises them in the Python caller."""
        if self._error is not None or self._muted:
            return
        try:
            self._in_function = True
            calls = self._route
            for seen in self._decoder.decode(ctypes.string_at(at, size)):
                for call in calls[type(seen)]:
                    call(seen)
        except BaseException as error:
            self._muted = self._stopped and isinstance(error, KeyboardInterrupt)
            if isinstance(error, Exception):
                self._drive.fault = 1  # the driver forwards no packet that no function has decided on, see on_fault
                if self._drive.on_fault:
                    self._muted, self._function_fault = True, _described(error)
            self._error = None if self._muted else error
        finally:
            self._in_function = False

    def _interrupted(self) -> None:
        """Ctrl-C: stop when C code next calls `progress`; interrupt a running Python handler at once.

        A second Ctrl-C raises KeyboardInterrupt.
        """
        if self._stopped and not self._in_function:
            self._error = KeyboardInterrupt()
        self._stopped = True
        if self._in_function:
            raise KeyboardInterrupt

    def _switches(self) -> None:
        """Connect the on-demand handlers of Python functions to the box."""
        if not self.stack.functions.demanded:
            return
        number, numbers = ctypes.c_uint32, ctypes.c_uint64
        watch = self._function("watch", None, ctypes.c_void_p, number, number, numbers, number, ctypes.c_bool)
        handlers = [handler for function in self.python for _, _, handler in function.on_demand]
        for own, handler in enumerate(handlers, self.stack.functions.first_demanded):
            on_demand: Any = handler

            def switch(seen: Seen | None, registered: bool, handler: int = own) -> None:
                place = (0, 0, 0) if seen is None else place_of(seen)
                if seen is None or seen.instance:
                    watch(self._box, *place, handler, registered)

            on_demand.switch = switch
            if on_demand.registered:
                switch(None, True)

    def _verdicts(self) -> None:
        """Connect what functions in Python decide with to the box."""
        library = self._library
        for name in ("sl_box_drop", "sl_box_reset"):
            library[name].restype, library[name].argtypes = ctypes.c_bool, [ctypes.c_void_p, ctypes.c_uint64]

        def decide(seen: Seen, resets: bool) -> bool:
            return (library.sl_box_reset if resets else library.sl_box_drop)(self._box, seen.packet)

        for function in self.python:
            for verdicts in function.verdicts:
                verdicts.decide = decide

    def _raise(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def packet(self, data: bytes, time_ns: int = 0, link_type: int = 1, length: int | None = None) -> None:
        """Process one packet. `length` is its length on the wire; give it if the packet was captured only in part."""
        self.burst([(data, time_ns, link_type, length)])

    def burst(self, packets: Sequence[tuple[bytes, int, int, int | None]]) -> None:
        """Process packets in order. Each item has a packet's data, time, link type and length (see `packet`)."""
        # each buffer has exactly the packet's size, so that sanitizers detect a read beyond its end
        held = [ctypes.create_string_buffer(data, len(data)) if data else None for data, *_ in packets]
        frames = (Frame * len(packets))()
        for frame, at, (data, time_ns, link_type, length) in zip(frames, held, packets, strict=True):
            self._number += 1
            frame.at = ctypes.cast(at, ctypes.c_char_p) if at is not None else None
            frame.captured, frame.length = len(data), len(data) if length is None else length
            frame.time, frame.link_type, frame.number = time_ns, link_type, self._number
        self._library.sl_drive_burst(ctypes.byref(self._drive), frames, ctypes.c_size_t(len(packets)))
        self._raise()

    def tick(self, time_ns: int) -> int:
        """Advance time to `time_ns` while no packets arrive: fire timers and end expired instances, a bounded number.

        Returns the time of the next call in nanoseconds since 1970. A time in the past means: call again soon. 2^64 - 1
        means that nothing is pending.
        """
        due = self._function("tick", ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64)(self._box, time_ns)
        self._raise()
        return due

    def secrets(self, data: bytes, kind: int = TLS_KEY_LOG) -> None:
        """Pass secrets to the native modules, for the packets after this call. `run` passes a capture's own secrets."""
        hand = self._library.sl_box_secrets
        hand.restype, hand.argtypes = None, [ctypes.c_void_p, ctypes.c_uint32, _Bytes]
        hand(self._box, kind, _Bytes(data, len(data), len(data)))

    def run(
        self,
        given: str | os.PathLike[str] | Inputs,
        progress: Callable[[int, int, int], bool] | None = None,
        opened: Callable[[], None] | None = None,
    ) -> Outcome:
        """Process a capture file, or other inputs. `progress(bytes done, total bytes, packets)` may return True to
        stop; a number of bytes that is not known is 0. `opened` is called once all inputs are open.

        The first Ctrl-C or SIGTERM ends an input that has no end. If the input has one, the signal stops the run at
        the next callback from C, and the outcome is `stopped`. Another signal during the end of the run raises
        KeyboardInterrupt. Raises RunError if an input cannot be opened; an error in its middle is part of the outcome.
        """
        inputs = Inputs.of(given)
        try:
            source = self._open_source(inputs)
        except InputError as error:
            raise RunError(str(error)) from error
        try:
            forwarding = self._forward(inputs, source)
        except InputError as error:
            source.close()
            raise RunError(str(error)) from error
        if inputs.forwarding and self._writer is not None:
            self._drive.copy = self._writer.handle
        self.source, self.forwarding = source, forwarding
        self._drive.input, self._drive.progress = source.handle, PROGRESS(self._reporting(progress))
        begin = time.perf_counter()
        try:
            with noticed(self._signalled):
                self._endless = inputs.endless
                if opened is not None:
                    opened()
                driven = self._library.sl_drive(ctypes.byref(self._drive))
                self._endless = False
                fault, counted = source.fault(), source.statistics() if inputs.live else {}
                self._raise()
                self.finish()
        finally:
            self._endless = False
            self.source = self.forwarding = None
            self._drive.progress = PROGRESS()
            self._library.sl_drive_close(ctypes.byref(self._drive))  # no thread needs its packets any more
            forwarded, why = forwarding.close()
            source.close()
        return Outcome(
            packets=self._drive.packets,
            counters=self.counters(),
            reports=self.reports(),
            failure=self.failure() or self.function_failure(),
            fault=fault,
            stopped=self._stopped or (driven == STOPPED and self.failure() is None),
            seconds=time.perf_counter() - begin,
            interrupted=self._stopped,
            received=counted | forwarded,
            not_forwarded=why,
            refused=self.refused(),
            takes=[link_type for link_type, _ in self.stack.program.roots if link_type is not None],
        )

    def _open_source(self, inputs: Inputs) -> Source:
        """Open the inputs. Raises InputError."""
        return Source.open(self._library, inputs)

    def _forward(self, inputs: Inputs, source: Source) -> Forwarding:
        """Open what packets are forwarded to. Raises InputError."""
        return Forwarding(self._library, inputs, source, self._drive)

    def _reporting(self, progress: Callable[[int, int, int], bool] | None) -> Callable[[int, int, int, int], int]:
        """The progress callback of the driver. Python handles pending signals when it is called."""

        def report(_user: int, done: int, size: int, packets: int) -> int:
            # with --on-fault open or closed, the driver goes on without the functions
            failed = self.failure() is not None and not self._drive.on_fault
            if self._error is not None or self._stopped or failed:
                return 1
            try:
                return int(progress(done, size, packets)) if progress is not None else 0
            except BaseException as error:
                self._error = error
                return 1

        return report

    def _signalled(self) -> None:
        """Ctrl-C or SIGTERM: the first one ends an endless input. Any other one stops the run."""
        if self._endless and not self._drive.stop:
            self._drive.stop = 1
        else:
            self._interrupted()

    def finish(self) -> None:
        """Handle the end of input: end every instance, and call the functions' end handlers."""
        if not self._finished:
            self._finished = True
            with noticed(self._interrupted):
                self._library.sl_drive_finish(ctypes.byref(self._drive))
                # flush what functions in C printed, so that it precedes the summary also if stdout is a file
                ctypes.CDLL(None).fflush(None)
                self._close_output()
                self._raise()
                for function in self.python:
                    for ending in function.endings:
                        self._end(ending)

    def _end(self, ending: Callable[[], None]) -> None:
        """Call an end handler. Ctrl-C interrupts this handler only; the remaining ones are still called."""
        try:
            self._in_function = True
            ending()
        except KeyboardInterrupt:
            if not self._stopped:
                raise
        finally:
            self._in_function = False

    def counters(self) -> dict[str, dict[str, int]]:
        """All counters, by layer and name."""
        self._library.sl_box_counters.restype = ctypes.POINTER(ctypes.c_uint64)
        self._library.sl_box_counters.argtypes = [ctypes.c_void_p]
        found: dict[str, dict[str, int]] = {}
        for box in self._boxes():
            pointer = self._library.sl_box_counters(box)
            for number, (layer, name) in enumerate(self.stack.generated.counters):
                counted = found.setdefault(layer, {})
                counted[name] = counted.get(name, 0) + pointer[number]
        return found

    def measure(self) -> None:
        """Measure, from now on, how long this thread, or each worker, is busy with packets."""
        self._busy = Busy()
        self._drive.busy = ctypes.cast(ctypes.byref(self._busy), ctypes.c_void_p)
        self.busy = [self._busy]

    @property
    def packets(self) -> int:
        """Packets received so far."""
        return self._drive.packets

    def function_counters(self) -> dict[str, dict[str, int]]:
        """What functions have counted so far (SLUICE_COUNTER, `counter`), by function and name."""
        read = self._library.sl_box_function_counters
        read.restype, read.argtypes = ctypes.POINTER(ctypes.c_uint64), [ctypes.c_void_p, ctypes.c_uint32]
        found: dict[str, dict[str, int]] = {}
        for index, function in enumerate(self.stack.functions.c):
            counted = found.setdefault(function.name, {})
            for box in self._boxes():
                values = read(box, index)
                for at, (name, _) in enumerate(function.counters if values else ()):
                    counted[name] = counted.get(name, 0) + values[at]
        return found | {function.label or "python": function.counted() for function in self.python}

    def _boxes(self) -> list[ctypes.c_void_p]:
        """The boxes in C whose figures together are those of this one."""
        return [self._box]

    def refused(self) -> dict[int, int]:
        """The number of refused packets by link type. At most SL_REFUSED_MOST link types are distinguished."""
        self._library.sl_box_refused.argtypes = [ctypes.c_void_p, ctypes.POINTER(Refused), ctypes.c_uint32]
        rows = (Refused * 8)()
        found: dict[int, int] = {}
        for box in self._boxes():
            for row in rows[: self._library.sl_box_refused(box, rows, len(rows))]:
                found[row.link_type] = found.get(row.link_type, 0) + row.packets
        return found

    def failure(self) -> str | None:
        """The error of a function or of the output file, or None."""
        self._library.sl_box_failure.restype = ctypes.c_char_p
        self._library.sl_box_failure.argtypes = [ctypes.c_void_p]
        text = self._library.sl_box_failure(self._box)
        return text.decode(errors="replace") if text else self._function_fault or self._output_fault

    def function_failure(self) -> str | None:
        """The error of a function without which the box goes on, by Settings.on_fault."""
        self._library.sl_box_function_failure.restype = ctypes.c_char_p
        self._library.sl_box_function_failure.argtypes = [ctypes.c_void_p]
        texts = [self._library.sl_box_function_failure(box) for box in self._boxes()]
        return next((text.decode(errors="replace") for text in texts if text), None)

    def reports(self) -> dict[str, int]:
        """The figures that functions reported, by name."""
        self._library.sl_box_reports.argtypes = [ctypes.c_void_p, ctypes.POINTER(Report), ctypes.c_uint32]
        rows = (Report * REPORTS_MOST)()
        found: dict[str, int] = {}
        for box in self._boxes():
            for row in rows[: self._library.sl_box_reports(box, rows, REPORTS_MOST)]:
                found[row.full_name] = found.get(row.full_name, 0) + row.value
        for function in self.python:
            head = f"{function.label}." if function.label else ""
            found |= {head + name: value for name, value in function.counted().items()}
        return found

    def close(self) -> None:
        """Free the box. If `finish` was not called, held bytes and records are discarded."""
        if self._box.value:
            self._library.sl_drive_close(ctypes.byref(self._drive))
            self._close(self._box)
            self._box = ctypes.c_void_p()
            self._close_output()
            for function in self.python:
                for _, _, handler in function.on_demand:
                    on_demand: Any = handler
                    on_demand.switch = None
                for verdicts in function.verdicts:
                    verdicts.decide = None

    def __enter__(self) -> Box:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
