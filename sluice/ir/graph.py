"""Programs of the IR: layers, each with its graphs of blocks, its instance layout and its sequence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from sluice.ir.expression import Reg
from sluice.ir.graph_kinds import KINDS, MAIN
from sluice.ir.instruction import Count, End, Instruction, Terminator

LAYERS_MOST = 255
"""The largest number of layers that a packet passes."""

GATHERED = "slot.gathered."
"""Slots that are 0 when a packet enters the stack, and that layers add to; see sluice.lower.scope.gathered."""

INSTANCE_NUMBER = Reg("inst.number", 64)
"""The number of the instance: from 1, in the order in which the box created them; 0 for an instance that is not
stored.
"""
INSTANCE_PLACE = Reg("inst.place", 32)
"""The slot of the instance in its table."""
OF_EVERY_INSTANCE = (INSTANCE_NUMBER, INSTANCE_PLACE)
"""Registers of every instance besides the fields of its layout. Instructions never write them."""


@dataclass
class Block:
    """Instructions that run one after another. The last one is a terminator."""

    name: str
    instructions: list[Instruction] = field(default_factory=lambda: [])

    @property
    def terminator(self) -> Terminator:
        return self.instructions[-1]  # pyright: ignore[reportReturnType]  # called so often that a check would be slow

    @property
    def body(self) -> list[Instruction]:
        return self.instructions[:-1]


@dataclass
class Graph:
    """A control-flow graph. The caller sets the registers in `parameters`."""

    name: str
    entry: str
    parameters: tuple[Reg, ...]
    blocks: dict[str, Block] = field(default_factory=lambda: {})

    def predecessors(self) -> dict[str, list[str]]:
        """The predecessors of every block."""
        found: dict[str, list[str]] = {name: [] for name in self.blocks}
        for block in self.blocks.values():
            for target in block.terminator.targets():
                found[target].append(block.name)
        return found

    def order(self) -> list[str]:
        """Reachable blocks in reverse post-order: a block comes before its successors, except around loops."""
        blocks = self.blocks
        seen = {self.entry}
        post: list[str] = []
        names = [self.entry]
        stack = [iter(blocks[self.entry].terminator.targets())]
        while stack:
            for target in stack[-1]:
                if target not in seen:
                    seen.add(target)
                    names.append(target)
                    stack.append(iter(blocks[target].instructions[-1].targets()))  # pyright: ignore
                    break
            else:
                post.append(names.pop())
                stack.pop()
        return post[::-1]

    def instructions(self) -> Iterator[Instruction]:
        """All instructions of all blocks."""
        for block in self.blocks.values():
            yield from block.instructions

    def registers(self) -> dict[str, Reg]:
        """All registers of the graph, by name."""
        found: dict[str, Reg] = {reg.name: reg for reg in self.parameters}
        for instruction in self.instructions():
            for reg in (*instruction.written(), *instruction.read_registers()):
                found[reg.name] = reg
        return found


@dataclass(frozen=True)
class KeyPart:
    """A component of a selector: a number of `bits` bits, or `bits // 8` bytes when it is wider than 64 bits.

    `other` is the name of its counterpart in the second list of a connection-oriented selector.
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

    `width` is that of meta, `record` holds the fields of a record. `observed`: functions read the stored bytes of the
    sequence, at any event that they subscribe to. `accounts`: bytes without a position in the stream are counted.
    `bounded`: bytes that the receiver would not accept have no position.
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
    """The layout of a layer's instances: table, key, fields with their initial values, and the number of sequences.

    Layers of one prototype whose keys have the same shape name the same `table`. `aliases` is the name of the table of
    further keys, and `alias` the parts of such a key; layers of one prototype share it. `more_keys` is the name of
    another table of further keys, which have the shape of the main table's keys; layers of one `table` share it. `most`
    is the maximum number of instances; 0: the size of a table of the box.
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
        """The parts of a packet's full key. A connection-oriented key has the sender's half first, then the other
        half.
        """
        return self.key + tuple(KeyPart(part.other, part.bits) for part in self.key if self.oriented)


@dataclass
class EventShape:
    """An event of a layer and the fields that it carries: (name, bits), with bits 0 for bytes.

    `callback` is the name of the user's layout, empty for built-in events. `reasons` gives the meaning of the numbers
    in its field `reason`, if the reasons are defined by the layer.
    """

    name: str
    fields: tuple[tuple[str, int], ...]
    callback: str
    reasons: tuple[str, ...] = ()
    where: str = field(default="", compare=False)


BYTES = tuple(f"bytes:{end}" for end in ("in", "delivered", "known already", "no memory", "discarded", "given up"))
"""Counters of a layer with a sequence: the bytes inserted, and what became of them. They were delivered; they were
known already, so that one of the two copies was discarded; they could not be held because memory ran out; or they were
held when the instance ended, in a sequence that delivers only the whole. These counters conserve. The last one counts
the bytes of gaps, which never arrived. (For a sequence that buffers no data, only the last one is counted.)
"""


def given_up_name(units: bool) -> str:
    """The counter of what gaps took: bytes, or units if the sequence counts in units."""
    return "units:given up" if units else BYTES[-1]


GAVE_UP = "memory:given up"
"""The counter of a layer's sides, and of messages that it takes, that gave up what they held because memory was nearly
exhausted and they had held it for longest.
"""

CONTEXTS_GAVE_UP = "contexts given up"
"""The counter of the box of contexts of native modules that ended for the same reason. Of these, the one that was used
longest ago gives up.
"""

CUT_BYTES = ("bytes:of packets", "bytes:lost")
"""Counters of a layer that takes messages from packets: the bytes given to the framing, and those of them that formed
no message. Together with the bytes of the messages (`bytes`) they conserve.
"""


class _GraphOf:
    """An attribute of a layer: its graph of the kind that has the attribute's name, or None."""

    def __set_name__(self, _: type[LayerProgram], name: str) -> None:
        self._kind = name

    def __get__(self, layer: LayerProgram, _: type[LayerProgram]) -> Graph | None:
        return layer.others.get(self._kind)


PLAIN, COSTLY = 8, 6
"""Layers of a packet that the bound counts alike, and how many of those after them a costly one counts for."""


@dataclass
class LayerProgram:
    """A layer, compiled for one combination of layers below it.

    `name` is unique in the program, `layer` is the user's name for it, and `prototype` is the parser's name. `resyncs`:
    after a loss, it searches for the start of the next message. `of_streams`, `of_packets`: whether its messages are
    cut from streams, from packets, or from both. `carried`: without messages and instances of its own, it lies above a
    stream, whose instance and side its events carry. `record`: it is one of many records of a message, which have a
    bound of their own. `bundled`: its messages of packets have one, too, and on average count `half` or one each;
    `begins`: those of them that begin instances.
    `costly`: after the first PLAIN layers of a packet, it counts for COSTLY ones. `others`: its graphs besides the main
    one, by the name of their kind (graph_kinds.py).
    """

    name: str
    layer: str
    prototype: str
    main: Graph
    others: dict[str, Graph] = field(default_factory=lambda: {})
    resyncs: bool = False
    of_streams: bool = False
    of_packets: bool = False
    carried: bool = False
    record: bool = False
    bundled: bool = False
    half: bool = False
    begins: bool = False
    costly: bool = False
    instance: InstanceLayout | None = None
    rules: Rules | None = None
    states: tuple[State, ...] = ()
    timeouts: tuple[float, ...] = ()
    lifetime: bool = False
    events: dict[str, EventShape] = field(default_factory=lambda: {})
    above: tuple[str, ...] = ()
    home: int = 0

    drain, end = _GraphOf(), _GraphOf()
    frame, lost = _GraphOf(), _GraphOf()
    stateless, template = _GraphOf(), _GraphOf()
    deferred, lookahead = _GraphOf(), _GraphOf()
    dispatch, path = _GraphOf(), _GraphOf()

    @property
    def takes_stream(self) -> bool:
        """Whether it is given the stream, or packet of an instance, that its bytes are from."""
        return self.frame is not None or self.carried

    def in_bundle(self, of_stream: bool = False) -> bool:
        """Whether the bounds of bundled messages are for those that it takes: of packets, or of streams."""
        return self.bundled or (self.begins and not of_stream)

    def graphs(self) -> Iterator[Graph]:
        """The graphs that the layer has, in the order of KINDS."""
        yield from (graph for _, graph in self.graphs_by_kind())

    def graphs_by_kind(self) -> Iterator[tuple[str, Graph]]:
        """Its graphs with the names of their kinds, in the order of KINDS."""
        yield MAIN, self.main
        for kind in KINDS:
            if kind in self.others:
                yield kind, self.others[kind]

    def with_graphs(self, **graphs: Graph) -> LayerProgram:
        """The layer with other graphs of these kinds."""
        others = {**self.others, **graphs}
        return replace(self, main=others.pop(MAIN, self.main), others=others)

    def outcomes(self) -> list[str]:
        """All outcomes that packets can have in this layer, in order of appearance."""
        return list(dict.fromkeys(i.outcome for i in self.main.instructions() if isinstance(i, End)))

    def counters(self) -> list[str]:
        """Names of its counters besides `packets`, `bytes` and the outcomes."""
        names = [i.counter for g in self.graphs() for i in g.instructions() if isinstance(i, Count)]
        if self.rules is not None:
            names += ["no memory", *BYTES[:-1], given_up_name(self.rules.units)]
        if self.rules is not None or self.of_streams:
            names.append(GAVE_UP)
        return list(dict.fromkeys(names + (list(CUT_BYTES) if self.of_packets else [])))


@dataclass(frozen=True)
class NativeShape:
    """The signature of a function of a native module: which inputs are bytes, the number of its outputs, the largest
    SDU that it returns in bytes, and its reasons.
    """

    inputs: tuple[bool, ...]
    outputs: int
    limit: int
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class NativeModule:
    """A C source file with functions that layers call, the libraries to link, and the option that it takes."""

    name: str
    path: str
    libraries: tuple[str, ...]
    option: str
    functions: tuple[tuple[str, NativeShape], ...]

    def function(self, name: str) -> NativeShape | None:
        """A function by its name; None when no layer calls a function of that name."""
        return dict(self.functions).get(name)


PREFETCH_MOST = 192
"""The maximum number of bytes of a packet to prefetch. The headers of a packet in a tunnel often fill it."""


@dataclass
class Program:
    """A compiled stack: its layers, the root layers by link type (None: any), the maximum nesting depth, the native
    modules whose functions its layers call, and how many layers a packet passes besides if they are records (0: no
    layer is one).

    `prefetch`: the number of bytes of a packet to prefetch before stage 1. `pending_lazily`: the state of a packet that
    is pending for stage 2 is initialised only when the packet leaves the fast path. Neither changes a result.
    """

    name: str
    layers: dict[str, LayerProgram]
    roots: tuple[tuple[int | None, str], ...]
    slots: tuple[Reg, ...]
    depth: int
    natives: tuple[NativeModule, ...] = ()
    prefetch: int = PREFETCH_MOST
    pending_lazily: bool = False
    records: int = 0

    @property
    def deepest(self) -> int:
        """The number of layers that a packet passes at most, records included."""
        return min(self.depth + self.records, LAYERS_MOST)

    def native(self, name: str) -> NativeModule | None:
        """A native module by its name."""
        return next((module for module in self.natives if module.name == name), None)


HELD = "held"
"""The outcome of packets with bytes that wait for earlier ones."""

TOO_DEEP, TOO_MANY_RECORDS = "too deep", "too many records"
"""Counters of the box: packets that one of these bounds ended. A stack without records has only the first."""


def depth_counters(program: Program) -> tuple[str, ...]:
    """Those that a program has."""
    return (TOO_DEEP, TOO_MANY_RECORDS) if program.records else (TOO_DEEP,)


def layers_above(layers: dict[str, LayerProgram], name: str) -> set[str]:
    """A layer and all layers that its packets can reach. A layer can reach itself again only if it is tunnelled in
    itself.
    """
    seen = {name}
    waiting = [name]
    while waiting:
        for above in layers[waiting.pop()].above:
            if above not in seen:
                seen.add(above)
                waiting.append(above)
    return seen


def alias_tables(program: Program) -> dict[str, tuple[KeyPart, ...]]:
    """The tables of further keys of a program: the parts of their keys, by the name of the table."""
    layouts = [layer.instance for layer in program.layers.values() if layer.instance is not None]
    found = {layout.aliases: layout.alias for layout in layouts if layout.aliases}
    return found | {layout.more_keys: layout.whole_key for layout in layouts if layout.more_keys}
