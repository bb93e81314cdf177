"""How instances lie in memory: the structs of tables, and the words of their keys."""

from __future__ import annotations

from dataclasses import dataclass, field

from sluice.codegen.c.names import identifier, member, pair_member, storage
from sluice.codegen.layer.merge_sides import Fields, mirrored
from sluice.ir.expression import Reg
from sluice.ir.graph import Graph, KeyPart, LayerProgram, Program
from sluice.ir.instruction import CloseMessages, LoseMessages, NextMessages, Prefetch


@dataclass(frozen=True)
class KeyWord:
    """Where a part of a key lies in its half: word and, for a number, how far above its bit 0."""

    part: KeyPart
    word: int
    shift: int


def key_words(parts: tuple[KeyPart, ...]) -> tuple[list[KeyWord], int]:
    """Numbers are packed into 64-bit words while they fit; bytes begin a word of their own. Returns the words too."""
    placed: list[KeyWord] = []
    word, used = 0, 0
    for part in parts:
        if part.bits > 64:
            if used:
                word, used = word + 1, 0
            placed.append(KeyWord(part, word, 0))
            word += (part.bits + 63) // 64
            continue
        if used + part.bits > 64:
            word, used = word + 1, 0
        placed.append(KeyWord(part, word, used))
        used += part.bits
    return placed, word + (1 if used else 0)


@dataclass
class Table:
    """A table: the layers that share it, the fields of its instances.

    `most` is how many there may be, 0: as many as the box allows. `takers` are layers that take messages from the streams or packets of its instances: their events tell these.
    """

    name: str
    layers: list[LayerProgram]
    fields: list[tuple[Reg, int]]
    oriented: bool
    half: int
    parts: list[KeyWord]
    sides: int
    most: int
    takers: list[LayerProgram] = field(default_factory=lambda: [])
    mains: dict[str, Graph] = field(default_factory=lambda: {})
    """By layer, its main graph with one way for both sides where it can be."""
    pairs: Fields = field(default_factory=lambda: {})
    """The fields that lie beside another one in `mains`, and that other one."""

    @property
    def messages(self) -> bool:
        """Whether a layer above takes messages from the streams of its instances."""
        kinds = (NextMessages, LoseMessages, CloseMessages)
        graphs = [graph for layer in self.layers for graph in layer.graphs()]
        return any(isinstance(instruction, kinds) for graph in graphs for instruction in graph.instructions())

    @property
    def kept_messages(self) -> str:
        """The member of the box with what streams of its instances have brought of messages, by slot."""
        return f"messages_{identifier(self.name)}"

    @property
    def spare(self) -> bool:
        """Whether the first word of a key has bits that no key uses."""
        first = [placed.part.bits for placed in self.parts if placed.word == 0]
        return bool(first) and sum(first) < 64

    @property
    def foreseen(self) -> bool:
        """Whether a graph that runs before the packet's turn looks for its instances."""
        graphs = [graph for layer in self.layers for graph in (layer.ahead, layer.stateless) if graph is not None]
        return any(isinstance(instruction, Prefetch) for graph in graphs for instruction in graph.instructions())

    @property
    def deferred(self) -> bool:
        """Whether packets come by its instances in their turn, having passed their layer before."""
        return any(layer.turn is not None for layer in self.layers)

    @property
    def wanted(self) -> str:
        """The member of the box with the key that was asked for last."""
        return f"wanted_{identifier(self.name)}"

    @property
    def latest(self) -> str:
        """The member of the box with the instance that the last packet came by."""
        return f"latest_{identifier(self.name)}"

    @property
    def words(self) -> int:
        """64-bit words of the whole key."""
        return self.half * (2 if self.oriented else 1)

    @property
    def struct(self) -> str:
        return f"struct sl_instance_{identifier(self.name)}"

    @property
    def variable(self) -> str:
        return f"table_{identifier(self.name)}"

    @property
    def fields_begin(self) -> str:
        """Where the fields of an instance begin, which lie together."""
        return f"offsetof({self.struct}, number) + sizeof(uint64_t)"

    @property
    def fields_size(self) -> str:
        """How many bytes they have."""
        return f"offsetof({self.struct}, swapped) - ({self.fields_begin})"

    @property
    def busy(self) -> bool:
        """Whether a packet may meet an instance that it came through already (tunnels within themselves)."""
        return any(reg.name == "inst.busy" for reg, _ in self.fields)

    @property
    def packed(self) -> dict[Reg, tuple[int, int]]:
        """The fields that share bytes: the byte of each, and its first bit there. Single bits do not: they are most of
        what packets look at. Nor do those of a pair.
        """
        found: dict[Reg, tuple[int, int]] = {}
        byte, used = 0, 0
        alone = {*self.pairs, *self.pairs.values()}
        for reg, _ in self.fields:
            if reg.space == "perm" and 1 < reg.bits < 8 and reg not in alone:
                if used + reg.bits > 8:
                    byte, used = byte + 1, 0
                found[reg] = byte, used
                used += reg.bits
        return found

    @property
    def shared(self) -> bool:
        return len(self.layers) > 1


def tables(program: Program) -> dict[str, Table]:
    """The tables of a program, by name, in the order in which layers name them first."""
    found: dict[str, Table] = {}
    for layer in program.layers.values():
        instance = layer.instance
        if instance is None:
            continue
        table = found.get(instance.table)
        if table is None:
            parts, half = key_words(instance.key)
            table = Table(instance.table, [], [], instance.oriented, half, parts, instance.sides, instance.most)
            found[instance.table] = table
        table.layers.append(layer)
        _add_takers(table, layer, program)
        known = {reg.name for reg, _ in table.fields}
        table.fields += [(reg, init) for reg, init in instance.fields if reg.name not in known]
        table.mains[layer.name] = mirrored(layer.main, [reg for reg, _ in table.fields], table.pairs)
    return found


def _add_takers(table: Table, layer: LayerProgram, program: Program) -> None:
    """Layers right above that take messages; and above one that has no instances of its own, those that do so there."""
    for name in layer.above:
        taker = program.layers[name]
        if taker.frame is not None and taker not in table.takers:
            table.takers.append(taker)
            if taker.instance is None:
                _add_takers(table, taker, program)


def struct_text(table: Table, states: list[str], watched: bool, controlled: bool, timers: list[str]) -> list[str]:
    """The C struct of a table's instances; `states` are the functions that keep something in them.

    watched: whether handlers on demand may be registered for each. controlled: whether functions decide of each.
    timers: fields of timers.
    """
    out = [
        f"{table.struct} {{",
        "    struct sl_instance head;",
        f"    uint64_t key[{table.words}];",
        "    uint64_t number;",
    ]
    packed, second = table.packed, set(table.pairs.values())
    for reg, _ in sorted(table.fields, key=lambda item: -storage(item[0].bits)):
        kind = f"uint{8 * storage(reg.bits)}_t"
        if reg in table.pairs:
            out += [
                "    union {",
                "        struct {",
                f"            {kind} {member(reg)}, {member(table.pairs[reg])};",
                "        };",
                f"        {kind} {pair_member(reg)}[2];",
                "    };",
            ]
        elif reg not in packed and reg not in second:
            out.append(f"    {kind} {member(reg)};")
    if packed:
        out += [
            "    union {",
            f"        uint8_t packed[{1 + max(byte for byte, _ in packed.values())}];",
            "        struct {",
        ]
        out += [f"            uint8_t {member(reg)} : {reg.bits};" for reg in packed]
        out += ["        };", "    };"]
    out.append("    uint8_t swapped;   /* the higher half of the key is the active side's */")
    if table.sides:
        out.append(f"    struct sl_sequence sequence[{table.sides}];")
        if table.messages:
            out.append("    struct sl_messages *messages;   /* of each side; NULL until one has brought any */")
    if watched:
        out.append("    struct sl_watch watch;")
    if controlled:
        out.append("    struct sl_control control;")
    out += timers
    for name in states:
        out.append(f"    {name}_state_type {name}_state __attribute__((aligned(8)));")
    out.append("};")
    return out
