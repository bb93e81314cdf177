"""Programs of the IR: layers, each with its graphs of blocks, its instance and its sequence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sluice.ir.expression import Reg
from sluice.ir.instruction import Count, End, Instruction, Terminator

GATHERED = "slot.gathered."
"""Slots that are 0 when a packet enters the stack, and that layers add to; see sluice.lower.scope.gathered."""

INSTANCE_NUMBER = Reg("inst.number", 64)
"""Which instance it is: from 1 in the order in which the box made them, 0 when it is not stored."""
INSTANCE_PLACE = Reg("inst.place", 32)
"""Its slot in the table."""
OF_EVERY_INSTANCE = (INSTANCE_NUMBER, INSTANCE_PLACE)
"""What an instance has beside the fields of its layout; never written by instructions."""


@dataclass
class Block:
    """Instructions that run one after the other; the last one is a terminator."""

    name: str
    instructions: list[Instruction] = field(default_factory=lambda: [])

    @property
    def terminator(self) -> Terminator:
        return self.instructions[-1]  # pyright: ignore[reportReturnType]  # asked for so often that a check shows

    @property
    def body(self) -> list[Instruction]:
        return self.instructions[:-1]


@dataclass
class Graph:
    """A control-flow graph. `parameters` are registers that the caller sets."""

    name: str
    entry: str
    parameters: tuple[Reg, ...]
    blocks: dict[str, Block] = field(default_factory=lambda: {})

    def predecessors(self) -> dict[str, list[str]]:
        """For every block those that lead to it."""
        found: dict[str, list[str]] = {name: [] for name in self.blocks}
        for block in self.blocks.values():
            for target in block.terminator.targets():
                found[target].append(block.name)
        return found

    def order(self) -> list[str]:
        """Reachable blocks in reverse post-order: a block before those that follow it, but for loops."""
        blocks = self.blocks
        seen = {self.entry}
        post: list[str] = []
        stack = [(self.entry, iter(blocks[self.entry].terminator.targets()))]
        while stack:
            name, targets = stack[-1]
            for target in targets:
                if target not in seen:
                    seen.add(target)
                    stack.append((target, iter(blocks[target].terminator.targets())))
                    break
            else:
                post.append(name)
                stack.pop()
        return post[::-1]

    def instructions(self) -> Iterator[Instruction]:
        """All instructions of all blocks."""
        for block in self.blocks.values():
            yield from block.instructions

    def registers(self) -> dict[str, Reg]:
        """All registers that occur, by name."""
        found: dict[str, Reg] = {reg.name: reg for reg in self.parameters}
        for instruction in self.instructions():
            for reg in (*instruction.written(), *instruction.read_registers()):
                found[reg.name] = reg
        return found


@dataclass(frozen=True)
class KeyPart:
    """A component of a selector: `bits` of a number, or `bits // 8` bytes when it is wider than 64.

    `other` is its name in the second list of a connection-oriented selector.
    """

    name: str
    bits: int
    other: str = ""


@dataclass(frozen=True)
class State:
    """A state of a layer's machine."""

    name: str
    accept: bool
    closed: bool


@dataclass(frozen=True)
class Rules:
    """Constants of a layer's sequence; see sluice.lang.Sequence.

    `width` is meta's, `record` the fields of a record. `observed`: functions look into it, at whatever event they are
    told of. `accounts`: bytes without a place in the stream are counted. `bounded`: what the receiver would not take
    has no place.
    """

    width: int
    linear: bool
    policy: str
    whole: bool
    buffer_data: bool
    limit: int
    limit_pieces: int
    limit_records: int
    history: int
    record: tuple[Reg, ...]
    units: bool = False
    observed: bool = False
    accounts: bool = False
    bounded: bool = False


@dataclass(frozen=True)
class InstanceLayout:
    """What an instance of a layer holds: its table, its key, its fields with their init, its sequences.

    Layers of one prototype whose keys have one shape name the same `table`. `aliases` is the name of the table of
    further keys, and `alias` what such a key is made of; layers of one prototype share it. `more_keys` is the name of
    another one, of whole keys as the table itself has them, where there is one; layers of one `table` share it. `most`
    is how many instances there may be at once, 0: as many as the box has room for in a table.
    """

    table: str
    key: tuple[KeyPart, ...]
    oriented: bool
    stored: bool
    fields: tuple[tuple[Reg, int], ...]
    sides: int
    aliases: str = ""
    alias: tuple[KeyPart, ...] = ()
    more_keys: str = ""
    most: int = 0

    @property
    def whole_key(self) -> tuple[KeyPart, ...]:
        """What a packet's key is made of: of a key both ways its sender's half, then the other one."""
        return self.key + tuple(KeyPart(part.other, part.bits) for part in self.key if self.oriented)


@dataclass
class EventShape:
    """An event of a layer and the data that it brings along: (name, bits), bits 0 for bytes.

    `callback` is the name of the user's layout, empty for built-in events. `reasons`: what the numbers of its `reason`
    stand for, where they are the layer's own.
    """

    name: str
    fields: tuple[tuple[str, int], ...]
    callback: str
    reasons: tuple[str, ...] = ()
    where: str = field(default="", compare=False)


BYTES = tuple(f"bytes:{end}" for end in ("in", "delivered", "known already", "no memory", "discarded", "given up"))
"""Counters of a layer with a sequence: the bytes inserted, and how they ended: delivered; there already, so that one of
the two copies went; not held for want of memory; held when the instance ended, and only the whole would have counted.
These conserve. And the bytes of gaps, which never came. (Of a sequence that buffers no data only the last is counted.)
"""


def given_up_name(units: bool) -> str:
    """The counter of what gaps took: bytes, or the units of a sequence that counts such."""
    return "units:given up" if units else BYTES[-1]


CUT_BYTES = ("bytes:of packets", "bytes:lost")
"""Counters of a layer that takes the messages of packets: the bytes that were cut into messages, and those of them that
made none. With the bytes of the messages (`bytes`) they conserve.
"""

GRAPH_KINDS = ("main", "drain", "end", "frame", "lost", "stateless", "template", "turn", "ahead", "dispatch")


@dataclass
class LayerProgram:
    """A layer, compiled for one kind of layers below it.

    `name` is unique in the program; `layer` is what the user called it; `prototype` the parser's name. `resyncs`:
    where the thread of messages was lost, it looks for the next start. `of_streams`, `of_packets`: what the messages
    that it takes are cut from.
    """

    name: str
    layer: str
    prototype: str
    main: Graph
    drain: Graph | None = None
    end: Graph | None = None
    frame: Graph | None = None
    lost: Graph | None = None
    stateless: Graph | None = None
    template: Graph | None = None
    turn: Graph | None = None
    ahead: Graph | None = None
    dispatch: Graph | None = None
    resyncs: bool = False
    of_streams: bool = False
    of_packets: bool = False
    instance: InstanceLayout | None = None
    rules: Rules | None = None
    states: tuple[State, ...] = ()
    timeouts: tuple[float, ...] = ()
    events: dict[str, EventShape] = field(default_factory=lambda: {})
    above: tuple[str, ...] = ()
    home: int = 0

    def graphs(self) -> Iterator[Graph]:
        """Its main graph; where it has instances, those that drain and end them; where it takes messages, the one
        that tells how long the next is and the one that tells that bytes make none; the stateless one and its
        template, what those leave to the packet's turn, the one that looks ahead and the one that tells for which
        worker a packet is, if any.
        """
        yield from (graph for _, graph in self.graphs_by_kind())

    def graphs_by_kind(self) -> Iterator[tuple[str, Graph]]:
        """Its graphs with the names of their fields, as GRAPH_KINDS has them."""
        for kind in GRAPH_KINDS:
            graph = getattr(self, kind)
            if graph is not None:
                yield kind, graph

    def outcomes(self) -> list[str]:
        """All outcomes that packets have in this layer, in order of appearance."""
        return list(dict.fromkeys(i.outcome for i in self.main.instructions() if isinstance(i, End)))

    def counters(self) -> list[str]:
        """Names of its counters besides `packets`, `bytes` and the outcomes."""
        names = [i.counter for g in self.graphs() for i in g.instructions() if isinstance(i, Count)]
        if self.rules is not None:
            names += ["no memory", *BYTES[:-1], given_up_name(self.rules.units)]
        return list(dict.fromkeys(names + (list(CUT_BYTES) if self.of_packets else [])))


@dataclass(frozen=True)
class NativeShape:
    """A function of a native module: which inputs are bytes, how many numbers it gives, how many bytes at most, and its
    reasons.
    """

    inputs: tuple[bool, ...]
    outputs: int
    limit: int
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class NativeModule:
    """A source file in C with functions that layers call, what it is linked with, and the option that it takes."""

    name: str
    path: str
    libraries: tuple[str, ...]
    option: str
    functions: tuple[tuple[str, NativeShape], ...]

    def function(self, name: str) -> NativeShape | None:
        """A function by its name; None when layers call none of that name."""
        return dict(self.functions).get(name)


@dataclass
class Program:
    """A compiled stack: its layers, where packets enter by link type (None: any), how deep they nest, and the modules
    of which its layers call functions.
    """

    name: str
    layers: dict[str, LayerProgram]
    roots: tuple[tuple[int | None, str], ...]
    slots: tuple[Reg, ...]
    depth: int
    natives: tuple[NativeModule, ...] = ()

    def native(self, name: str) -> NativeModule | None:
        """A native module by its name."""
        return next((module for module in self.natives if module.name == name), None)


def layers_above(layers: dict[str, LayerProgram], name: str) -> set[str]:
    """A layer and all to which its packets may come, itself again only in a tunnel within itself."""
    seen = {name}
    waiting = [name]
    while waiting:
        for above in layers[waiting.pop()].above:
            if above not in seen:
                seen.add(above)
                waiting.append(above)
    return seen


def alias_tables(program: Program) -> dict[str, tuple[KeyPart, ...]]:
    """The tables of further keys of a program, by name: what their keys are made of."""
    layouts = [layer.instance for layer in program.layers.values() if layer.instance is not None]
    found = {layout.aliases: layout.alias for layout in layouts if layout.aliases}
    return found | {layout.more_keys: layout.whole_key for layout in layouts if layout.more_keys}
