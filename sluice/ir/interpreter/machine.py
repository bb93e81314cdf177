"""The interpreter: a program, ready for packets."""

from __future__ import annotations

import sys
from pathlib import Path

from sluice.ir.graph import (
    CONTEXTS_GAVE_UP,
    GATHERED,
    TOO_DEEP,
    TOO_MANY_RECORDS,
    LayerProgram,
    Program,
    alias_tables,
)
from sluice.ir.interpreter.box import BUNDLE_MEAN, BUNDLE_MOST, WORK_MOST, Box, Event
from sluice.ir.interpreter.frame import Code, Context
from sluice.ir.interpreter.instructions import Compiler
from sluice.ir.interpreter.layer_state import LayerState
from sluice.ir.interpreter.native import native_workers
from sluice.ir.interpreter.observer import Observer
from sluice.ir.interpreter.table import Aliases, Table
from sluice.lang.events import END_REASONS

CALLS_PER_LAYER = 20
"""Python calls that one more layer may be nested in, ends of instances on the way included."""


class Interpreter:
    """Runs a program on packets, one after the other.

    timeouts: whether time ends instances. idle: seconds that replace every layer's general timeout. lifetime: seconds
    that replace every lifetime.
    max_instances: of each table. library: what was compiled of the program, of which native modules are called.
    natives: by the names of their options, what these get. observer: is notified of each step.

    events: what was called, in order. counters: for each layer of the program `packets` and `bytes` (on the
    wire) that entered, every outcome, every counter, `instances` that were stored, and `ended:` with each
    reason of those. box: `packets`, `bytes`, and what came to no layer.
    """

    def __init__(
        self,
        program: Program,
        *,
        timeouts: bool = True,
        idle: float | None = None,
        lifetime: float | None = None,
        max_instances: int = 1 << 20,
        work: int = WORK_MOST,
        bundle: int = BUNDLE_MOST,
        bundle_mean: int = BUNDLE_MEAN,
        library: Path | None = None,
        natives: dict[str, str] | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.program = program
        workers = native_workers(program.natives, library, natives or {})
        self._box = Box(
            program,
            natives=workers,
            observer=observer,
            work_most=work,
            bundle_most=bundle,
            bundle_mean=bundle_mean,
        )
        for worker in workers.values():
            worker.holders = self._box.holders
        for layer in program.layers.values():
            table = None
            if layer.instance is not None:
                most = min(max_instances, layer.instance.most or max_instances)
                table = self._box.tables.setdefault(layer.instance.table, Table(most))
                inits = self._box.inits.setdefault(layer.instance.table, {})
                for register, init in layer.instance.fields:
                    inits.setdefault(register.name, init)
            seconds = [idle, *layer.timeouts[1:]] if idle is not None else list(layer.timeouts)
            if layer.lifetime:
                seconds = [lifetime if lifetime is not None else layer.timeouts[0]]
            lifetimes = [int(item * 1e9) if timeouts or layer.lifetime else 0 for item in seconds]
            if table is not None:
                table.shortest = min([table.shortest, *filter(None, lifetimes)])
            state = LayerState(layer, _counters(layer), table, lifetimes, Code("nothing yet"))
            self._box.layers[layer.name] = state
            self._box.homes[layer.home] = state
        self._box.aliases = {name: Aliases(max_instances) for name in alias_tables(program)}
        for state in self._box.layers.values():
            compiler, layer = Compiler(self._box, state), state.program
            state.main = compiler.graph(layer.main)
            state.drain = compiler.graph(layer.drain) if layer.drain is not None else None
            state.end = compiler.graph(layer.end) if layer.end is not None else None
            state.frame = compiler.graph(layer.frame) if layer.frame is not None else None
            state.lost = compiler.graph(layer.lost) if layer.lost is not None else None
        self._roots = dict(program.roots)
        self._gathered = {slot.name: 0 for slot in program.slots if slot.name.startswith(GATHERED)}
        self._counts = {"packets": 0, "bytes": 0, "unknown link type": 0}
        sys.setrecursionlimit(max(sys.getrecursionlimit(), 1000 + CALLS_PER_LAYER * program.deepest))

    @property
    def events(self) -> list[Event]:
        """What was called, in order."""
        return self._box.events

    @property
    def counters(self) -> dict[str, dict[str, int]]:
        """The counters of each layer."""
        return {name: layer.counters for name, layer in self._box.layers.items()}

    @property
    def box(self) -> dict[str, int]:
        """The counters of the whole."""
        natives = {CONTEXTS_GAVE_UP: self._box.contexts_gave_up} if self._box.natives else {}
        records = {TOO_MANY_RECORDS: self._box.too_many_records} if self.program.records else {}
        return {**self._counts, TOO_DEEP: self._box.too_deep, **records, **natives}

    def packet(self, data: bytes, time_ns: int, link_type: int = 1, length: int | None = None) -> None:
        """A packet of `length` bytes on the wire, of which `data` was captured, arrives at `time_ns`."""
        length = len(data) if length is None else length
        self._box.now = max(self._box.now, time_ns)
        self._box.time = time_ns
        self._box.begin_work()
        self._counts["packets"] += 1
        self._counts["bytes"] += length
        root = self._roots.get(link_type, self._roots.get(None))
        if root is None:
            self._counts["unknown link type"] += 1
            return
        context = Context()
        context.numbers.update(self._gathered)
        self._box.enter(root, (data[:length], length), context, 1)

    def give_up(self, count: int) -> None:
        """Between two packets, memory is nearly exhausted: the `count` longest holders give up. When that is, and how
        many do, depends on the pool of the compiled box, which is not modelled.
        """
        for _ in range(count):
            self._box.give_up()

    def secrets(self, data: bytes, kind: int) -> None:
        """Secrets have come with the packets; kind: as `sl_box_secrets` has it."""
        for worker in self._box.natives.values():
            worker.secrets(kind, data)

    def close(self) -> None:
        """The input ends, and with it all instances."""
        self._box.close()
        for worker in self._box.natives.values():
            worker.close()

    def conserves(self) -> bool:
        """Whether in every layer each packet has had one outcome."""
        return all(
            layer.counters["packets"] == sum(layer.counters[name] for name in layer.program.outcomes())
            for layer in self._box.layers.values()
        )


def _counters(layer: LayerProgram) -> dict[str, int]:
    names = ["packets", "bytes", *layer.outcomes(), *layer.counters(), "instances"]
    return dict.fromkeys([*names, *("ended:" + reason for reason in END_REASONS)], 0)
