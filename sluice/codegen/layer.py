"""The C of one layer: its graphs, instruction by instruction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sluice.codegen.expressions import emit, inside, number, place, stored
from sluice.codegen.functions import Functions, listens
from sluice.codegen.layout import Table
from sluice.codegen.names import identifier, variable
from sluice.codegen.structure import Structure
from sluice.ir import instruction as ir
from sluice.ir.expression import ZERO, Binary, Const, Expr, Reg, is_bytes
from sluice.ir.graph import Block, Graph, LayerProgram, Program
from sluice.lang.events import END_REASONS


@dataclass
class Counters:
    """All counters of a program, numbered in the order of first use."""

    names: list[tuple[str, str]] = field(default_factory=lambda: [])

    def index(self, layer: str, name: str) -> int:
        """Number of a counter; a new one when it is not known yet."""
        if (layer, name) not in self.names:
            self.names.append((layer, name))
        return self.names.index((layer, name))

    def add(self, layer: str, name: str, amount: str = "") -> str:
        """The statement that counts."""
        at = f"box->base.counters[{self.index(layer, name)}]"
        text = f"{at} += {amount};" if amount else f"{at}++;"
        return f"{text:<42} /* {layer}: {name} */"


@dataclass
class StackNames:
    """What the code of a layer needs to know of the rest of the file."""

    program: Program
    functions: Functions
    tables: dict[str, Table]
    counters: Counters
    events: list[tuple[str, str]]
    timeouts: dict[str, int]
    weak: bool


class LayerWriter:
    """Writes the functions of one layer."""

    def __init__(self, layer: LayerProgram, names: StackNames) -> None:
        self.layer = layer
        self.names = names
        self.word = identifier(layer.name)
        self.table = names.tables[layer.instance.table] if layer.instance is not None else None
        self.index = list(names.program.layers).index(layer.name)
        self.may_be_fresh = any(isinstance(i, ir.FreshInst) for i in layer.main.instructions())
        self.may_be_fresh |= self.table is not None and self.table.busy
        self._line = ""

    # --- functions ----------------------------------------------------------------------------------------

    def prototypes(self) -> list[str]:
        """Declarations of the layer's functions."""
        out = [f"static void layer_{self.word}(struct box *box, sl_bytes unit);"]
        if self.layer.drain is not None:
            out.append(self._drain_head() + ";")
        if self.layer.end is not None:
            out.append(self._end_head() + ";")
        if self.layer.frame is not None:
            out.append(f"static uint64_t frame_{self.word}(struct box *box, sl_bytes unit, uint64_t searching);")
            out.append(f"static uint64_t lost_{self.word}(struct box *box, sl_bytes unit, uint64_t cause);")
            out.append(f"static void messages_{self.word}(struct box *box, struct sl_messages *messages, sl_bytes sdu);")
        return out

    def _drain_head(self) -> str:
        assert self.table is not None
        return (
            f"static uint64_t drain_{self.word}(struct box *box, {self.table.struct} *inst, struct sl_fresh *fresh, "
            "SL_UNUSED sl_bytes unit, SL_UNUSED uint64_t side, SL_UNUSED uint64_t cause, uint64_t all)"
        )

    def _end_head(self) -> str:
        assert self.table is not None
        return f"static void end_{self.word}(struct box *box, {self.table.struct} *inst, SL_UNUSED struct sl_fresh *fresh, SL_UNUSED sl_bytes unit, uint64_t reason)"

    def functions(self) -> list[str]:
        """The layer's functions."""
        out: list[str] = []
        if self.layer.drain is not None:
            out += self._function(self.layer.drain, "__attribute__((noinline)) " + self._drain_head(), "drain")
        if self.layer.end is not None:
            out += self._function(self.layer.end, "__attribute__((noinline)) " + self._end_head(), "end")
        if self.layer.frame is not None and self.layer.lost is not None:
            head = f"static uint64_t frame_{self.word}(SL_UNUSED struct box *box, sl_bytes unit, SL_UNUSED uint64_t searching)"
            out += self._function(self.layer.frame, head, "frame")
            head = f"SL_COLD uint64_t lost_{self.word}(struct box *box, SL_UNUSED sl_bytes unit, SL_UNUSED uint64_t cause)"
            out += self._function(self.layer.lost, head, "lost")
            out += self._messages()
        out += self._function(self.layer.main, f"static void layer_{self.word}(struct box *box, sl_bytes unit)", "main")
        return out

    def _function(self, graph: Graph, head: str, kind: str) -> list[str]:
        self._kind = kind
        self._line = ""
        labels: dict[str, str] = {}

        def label(name: str) -> str:
            return labels.setdefault(name, identifier(name) if identifier(name) not in labels.values() else f"{identifier(name)}_{len(labels)}")

        lines = Structure(graph, self._block, self._ways, self._finish, label).lines()
        out = ["", head, "{"]
        out += ["    " + text for text in self._locals(graph)]
        if kind == "end":
            out.append("    SL_UNUSED uint64_t stored = inst->head.slot != SL_SLOT_FRESH;")
        if kind == "main":
            out.append(f"    box->base.path[box->base.depth++] = {self.index};")
            out.append("    " + self._count("packets"))
            out.append("    " + self._count("bytes", "unit.length"))
        out += ["    " * line.level + line.text for line in lines]
        out.append("}")
        return out

    def _messages(self) -> list[str]:
        """Cuts what a stream brings into messages for this layer."""
        w = self.word
        deep = self.names.counters.add("box", "too deep")
        lose = "sl_messages_lose(messages, &box->base.pool, "
        return [
            "",
            "/* What the stream of one side brings, message by message; what is not whole is kept. */",
            f"static void messages_{w}(struct box *box, struct sl_messages *messages, sl_bytes sdu)",
            "{",
            "    if (messages->state == SL_MESSAGES_OVER)",
            "        return;",
            "    if (messages->used && messages->used + sdu.captured < messages->want) {",
            "        if (!sl_messages_keep(messages, &box->base.pool, sdu))",
            f"            {lose}SL_LOSS_LIMIT);",
            "        return;",
            "    }",
            "    bool kept = messages->used != 0;",
            "    sl_bytes rest = sl_messages_join(messages, &box->base.pool, &box->base.scratch, sdu);",
            "    if (kept && !rest.captured)",
            f"        {lose}SL_LOSS_LIMIT);",
            "    uint64_t want = 0;",
            "    while (rest.captured) {",
            "        if (messages->state == SL_MESSAGES_LOST) {",
            f"            lost_{w}(box, (sl_bytes){{0}}, messages->cause);",
            f"            messages->state = {'SL_MESSAGES_SEARCHING' if self.layer.resyncs else 'SL_MESSAGES_OVER'};",
            *([] if self.layer.resyncs else ["            return;"]),
            "        }",
            f"        want = frame_{w}(box, rest, messages->state == SL_MESSAGES_SEARCHING);",
            "        if (want == SL_MESSAGE_INCOMPLETE)",
            "            break;",
            "        if (want >= SL_MESSAGE_TOO_LONG) {",
            "            if (messages->state == SL_MESSAGES_SEARCHING)",
            "                rest = sl_bytes_slice(rest, 1, UINT64_MAX);",
            "            else",
            f"                {lose}want == SL_MESSAGE_TOO_LONG ? SL_LOSS_LIMIT : SL_LOSS_MALFORMED);",
            "            want = 0;",
            "            continue;",
            "        }",
            "        messages->state = SL_MESSAGES_FOUND;",
            "        if (want > rest.captured)",
            "            break;",
            f"        if (SL_LIKELY(box->base.depth < {self.names.program.depth}))",
            f"            layer_{w}(box, sl_bytes_slice(rest, 0, want));",
            "        else",
            "            " + deep,
            "        rest = sl_bytes_slice(rest, want, UINT64_MAX);",
            "        want = 0;",
            "    }",
            "    messages->want = (uint32_t)want;",
            "    if (rest.captured && !sl_messages_keep(messages, &box->base.pool, rest))",
            f"        {lose}SL_LOSS_LIMIT);",
            "}",
        ]

    def _locals(self, graph: Graph) -> list[str]:
        parameters = {reg.name for reg in graph.parameters}
        numbers: list[str] = []
        slices: list[str] = []
        for reg in graph.registers().values():
            if reg.name in parameters or reg.space in ("perm", "inst", "slot"):
                continue
            (slices if reg.is_bytes else numbers).append(variable(reg))
        # unused: without the pass that removes dead code some are never read
        out = [f"SL_UNUSED uint64_t {', '.join(f'{name} = 0' for name in chunk)};" for chunk in _chunks(sorted(numbers), 6)]
        out += [f"SL_UNUSED sl_bytes {', '.join(f'{name} = {{0}}' for name in chunk)};" for chunk in _chunks(sorted(slices), 4)]
        if self.table is not None and self._kind == "main":
            out.append(f"{self.table.struct} *inst = NULL;")
            out.append(f"uint64_t key[{self.table.words}];")
            out.append("uint32_t hash;")
            if self.table.oriented:
                out.append("bool flip;")
            if self.may_be_fresh:
                out.append(f"{self.table.struct} fresh_instance;")
            if self.table.sides:
                out.append("struct sl_fresh fresh[2];")
                out.append("fresh[0].present = fresh[1].present = false;")
            else:
                out.append("SL_UNUSED struct sl_fresh *const fresh = NULL;")
        return out

    # --- blocks -------------------------------------------------------------------------------------------

    def _block(self, block: Block) -> list[str]:
        out: list[str] = []
        for instruction in block.body:
            lines = self._instruction(instruction)
            if lines:
                lines[0] += self._note(instruction)
            out += lines
        return out

    def _note(self, instruction: ir.Instruction) -> str:
        """The line of the description, where it differs from that of the statement before."""
        where = instruction.where.short if instruction.where.line else ""
        if not where or where == self._line:
            return ""
        self._line = where
        return f"   /* {where} */"

    def _count(self, name: str, amount: str = "") -> str:
        return self.names.counters.add(self.layer.name, name, amount)

    def _ways(self, terminator: ir.Terminator) -> list[tuple[str | None, str]]:
        note = self._note(terminator)
        match terminator:
            case ir.Goto(to):
                return [(None, to)]
            case ir.Branch(condition, yes, no):
                return [(emit(condition) + note, yes), (None, no)]
            case ir.Check(mark, size, yes, cut, short):
                there, wire = self._fits(mark, size, "captured"), self._fits(mark, size, "length")
                return [(f"SL_LIKELY({there})" + note, yes), (wire, cut), (None, short)]
            case ir.CheckWire(mark, size, yes, short):
                return [(f"SL_LIKELY({self._fits(mark, size, 'length')})" + note, yes), (None, short)]
            case _:
                raise AssertionError(terminator)

    def _fits(self, mark: Expr, size: Expr, measure: str) -> str:
        """Whether `size` bytes behind `mark` are within that measure of the unit; a size from a packet may be any."""
        if isinstance(size, Const) and size.value < 1 << 31:
            return f"{emit(size if mark == ZERO else Binary('+', mark, size))} <= unit.{measure}"
        if mark == ZERO:
            return f"{inside(size, 8)} <= unit.{measure}"
        return f"{emit(mark)} <= unit.{measure} && {inside(size, 8)} <= unit.{measure} - {inside(mark, 10)}"

    def _finish(self, terminator: ir.Terminator) -> list[str]:
        match terminator:
            case ir.End(outcome):
                return [self._count(outcome) + self._note(terminator), "box->base.depth--;", "return;"]
            case ir.Return(result):
                return ["return;"] if self._kind == "end" else [f"return {emit(result)};"]
            case _:
                return []

    # --- instructions -------------------------------------------------------------------------------------

    def _instruction(self, instruction: ir.Instruction) -> list[str]:
        writer: Callable[[LayerWriter, ir.Instruction], list[str]] = _WRITERS[type(instruction)]
        return writer(self, instruction)

    def _load(self, i: ir.Load) -> list[str]:
        first, last = i.at // 8, (i.at + i.bits + 7) // 8
        size, shift = last - first, last * 8 - i.at - i.bits
        where = f"unit.at + {emit(i.mark)} + {first}" if first else f"unit.at + {emit(i.mark)}"
        if i.order == "little":
            return [f"{variable(i.target)} = sl_load_le({where}, {size});"]
        if size > 8:  # a field of up to 64 bits that lies across nine bytes
            text = f"sl_load_be({where}, 8) << {8 - shift} | sl_load_be({where} + 8, 1) >> {shift}"
            return [f"{variable(i.target)} = ({text}) & {number((1 << i.bits) - 1)};"]
        text = f"sl_load_be({where}, {size})"
        if shift:
            text += f" >> {shift}"
        if size * 8 - shift != i.bits:
            text = f"{text if not shift else f'({text})'} & {number((1 << i.bits) - 1)}"
        return [f"{variable(i.target)} = {text};"]

    def _load_bytes(self, i: ir.LoadBytes) -> list[str]:
        begin: Expr = Binary("+", i.mark, Const(i.at)) if i.at else i.mark
        return [f"{variable(i.target)} = sl_bytes_slice(unit, {emit(begin)}, {emit(Binary('+', begin, i.size))});"]

    def _mark(self, i: ir.Mark) -> list[str]:
        if i.offset == ZERO:
            return [f"{variable(i.target)} = {emit(i.base)};"]
        return [f"{variable(i.target)} = {emit(Binary('+', i.base, i.offset))};"]

    def _payload(self, i: ir.Payload) -> list[str]:
        return [f"{variable(i.target)} = sl_bytes_slice(unit, {emit(i.mark)}, UINT64_MAX);"]

    def _assign(self, i: ir.Assign) -> list[str]:
        if i.target.is_bytes:
            return [f"{place(i.target)} = {emit(i.value)};"]
        text = stored(i.value, i.target.bits)
        if i.target.space in ("perm", "inst", "slot"):
            from sluice.codegen.names import storage

            size = 8 * storage(i.target.bits)
            if size < 64:
                text = f"(uint{size}_t)({text})"
        return [f"{place(i.target)} = {text};"]

    # instances

    def _half(self, name: str, key: tuple[Expr, ...]) -> list[str]:
        """Statements that pack one half of a key."""
        assert self.table is not None
        words: dict[int, list[str]] = {}
        out: list[str] = []
        for placed, value in zip(self.table.parts, key, strict=True):
            if is_bytes(value):
                for k in range((placed.part.bits + 63) // 64):
                    size = min(8, placed.part.bits // 8 - 8 * k)
                    words[placed.word + k] = [f"sl_load_be(({emit(value)}).at + {8 * k}, {size})"]
            else:
                text = stored(value, placed.part.bits)
                words.setdefault(placed.word, []).append(f"({text}) << {placed.shift}" if placed.shift else text)
        for word in sorted(words):
            out.append(f"{name}[{word}] = {' | '.join(words[word])};")
        return out

    def _lookup(self, i: ir.Lookup) -> list[str]:
        table = self.table
        assert table is not None
        at = f"box->{table.variable}"
        out: list[str] = []
        if table.oriented:
            out.append(f"uint64_t from[{table.half}], to[{table.half}];")
            out += self._half("from", i.key) + self._half("to", i.reverse)
            out.append(f"flip = sl_key_pair(key, from, to, {table.half});")
        else:
            out += self._half("key", i.key)
        out.append(f"hash = sl_table_hash(&{at}, key, {table.words});")
        out.append(f"if (SL_UNLIKELY(++box->lookups_{identifier(table.name)} % SL_SWEEP_EVERY == 0))")
        out.append(f"    sweep_{identifier(table.name)}(box);")
        out.append(f"inst = ({table.struct} *)sl_table_find(&{at}, key, {table.words}, hash);")
        side = "flip ^ inst->swapped" if table.oriented else "0"
        out.append(f"{variable(i.found)} = inst != NULL;")
        out.append(f"{variable(i.expired)} = inst && sl_expired(&box->base, &inst->head);")
        out.append(f"{variable(i.side)} = inst ? {side} : 0;" if table.oriented else f"{variable(i.side)} = 0;")
        return ["{", *("    " + line for line in out), "}"]

    def _create(self, _: ir.Instruction) -> list[str]:
        table = self.table
        assert table is not None
        at, word = f"box->{table.variable}", identifier(table.name)
        make = f"({table.struct} *)sl_table_create(&{at}, key, {table.words}, hash)"
        if table.busy:  # what an end delivered may have begun an instance with this key
            make = f"sl_table_find(&{at}, key, {table.words}, hash) ? NULL : {make}"
        out = [f"inst = {make};", f"if (SL_UNLIKELY(!inst && {at}.live >= {at}.max_instances)) {{", f"    evict_{word}(box);"]
        out += [f"    inst = {make};", "}"]
        stored = [
            "inst->number = ++box->base.created;",
            self._count("instances"),
        ]
        if table.busy:  # every instance may be in use by the packets that this one came out of
            out.append("if (SL_LIKELY(inst)) {")
            out += ["    " + line for line in stored]
            out += ["} else {", *("    " + line for line in self._unstored()), "}"]
        else:
            out += stored
        out.append(f"inst->swapped = {'flip' if table.oriented else '0'};")
        return out + self._begin(stored_instance=True)

    def _begin(self, stored_instance: bool) -> list[str]:
        table = self.table
        assert table is not None
        own = dict(self.layer.instance.fields) if self.layer.instance is not None else {}
        out: list[str] = []
        for reg, init in table.fields:
            out.append(f"{place(reg)} = {number(own.get(reg, init))};")
        for side in range(table.sides):
            out.append(f"sl_sequence_reset(&inst->sequence[{side}], &rules_{self.word});")
            if table.messages:
                out.append(f"sl_messages_reset(&inst->messages[{side}]);")
        if stored_instance:
            for name in self.states():
                out.append(f"memset(&inst->{name}_state, 0, sizeof inst->{name}_state);")
        return out

    def states(self) -> list[str]:
        """Functions that keep something in instances of the layer's table."""
        assert self.table is not None
        return function_states(self.table, self.names.functions)

    def _fresh(self, _: ir.Instruction) -> list[str]:
        return [*self._unstored(), "inst->swapped = 0;", *self._begin(stored_instance=False)]

    def _unstored(self) -> list[str]:
        """An instance that only this packet knows."""
        out = ["inst = &fresh_instance;", "inst->head.slot = SL_SLOT_FRESH;", "inst->head.deadline = SL_NEVER;"]
        return [*out, "inst->number = 0;"]

    def _destroy(self, _: ir.Instruction) -> list[str]:
        table = self.table
        assert table is not None
        out = [f"sl_sequence_clear(&inst->sequence[{side}], &rules_{self.word}, &box->base.pool);" for side in range(table.sides)]
        if table.messages:
            out += [f"sl_messages_drop(&inst->messages[{side}], &box->base.pool);" for side in range(table.sides)]
        reasons = [self.names.counters.index(self.layer.name, f"ended:{reason}") for reason in END_REASONS]
        first = reasons[0]
        assert reasons == list(range(first, first + len(reasons)))
        remove = [f"box->base.counters[{first} + reason]++;", f"sl_table_remove(&box->{table.variable}, &inst->head);"]
        if not self.may_be_fresh:
            return out + remove
        return [*out, "if (inst->head.slot != SL_SLOT_FRESH) {", *("    " + line for line in remove), "}"]

    def _end_inst(self, i: ir.EndInst) -> list[str]:
        assert self.table is not None
        why = f"{i.reason});   /* {END_REASONS[i.reason]} */"
        if self.table.shared:  # another layer may have used it last
            return [f"end_instance_{identifier(self.table.name)}(box, inst, fresh, {why}", "inst = NULL;"]
        return [f"end_{self.word}(box, inst, fresh, (sl_bytes){{0}}, {why}", "inst = NULL;"]

    def _touch(self, i: ir.Touch) -> list[str]:
        base = self.names.timeouts[self.layer.name]
        index = f"{base} + {emit(i.timeout)}" if i.timeout != ZERO else str(base)
        return [f"inst->head.deadline = sl_deadline(&box->base, {index});"]

    def _swap(self, i: ir.SwapSides) -> list[str]:
        return ["inst->swapped ^= 1;", f"{variable(i.target)} = {emit(i.side)} ^ 1;"]

    # sequence

    def _seq(self, side: Expr) -> str:
        assert self.table is not None
        return f"&inst->sequence[{emit(side) if self.table.sides > 1 else '0'}]"

    def _fresh_of(self, side: Expr) -> str:
        assert self.table is not None
        return f"&fresh[{emit(side) if self.table.sides > 1 else '0'}]"

    @property
    def _rules(self) -> str:
        return f"&rules_{self.word}"

    def _in_window(self, i: ir.InWindow) -> list[str]:
        arguments = ", ".join(emit(item) for item in (i.meta, i.length, i.low, i.high))
        return [f"{variable(i.target)} = sl_sequence_in_window({self._rules}, {arguments});"]

    def _begin_seq(self, i: ir.BeginSeq) -> list[str]:
        return [f"sl_sequence_begin({self._seq(i.side)}, {self._rules}, &box->base.pool, {emit(i.meta)}, {emit(i.anew)});"]

    def _place(self, i: ir.PlaceSeq) -> list[str]:
        return [f"{variable(i.target)} = sl_sequence_position({self._seq(i.side)}, {self._rules}, {emit(i.meta)});"]

    def _in_order(self, i: ir.InOrder) -> list[str]:
        seq = self._seq(i.side)[1:]
        return [f"{variable(i.target)} = !{seq}.based || !sl_position_before({seq}.next, {emit(i.position)});"]

    def _overlap(self, i: ir.OverlapSeq) -> list[str]:
        out = [
            "struct sl_overlap overlap;",
            f"{variable(i.cursor)} = {emit(i.last)};" if emit(i.last) != variable(i.cursor) else "",
            f"{variable(i.more)} = sl_sequence_overlap({self._seq(i.side)}, {self._rules}, {emit(i.position)}, {emit(i.data)}, "
            f"&{variable(i.cursor)}, &overlap);",
            f"if ({variable(i.more)}) {{",
            f"    {variable(i.offset)} = overlap.offset;",
            f"    {variable(i.length)} = overlap.length;",
            f"    {variable(i.new)} = overlap.fresh;",
            f"    {variable(i.old)} = overlap.old;",
            "}",
        ]
        return ["{", *("    " + line for line in out if line), "}"]

    def _room(self, i: ir.RoomSeq) -> list[str]:
        arguments = f"{self._seq(i.side)}, {self._rules}, &box->base.pool, {emit(i.position)}, {emit(i.data)}"
        return [f"{variable(i.target)} = sl_sequence_room({arguments});"]

    def _full(self, i: ir.FullSeq) -> list[str]:
        arguments = f"{self._seq(i.side)}, {self._rules}, {emit(i.position)}"
        return [f"{variable(i.target)} = sl_sequence_full({arguments});"]

    def _insert(self, i: ir.InsertSeq) -> list[str]:
        arguments = (
            f"{self._seq(i.side)}, {self._rules}, &box->base.pool, {self._fresh_of(i.side)}, {emit(i.position)}, "
            f"{emit(i.data)}, {emit(i.units)}"
        )
        return [f"if (SL_UNLIKELY(!sl_sequence_insert({arguments})))", "    " + self._count("no memory")]

    def _cut(self, i: ir.CutSeq) -> list[str]:
        return [f"{variable(i.target)} = sl_sequence_cut({self._seq(i.side)});"]

    def _waiting(self, i: ir.WaitingSeq) -> list[str]:
        return [f"{variable(i.target)} = sl_sequence_waiting({self._seq(i.side)}, {self._fresh_of(i.side)});"]

    def _assemble(self, i: ir.Assemble) -> list[str]:
        arguments = f"{self._seq(i.side)}, {self._rules}, &box->base.pool, {self._fresh_of(i.side)}, &box->base.scratch, &{variable(i.offset)}"
        return [f"{variable(i.target)} = sl_sequence_assemble({arguments});"]

    def _give_up(self, i: ir.GiveUpSeq) -> list[str]:
        out = [
            "struct sl_gap gap = {0, 0, false};",
            f"{variable(i.more)} = sl_sequence_give_up({self._seq(i.side)}, {self._rules}, &box->base.pool, &gap);",
            f"{variable(i.offset)} = gap.offset;",
            f"{variable(i.length)} = gap.length;",
            f"{variable(i.cut)} = gap.cut;",
        ]
        return ["{", *("    " + line for line in out), "}"]

    def _record(self, i: ir.RecordSeq) -> list[str]:
        values = ", ".join(emit(value) for value in i.values)
        return [
            f"if (!sl_sequence_record({self._seq(i.side)}, {self._rules}, &box->base.pool, {emit(i.position)}, "
            f"(const uint64_t[]){{{values}}}))",
            "    " + self._count("no memory"),
        ]

    def _release(self, i: ir.ReleaseSeq) -> list[str]:
        out = [
            f"uint64_t words[{max(1, len(i.values))}];",
            f"{variable(i.more)} = sl_sequence_release({self._seq(i.side)}, {self._rules}, &box->base.pool, words);",
            f"if ({variable(i.more)}) {{",
            *(f"    {variable(reg)} = words[{n}];" for n, reg in enumerate(i.values)),
            "}",
        ]
        return ["{", *("    " + line for line in out), "}"]

    def _settle(self, i: ir.SettleSeq) -> list[str]:
        return [
            f"if (SL_UNLIKELY(!sl_sequence_settle({self._seq(i.side)}, {self._rules}, &box->base.pool, {self._fresh_of(i.side)})))",
            "    " + self._count("no memory"),
        ]

    def _drain(self, i: ir.Drain) -> list[str]:
        arguments = f"box, inst, fresh, (sl_bytes){{0}}, {emit(i.side)}, {emit(i.cause)}, {i.all}"
        return [f"{variable(i.progress)} = drain_{self.word}({arguments});"]

    # outside

    def _instance_pointer(self) -> str:
        if self.table is None or self._kind in ("frame", "lost"):
            return "NULL"
        return "inst->head.slot == SL_SLOT_FRESH ? NULL : &inst->head" if self.may_be_fresh else "&inst->head"

    def _call(self, i: ir.Call) -> list[str]:
        layer, shape = self.layer, self.layer.events[i.event]
        calls: list[str] = []
        for function in self.names.functions.c:
            for hook in function.hooks:
                if listens(hook, layer.name, layer.layer, layer.prototype, i.event):
                    who = "any" if hook.layer == "*" else hook.layer
                    calls.append(f"{function.name}_{who}_{i.event}(&event, &data);")
        if any(listens(h, layer.name, layer.layer, layer.prototype, i.event) for h in self.names.functions.python):
            if (layer.name, i.event) not in self.names.events:
                self.names.events.append((layer.name, i.event))
            calls.append(f"record_{self.word}_{identifier(i.event)}(box, &event, &data);")
        if shape.callback and self.names.weak:
            calls.append(f"{callback_name(self.names.program, layer, i.event)}(&data);")
        if not calls:
            return []
        values: list[str] = []
        for value, (_, bits) in zip(i.values, shape.fields, strict=True):
            values.append(emit(value) if bits in (0, 64) else f"(uint{8 * _size(bits)}_t)({emit(value)})")
        struct = f"struct {shape.callback}" if shape.callback else f"struct sl_on_{i.event}"
        out = [
            f"struct sl_event event = {{&box->base, &layers[{self.index}], {self._instance_pointer()}, (uint32_t){_tight(emit(i.side))}}};",
            f"{struct} data = {{{', '.join(values) or '0'}}};",
            *calls,
        ]
        return ["{", *("    " + line for line in out), "}"]

    def _next_layer(self, i: ir.NextLayer) -> list[str]:
        call = f"layer_{identifier(i.layer)}(box, {emit(i.sdu)});"
        # also where layers lie in no loop: instances that end on the way nest further
        deep = self.names.counters.add("box", "too deep")
        return [f"if (SL_LIKELY(box->base.depth < {self.names.program.depth}))", "    " + call, "else", "    " + deep]

    def _next_messages(self, i: ir.NextMessages) -> list[str]:
        return [f"messages_{identifier(i.layer)}(box, {self._messages_of(i.side)}, {emit(i.sdu)});"]

    def _lose_messages(self, i: ir.LoseMessages) -> list[str]:
        return [f"sl_messages_lose({self._messages_of(i.side)}, &box->base.pool, SL_LOSS_GAP);"]

    def _messages_of(self, side: Expr) -> str:
        assert self.table is not None
        return f"&inst->messages[{emit(side) if self.table.sides > 1 else '0'}]"

    def _counter(self, i: ir.Count) -> list[str]:
        return [self._count(i.counter)]


def _tight(text: str) -> str:
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def _size(bits: int) -> int:
    from sluice.codegen.names import storage

    return storage(bits)


def _chunks(items: list[str], size: int) -> list[list[str]]:
    return [items[at : at + size] for at in range(0, len(items), size)]


def function_states(table: Table, functions: Functions) -> list[str]:
    """Names of the functions that keep something in the instances of a table."""
    found: list[str] = []
    for function in functions.c:
        if function.state and any(
            hook.layer in ("*", layer.name, layer.layer, layer.prototype) for hook in function.hooks for layer in table.layers
        ):
            found.append(function.name)
    return found


def callback_name(program: Program, layer: LayerProgram, event: str) -> str:
    """The C function that the user may define for an event: its name alone where that is enough (as in the paper)."""
    same = {other.layer for other in program.layers.values() if event in other.events and other.events[event].callback}
    return identifier(event) if len(same) == 1 else identifier(f"{layer.layer}_{event}")


_WRITERS = {
    ir.Load: LayerWriter._load,
    ir.LoadBytes: LayerWriter._load_bytes,
    ir.Mark: LayerWriter._mark,
    ir.Payload: LayerWriter._payload,
    ir.Assign: LayerWriter._assign,
    ir.Lookup: LayerWriter._lookup,
    ir.CreateInst: LayerWriter._create,
    ir.FreshInst: LayerWriter._fresh,
    ir.DestroyInst: LayerWriter._destroy,
    ir.EndInst: LayerWriter._end_inst,
    ir.Touch: LayerWriter._touch,
    ir.SwapSides: LayerWriter._swap,
    ir.InWindow: LayerWriter._in_window,
    ir.BeginSeq: LayerWriter._begin_seq,
    ir.PlaceSeq: LayerWriter._place,
    ir.InOrder: LayerWriter._in_order,
    ir.OverlapSeq: LayerWriter._overlap,
    ir.RoomSeq: LayerWriter._room,
    ir.FullSeq: LayerWriter._full,
    ir.InsertSeq: LayerWriter._insert,
    ir.CutSeq: LayerWriter._cut,
    ir.WaitingSeq: LayerWriter._waiting,
    ir.Assemble: LayerWriter._assemble,
    ir.GiveUpSeq: LayerWriter._give_up,
    ir.RecordSeq: LayerWriter._record,
    ir.ReleaseSeq: LayerWriter._release,
    ir.SettleSeq: LayerWriter._settle,
    ir.Drain: LayerWriter._drain,
    ir.Call: LayerWriter._call,
    ir.NextLayer: LayerWriter._next_layer,
    ir.NextMessages: LayerWriter._next_messages,
    ir.LoseMessages: LayerWriter._lose_messages,
    ir.Count: LayerWriter._counter,
}

__all__ = ["Counters", "LayerWriter", "Reg", "StackNames", "callback_name", "function_states"]
