"""The state of a box while packets pass: its layers with their counters, its tables, its clock, its events;
and what happens to instances.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sluice.ir.graph import COSTLY, GAVE_UP, INSTANCE_NUMBER, INSTANCE_PLACE, PLAIN, Program
from sluice.ir.interpreter.frame import Context, Frame, Stream, run
from sluice.ir.interpreter.holders import Holders
from sluice.ir.interpreter.layer_state import LayerState
from sluice.ir.interpreter.messages import BUNDLE, MEMORY, WORK, Messages
from sluice.ir.interpreter.native import NativeWorker, OfContext
from sluice.ir.interpreter.observer import Observer
from sluice.ir.interpreter.sequence import Sequence
from sluice.ir.interpreter.table import NEVER, SWEEP_SLOTS, Aliases, Instance, Key, Table
from sluice.ir.interpreter.units import Units
from sluice.ir.interpreter.value import EMPTY, Bytes, InterpreterError, Registers
from sluice.lang.events import END_REASONS, GAP_CAUSES

TIMEOUT, EVICTED, EOF = (END_REASONS.index(name) for name in ("timeout", "evicted", "eof"))


@dataclass(frozen=True, slots=True)
class Event:
    """What a Call handed over: the program's name of the layer, the event, the instance by its number (0: none, or
    not stored), the side of the sender, the values (of bytes, those that were captured). Where a layer takes
    messages and has no instance, it is the stream's.
    """

    layer: str
    name: str
    instance: int
    side: int
    values: tuple[int | bytes, ...]


WORK_MOST = 2048
"""Messages that are cut from one packet at most, where nothing else is set."""
BUNDLE_MOST = 128
"""The same of messages that are bundled."""
BUNDLE_MORE = 2
"""As many of these does a message count more for each instance that it begins, at most half of them in all."""
BUNDLE_MEAN, BUNDLE_SAVED = 10, 8192
"""Bundled messages of a packet on average, where nothing else is set, and so many packets' are saved for later ones."""
BUNDLE_CHEAP = 8
"""So many messages that are not bundled, of a layer of which those that begin instances count, count as one."""
RECORD_PARTS, PARTS_HALF = 8, 16
"""A record costs as much as so many parts of a list in it, and half a bundled message as so many."""
BUNDLE_BYTES = 1500
"""For messages of a stream, so many bytes count as a packet."""
BUNDLE_HALVES, BUNDLE_BEGINS, BUNDLE_HOLDS = 2, 16, 7
"""On average a message counts so many halves or one, and more for each instance that it begins, and if it is held."""


@dataclass(slots=True)
class Box:
    """Everything that lasts from packet to packet. `inits`: of all fields in the instances of each table. `time`:
    of the packet being processed. work: messages that were cut from it, at most `work_most`; bundled: those of them
    that are, at most `bundle_most`. bundle_credit: how many halves the next packets may have, to which each adds
    `bundle_mean` twice; parts: of records, and of lists in them, that have not been taken from it.
    """

    program: Program
    layers: dict[str, LayerState] = field(default_factory=lambda: {})
    homes: dict[int, LayerState] = field(default_factory=lambda: {})
    tables: dict[str, Table] = field(default_factory=lambda: {})
    inits: dict[str, dict[str, int]] = field(default_factory=lambda: {})
    natives: dict[str, NativeWorker] = field(default_factory=lambda: {})
    path: list[int] = field(default_factory=lambda: [])
    aliases: dict[str, Aliases] = field(default_factory=lambda: {})
    now: int = 0
    time: int = 0
    work: int = 0
    work_most: int = WORK_MOST
    bundled: int = 0
    bundle_most: int = BUNDLE_MOST
    bundle_mean: int = BUNDLE_MEAN
    bundle_credit: int = 0
    parts: int = 0
    created: int = 0
    too_deep: int = 0
    too_many_records: int = 0
    contexts_gave_up: int = 0
    holders: Holders = field(default_factory=Holders)
    events: list[Event] = field(default_factory=lambda: [])
    observer: Observer | None = None

    def __post_init__(self) -> None:
        self.bundle_credit = BUNDLE_SAVED * BUNDLE_HALVES * self.bundle_mean

    def earn(self, packets: int) -> None:
        """So many packets earn bundled messages, for themselves and for later ones."""
        mean = BUNDLE_HALVES * self.bundle_mean
        self.bundle_credit = min(self.bundle_credit + packets * mean, BUNDLE_SAVED * mean)

    # --- layers ---------------------------------------------------------------------------------------------

    def enter(self, name: str, unit: Bytes, context: Context, depth: int, stream: Stream | None = None) -> None:
        """Run a layer on a unit, a message of `stream` where it takes such, unless layers are nested too deep."""
        layer = self.layers[name]
        if not self.may_enter(layer, depth):
            return
        layer.counters["packets"] += 1
        layer.counters["bytes"] += unit[1]
        frame = Frame(unit, context, depth, stream)
        first, *side = layer.program.main.parameters
        frame.strings[first.name] = unit
        for register in side:
            frame.numbers[register.name] = stream.side if stream is not None else 0
        self.path.append(layer.program.home)
        if self.observer is not None:
            self.observer.entered(layer, unit, depth)
        run(layer.main, frame)
        if self.observer is not None:
            self.observer.left(layer)
        self.path.pop()

    def earn_packet(self) -> None:
        """A packet earns for all of its messages and records, once."""
        if not self.work:
            self.work = 1
            self.earn(1)

    def spend_record(self, parts: int) -> None:
        """A record with so many parts of lists counts towards what packets may have on average."""
        self.parts += RECORD_PARTS + parts
        self.bundle_credit -= min(self.parts // PARTS_HALF, self.bundle_credit)
        self.parts %= PARTS_HALF

    def is_too_deep(self, layer: LayerState, depth: int) -> bool:
        """Whether a layer may not be the one at `depth`, from 1, of a packet."""
        if layer.program.record:
            return depth > self.program.deepest or not self.bundle_credit
        further = self.path[PLAIN : depth - 1]
        costly = sum(self.homes[home].program.costly for home in further) * (COSTLY - 1)
        return depth + costly > self.program.depth

    def may_enter(self, layer: LayerState, depth: int) -> bool:
        """Whether a packet may enter a layer as its layer number `depth`, from 1; counts it if not."""
        if not self.is_too_deep(layer, depth):
            return True
        if layer.program.record:
            self.too_many_records += 1
        else:
            self.too_deep += 1
        return False

    def enter_again(self, layer: LayerState, unit: Bytes, frame: Frame) -> None:
        """Run a layer again, on another unit, in place of the pass that `frame` is of."""
        layer.counters["packets"] -= 1
        layer.counters["bytes"] -= unit[1]
        self.path.pop()
        self.enter(layer.program.name, unit, frame.context, frame.depth, frame.stream)
        self.path.append(layer.program.home)

    def path_number(self) -> int:
        """A number for the layers that the packet is in."""
        result = 2166136261
        for number in self.path:
            result = (result ^ number) * 16777619 & 0xFFFFFFFF
        return result

    def drain(self, layer: LayerState, frame: Frame, side: int, cause: int, everything: int) -> int:
        """Run the drain graph for the current instance; its result."""
        graph, code = layer.program.drain, layer.drain
        if graph is None or code is None:
            raise InterpreterError(f"layer '{layer.program.name}' has no drain graph")
        inner = Frame(EMPTY, frame.context.copy(), frame.depth)
        inner.use(frame.current)
        unit, *numbers = graph.parameters
        inner.strings[unit.name] = EMPTY
        for register, value in zip(numbers, (side, cause, everything), strict=True):
            inner.numbers[register.name] = value
        return run(code, inner)

    def frame(self, layer: LayerState, unit: Bytes, searching: int, context: Context) -> int:
        """How long the message is that begins with the unit: the result of the layer's frame graph."""
        graph, code = layer.program.frame, layer.frame
        if graph is None or code is None:
            raise InterpreterError(f"layer '{layer.program.name}' has no frame graph")
        inner = Frame(unit, context, 0)
        inner.strings[graph.parameters[0].name] = unit
        inner.numbers[graph.parameters[1].name] = searching
        return run(code, inner)

    def lost(self, layer: LayerState, stream: Stream | None, what: tuple[int, int, int], context: Context) -> None:
        """Bytes of a stream, or of a packet, make no message of the layer's: their offset, how many, why."""
        graph, code = layer.program.lost, layer.lost
        if graph is None or code is None:
            raise InterpreterError(f"layer '{layer.program.name}' takes no messages")
        inner = Frame(EMPTY, context, 0, stream)
        unit, *numbers = graph.parameters
        inner.strings[unit.name] = EMPTY
        for register, value in zip(numbers, (stream.side if stream else 0, *what), strict=True):
            inner.numbers[register.name] = value
        run(code, inner)

    # --- instances ------------------------------------------------------------------------------------------

    def lookup(self, layer: LayerState, frame: Frame, key: Key, reverse: Key) -> tuple[bool, bool, int]:
        """Whether there is an instance, whether its time is over, and the packet's side."""
        table = _table(layer)
        if table.sweep_due():
            self._sweep(layer, table, frame.depth)
        pair, flip = _canonical(key, reverse)
        instance = table.find(pair)
        frame.use(instance)
        if instance is None:
            return False, False, 0
        return True, instance.expired(self.now), int(flip != instance.swapped)

    def find_alias(self, layer: LayerState, frame: Frame, aliases: Aliases, key: Key) -> tuple[bool, bool, int]:
        """The same for an instance by a further key of its own."""
        table = _table(layer)
        number, place, side = aliases.find(key)
        instance = table.slots[place] if place < len(table.slots) else None
        if instance is None or instance.number != number:
            frame.use(None)
            return False, False, 0
        frame.use(instance)
        return True, instance.expired(self.now), side

    def create(self, layer: LayerState, frame: Frame, key: Key, reverse: Key) -> bool:
        """A new instance. It is not stored when the table is full of instances that are in use below, or when what an
        end delivered took its key; whether it is.
        """
        table = _table(layer)
        if table.live >= table.max_instances:
            victim = table.victim()
            if victim is not None:
                self.end_other(layer, victim, EVICTED, frame.depth)
        instance = self._blank(layer, *_canonical(key, reverse))
        if table.add(instance):
            self.created += 1
            instance.number = instance.fields[INSTANCE_NUMBER.name] = self.created
            instance.fields[INSTANCE_PLACE.name] = instance.slot
            layer.counters["instances"] += 1
        frame.use(instance)
        return instance.stored

    def _blank(self, layer: LayerState, key: Key, swapped: bool) -> Instance:
        """An instance as it begins: also with the fields that only other layers of the same table use."""
        program = layer.program
        layout = program.instance
        if layout is None:
            raise InterpreterError(f"layer '{program.name}' has no instances")
        fields: Registers[int] = Registers(self.inits[layout.table])
        fields[INSTANCE_NUMBER.name] = fields[INSTANCE_PLACE.name] = 0
        for register, init in layout.fields:
            fields[register.name] = init
        sequences: list[Sequence] = []
        if layout.sides:
            if program.rules is None:
                raise InterpreterError(f"layer '{program.name}' has sides but no sequence")
            rules = program.rules
            sequences = [Units(rules) if rules.units else Sequence(rules) for _ in range(layout.sides)]
        instance = Instance(fields, sequences, key, swapped)
        for side, sequence in enumerate(sequences):
            sequence.holders, sequence.owner = self.holders, (layer, instance, side)
        for messages in instance.messages:
            messages.holders = self.holders
        return instance

    def fresh(self, layer: LayerState, frame: Frame) -> None:
        """An instance for this packet alone."""
        frame.use(self._blank(layer, (), False))

    def destroy(self, layer: LayerState, frame: Frame) -> None:
        """Give back what the sequences hold and free the slot."""
        instance = frame.current
        for sequence in instance.sequences:
            if sequence.rules.buffer_data:
                layer.counters["bytes:discarded"] += sequence.bytes
            sequence.clear()
        for messages in instance.messages:
            messages.drop()
        if instance.stored:
            _table(layer).remove(instance)
        frame.use(None)

    def end(self, layer: LayerState, instance: Instance, reason: int, context: Context, depth: int) -> None:
        """Run a layer's end graph for an instance, unless its end has begun: what the end delivers may come
        back to it, where layers lie in a loop.
        """
        if instance.ending:
            return
        graph, code = layer.program.end, layer.end
        if graph is None or code is None:
            raise InterpreterError(f"layer '{layer.program.name}' has no end graph")
        if instance.stored:
            layer.counters["ended:" + END_REASONS[reason]] += 1
        instance.ending = True
        frame = Frame(EMPTY, context, depth)
        frame.use(instance)
        unit, why, stored = graph.parameters
        frame.strings[unit.name] = EMPTY
        frame.numbers[why.name] = reason
        frame.numbers[stored.name] = int(instance.stored)
        run(code, frame)

    def end_other(self, layer: LayerState, instance: Instance, reason: int, depth: int) -> None:
        """End an instance that is not the packet's own: by the layer that it belongs to, with slots of its
        own.

        `layer` is one that uses its table.
        """
        self.end(self.owner(layer, instance), instance, reason, Context(empty=True), depth)

    def owner(self, layer: LayerState, instance: Instance) -> LayerState:
        """The layer that used an instance last, among those that share its table."""
        home = instance.fields.get("inst.home")
        return layer if home is None else self.homes[home]

    def touch(self, layer: LayerState, instance: Instance, timeout: int) -> None:
        """The instance lives on from now."""
        lifetime = layer.lifetimes[timeout]
        instance.deadline = min(self.now + lifetime, NEVER) if lifetime else NEVER

    def exceeded(self, layer: LayerState) -> int | None:
        """The cause why no other message for a layer may be cut from the current packet; None if one may."""
        if self.work >= self.work_most:
            return WORK
        self.work += 1
        if not layer.program.in_bundle():
            return None
        if self.bundled >= self.bundle_most or not self.bundle_credit:
            return BUNDLE
        self.bundled += layer.program.bundled
        return None

    def begin_work(self) -> None:
        """A packet, or what takes the place of one, has caused no messages yet."""
        self.work = self.bundled = 0

    def give_up(self) -> None:
        """The longest holder gives up what it holds, between two packets."""
        self.begin_work()
        holder = self.holders.oldest
        if isinstance(holder, Messages):
            self.layers[holder.taker].counters[GAVE_UP] += 1
            holder.lose(MEMORY)
        elif isinstance(holder, Sequence):
            self._give_up_side(holder)
        elif isinstance(holder, OfContext):
            self.contexts_gave_up += 1
            self.natives[holder.module].end(holder.instance)

    def _give_up_side(self, sequence: Sequence) -> None:
        user, instance, side = sequence.owner
        layer = self.owner(user, instance)
        layer.counters[GAVE_UP] += 1
        if sequence.rules.whole:
            self.end_other(layer, instance, EVICTED, 0)
            return
        frame = Frame(EMPTY, Context(empty=True), 0)
        frame.use(instance)
        self.drain(layer, frame, side, GAP_CAUSES.index("memory"), 1)
        sequence.gave_up()

    def _sweep(self, layer: LayerState, table: Table, depth: int) -> None:
        for _ in range(SWEEP_SLOTS):
            instance = table.examine(self.now)
            if instance is not None:
                self.end_other(layer, instance, TIMEOUT, depth)

    def close(self) -> None:
        """The end of input: all instances end, table by table, and again while ends have created new ones.

        That is no more often than layers may be in each other: from then on nothing goes further up. A layer that hands
        on all that it takes, to itself, would never come to an end.
        """
        users = {name: self._user(name) for name in self.tables}
        rounds = 0
        while any(table.live for table in self.tables.values()):
            depth = 0 if rounds < self.program.depth else self.program.deepest
            rounds += 1
            for name, table in self.tables.items():
                slot = 0
                while slot < len(table.slots):
                    instance = table.slots[slot]
                    if instance is not None:
                        reason = TIMEOUT if instance.expired(self.now) else EOF
                        self.begin_work()
                        self.end_other(users[name], instance, reason, depth)
                    slot += 1

    def _user(self, table: str) -> LayerState:
        def uses(layer: LayerState) -> bool:
            return layer.program.instance is not None and layer.program.instance.table == table

        return next(layer for layer in self.layers.values() if uses(layer))


def _table(layer: LayerState) -> Table:
    if layer.table is None:
        raise InterpreterError(f"layer '{layer.program.name}' has no table")
    return layer.table


def _canonical(key: Key, reverse: Key) -> tuple[Key, bool]:
    """What an instance is found by: of two halves, the pair in one order; and whether `key` is the second."""
    if not reverse:
        return key, False
    return ((key, reverse), False) if key <= reverse else ((reverse, key), True)
