"""The memory layout of instances: the structs of tables, and the words of their keys."""

from __future__ import annotations

from dataclasses import dataclass, field

from sluice.codegen.c.names import identifier, member, pair_member, storage
from sluice.ir.expression import Reg, fields_of
from sluice.ir.graph import KeyPart, LayerProgram, Program
from sluice.ir.instruction import CloseMessages, LoseMessages, NextMessages, Prefetch


@dataclass(frozen=True)
class KeyWord:
    """The place of a part of a key in its half: the word and, for a number, the shift from bit 0 of the word."""

    part: KeyPart
    word: int
    shift: int


def key_words(parts: tuple[KeyPart, ...]) -> tuple[list[KeyWord], int]:
    """The places of the parts of a key, and the number of words.

    Numbers are packed into 64-bit words while they fit. A part of bytes begins a new word.
    """
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
    """A table: the layers that share it, and the fields of its instances.

    `most` is the maximum number of instances; 0 means as many as the box allows. `takers` are the layers that take
    messages, or bytes, from the streams or packets of its instances. Their events carry these instances.
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
    pairs: dict[Reg, Reg] = field(default_factory=lambda: {})
    """The fields of which instructions select one by the packet's side: by the first field of a pair, the second one."""

    @property
    def messages(self) -> bool:
        """Whether a layer above takes messages from the streams of its instances."""
        kinds = (NextMessages, LoseMessages, CloseMessages)
        graphs = [graph for layer in self.layers for graph in layer.graphs()]
        return any(isinstance(instruction, kinds) for graph in graphs for instruction in graph.instructions())

    @property
    def kept_messages(self) -> str:
        """The member of the box with the incomplete messages of its instances' streams, by slot."""
        return f"messages_{identifier(self.name)}"

    @property
    def spare(self) -> bool:
        """Whether the first word of a key has bits that no key uses."""
        first = [placed.part.bits for placed in self.parts if placed.word == 0]
        return bool(first) and sum(first) < 64

    @property
    def predicted(self) -> bool:
        """Whether a graph that runs before stage 2 prefetches its instances."""
        graphs = [graph for layer in self.layers for graph in (layer.lookahead, layer.stateless) if graph is not None]
        return any(isinstance(instruction, Prefetch) for graph in graphs for instruction in graph.instructions())

    @property
    def deferred(self) -> bool:
        """Whether a layer of the table defers the processing of its instances to stage 2."""
        return any(layer.deferred is not None for layer in self.layers)

    @property
    def wanted(self) -> str:
        """The member of the box with the key whose instance was prefetched last."""
        return f"wanted_{identifier(self.name)}"

    @property
    def latest(self) -> str:
        """The member of the box with the instance of the previous packet."""
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
        """The offset of the fields of an instance, which are contiguous."""
        return f"offsetof({self.struct}, number) + sizeof(uint64_t)"

    @property
    def fields_size(self) -> str:
        """The size of these fields in bytes."""
        return f"offsetof({self.struct}, swapped) - ({self.fields_begin})"

    @property
    def busy(self) -> bool:
        """Whether a packet may reach an instance that it is already in (tunnels within themselves)."""
        return any(reg.name == "inst.busy" for reg, _ in self.fields)

    @property
    def packed(self) -> dict[Reg, tuple[int, int]]:
        """The fields that share bytes: the byte of each, and its first bit in that byte.

        Single bits have their own bytes, as they are most of the fields that packets read. So do the fields of a pair.
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
        registers = {reg for i in layer.main.instructions() for reg in (*i.written(), *i.read_registers())}
        table.pairs |= dict(pair for reg in registers if (pair := fields_of(reg)) is not None)
    return found


def _add_takers(table: Table, layer: LayerProgram, program: Program) -> None:
    """Add the layers directly above that take messages, or bytes of a stream. Above one without instances, also add its
    own takers.
    """
    for name in layer.above:
        taker = program.layers[name]
        if taker.takes_stream and taker not in table.takers:
            table.takers.append(taker)
            if taker.instance is None:
                _add_takers(table, taker, program)


def struct_text(table: Table, states: list[str], watched: int, controlled: bool, timers: list[str]) -> list[str]:
    """The C struct of a table's instances; `states` are the fields with the state of functions.

    watched: words of the on-demand handlers that may be registered for single instances. controlled: whether functions
    control single instances. timers: the fields of timers.
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
    out.append("    uint8_t swapped;   /* whether the higher half of the key is that of the active side */")
    if table.sides:
        out.append(f"    struct sl_sequence sequence[{table.sides}];")
        if table.messages:
            out.append("    struct sl_messages *messages;   /* of each side; NULL until the first message */")
    if watched:
        out.append(f"    struct sl_watch watch{f'[{watched}]' if watched > 1 else ''};")
    if controlled:
        out.append("    struct sl_control control;")
    out += timers
    return [*out, *(f"    {state}" for state in states), "};"]
