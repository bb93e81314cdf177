"""Traces: what each layer read from a packet and with which outcome, as recorded by the interpreter of the IR.

The interpreted program is the input of the passes, so every step has its line in the description.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from sluice.codegen.events.manifest import value_names
from sluice.engine.addresses import is_address
from sluice.engine.packets import Packet
from sluice.ir import instruction as ir
from sluice.ir.graph import LayerProgram, Program
from sluice.ir.hook import Hook
from sluice.ir.interpreter import Interpreter
from sluice.ir.interpreter.frame import Frame
from sluice.ir.interpreter.layer_state import LayerState
from sluice.ir.interpreter.table import Instance
from sluice.ir.interpreter.value import Bytes
from sluice.lang.events import BUILT_IN
from sluice.lang.where import Where

HOOKS = frozenset(Hook("*", event) for event in BUILT_IN if event != "packet")
"""The built-in events that a trace shows. Events that the stack defines are always emitted."""
_STATE = "inst.state"

Value = int | bytes | str
"""A number, bytes, or text (a name or an address)."""


@dataclass
class Field:
    """A header field that was read. where: its line in the description."""

    name: str
    bits: int
    value: Value
    where: Where


@dataclass
class Seen:
    """An event that was emitted. layer: its name in the program. values: the event's values by name."""

    layer: str
    name: str
    instance: int
    values: dict[str, Value]
    where: Where


@dataclass
class Change:
    """A change of an instance's field or state."""

    name: str
    before: Value
    after: Value
    where: Where


@dataclass
class Step:
    """A packet, or a message, in one layer.

    key: the instance's key by name, sender first. number: the instance's number, 0 if there is none or it is not
    stored. state: the last state, None without a state machine. outcome: the name of the counter of its outcome.
    where: the line that decided the outcome. above: the layers that it was forwarded to, with the line of the stack.
    """

    layer: LayerProgram
    depth: int
    length: int
    fields: list[Field] = field(default_factory=lambda: [])
    number: int = 0
    created: bool = False
    has_instance: bool = False
    side: int = 0
    key: dict[str, Value] = field(default_factory=lambda: {})
    state: str | None = None
    changes: list[Change] = field(default_factory=lambda: [])
    events: list[Seen] = field(default_factory=lambda: [])
    above: list[tuple[str, Where]] = field(default_factory=lambda: [])
    outcome: str = ""
    where: Where | None = None


@dataclass
class Traced:
    """A packet (None: the end of the input) with its steps in order. events: events that belong to no step, such as the
    end of an expired instance. refused: the stack does not accept the packet's link type.
    """

    packet: Packet | None
    steps: list[Step] = field(default_factory=lambda: [])
    events: list[Seen] = field(default_factory=lambda: [])
    refused: bool = False


class _Recorder:
    """An observer of the interpreter; collects the steps of the current packet."""

    def __init__(self) -> None:
        self.traced = Traced(None)
        self._open: list[Step] = []
        self._decided: Where | None = None
        self._fields: dict[int, dict[str, int]] = {}
        """The last known fields of each instance, by `id` of the instance."""

    def entered(self, layer: LayerState, unit: Bytes, depth: int) -> None:
        step = Step(layer.program, depth, unit[1])
        self.traced.steps.append(step)
        self._open.append(step)

    def left(self, layer: LayerState) -> None:
        self._open.pop()

    def executed(self, layer: LayerState, instruction: ir.Instruction, frame: Frame) -> None:
        step = self._step(layer)
        match instruction:
            case ir.Load() | ir.LoadBytes() | ir.LoadVarint() if step is not None:
                name = instruction.target.name
                if name.startswith("header."):
                    value = frame.strings[name][0] if instruction.target.is_bytes else frame.numbers[name]
                    bits = 0 if instruction.target.is_bytes else instruction.target.bits
                    if not isinstance(instruction, ir.LoadBytes) or value:  # empty: an initialisation
                        step.fields.append(Field(name.partition(".")[2], bits, value, instruction.where))
            case ir.Lookup() | ir.FindAlias() if step is not None and frame.instance is not None:
                self._found(step, layer, frame, frame.numbers[instruction.side.name])
            case ir.CreateInst() | ir.FreshInst() if step is not None and frame.instance is not None:
                self._found(step, layer, frame, 0)
                step.created = True
            case ir.SwapSides() if step is not None:
                step.side = frame.numbers[instruction.target.name]
            case ir.Assign() if frame.instance is not None and instruction.target.space in ("perm", "inst"):
                self._assigned(step, layer, frame.instance, instruction.target.name, instruction.where)
            case ir.NextLayer() if step is not None:
                step.above.append((instruction.layer, instruction.where))
            case ir.NextMessages() | ir.CutMessages() if step is not None:
                step.above.append((instruction.layer, instruction.where))
            case ir.Call():
                self._called(step, layer, instruction, frame)
            case _:
                pass

    def decided(self, layer: LayerState, terminator: ir.Terminator, frame: Frame) -> None:
        if isinstance(terminator, (ir.Branch, ir.Check, ir.CheckWire)):
            self._decided = terminator.where
        elif isinstance(terminator, ir.End) and (step := self._step(layer)) is not None:
            step.outcome = terminator.outcome
            step.where = terminator.where
            if terminator.outcome.startswith(("malformed:", "cut:")) and self._decided is not None:
                step.where = self._decided
        elif isinstance(terminator, ir.Again) and (step := self._step(layer)) is not None:
            step.outcome = "read again"  # the layer parses its result again; that is the next step

    def _step(self, layer: LayerState) -> Step | None:
        """The current step, if it is in this layer; else None (the graph runs for no packet of the layer)."""
        step = self._open[-1] if self._open else None
        return step if step is not None and step.layer is layer.program else None

    def _found(self, step: Step, layer: LayerState, frame: Frame, side: int) -> None:
        instance = frame.current
        step.has_instance, step.side, step.number = True, side, instance.number
        step.key = _key(layer.program, instance, side)
        self._fields[id(instance)] = dict(instance.fields)
        step.state = _state(layer.program, instance)

    def _assigned(self, step: Step | None, layer: LayerState, instance: Instance, name: str, where: Where) -> None:
        known = self._fields.setdefault(id(instance), {})
        before, after = known.get(name, 0), instance.fields[name]
        known[name] = after
        if step is None or before == after:
            return
        states = layer.program.states
        if name == _STATE and states:
            step.state = states[after].name
            step.changes.append(Change("state", states[before].name, states[after].name, where))
        elif name.startswith("perm."):
            step.changes.append(Change(name, before, after, where))

    def _called(self, step: Step | None, layer: LayerState, call: ir.Call, frame: Frame) -> None:
        event = self._interpreter.events[-1]
        shape = layer.program.events[call.event]
        values: dict[str, Value] = {}
        for (name, _), value in zip(shape.fields, event.values, strict=True):
            names = value_names(layer.program, shape, name)
            values[name] = names[value] if names is not None and isinstance(value, int) else value
        seen = Seen(layer.program.name, call.event, event.instance, values, call.where)
        (step.events if step is not None else self.traced.events).append(seen)

    def begin(self, interpreter: Interpreter, packet: Packet | None) -> None:
        """Start the trace of a packet, or of the end of the input."""
        self._interpreter = interpreter
        interpreter.events.clear()
        self.traced, self._open, self._decided = Traced(packet), [], None
        self._fields.clear()


Secrets = Callable[[bytes, int], None]
"""Receives secrets that a capture contains, and their kind."""


def trace(program: Program, read: Callable[[Secrets], Iterator[Packet]], **options: Any) -> Iterator[Traced]:
    """The trace of each packet, then that of the end of the input.

    read: yields the packets, and calls its argument with the secrets between them. options: options of the interpreter.
    """
    recorder = _Recorder()
    interpreter = Interpreter(program, observer=recorder, **options)
    for packet in read(interpreter.secrets):
        recorder.begin(interpreter, packet)
        interpreter.packet(packet.data, packet.time, packet.link_type, packet.length)
        recorder.traced.refused = not recorder.traced.steps
        yield recorder.traced
    recorder.begin(interpreter, None)
    interpreter.close()
    yield recorder.traced


def _state(layer: LayerProgram, instance: Instance) -> str | None:
    number = instance.fields.get(_STATE)
    return layer.states[number].name if layer.states and number is not None else None


def _key(layer: LayerProgram, instance: Instance, side: int) -> dict[str, Value]:
    """The key of an instance by name, the sender's half first."""
    layout = layer.instance
    if layout is None or not instance.key:
        return {}
    if not layout.oriented:
        plain: Any = instance.key
        return {part.name: shown(part.name, part.bits, value) for part, value in zip(layout.key, plain, strict=True)}
    found: dict[str, Value] = {}
    for half in (0, 1):
        values: Any = instance.key[side ^ half ^ instance.swapped]
        for part, value in zip(layout.key, values, strict=True):
            name = part.other or part.name if half else part.name
            found[name] = shown(name, part.bits, value)
    return found


def shown(name: str, bits: int, value: int | bytes | Bytes) -> Value:
    """A value of a key or a field for display: an address as text, bytes without their length on the wire."""
    plain = value[0] if isinstance(value, tuple) else value
    if isinstance(plain, bytes):
        return str(IPv6Address(plain)) if is_address(name, 8 * len(plain)) and len(plain) == 16 else plain
    if bits == 32 and is_address(name, bits):
        return str(IPv4Address(plain))
    return plain.to_bytes(6, "big").hex(":") if name in ("src", "dst") and bits == 48 else plain
