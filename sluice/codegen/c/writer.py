"""The C functions of one layer: everything around the instructions, which the modules in layer/ write.

A module that writes instructions registers a writer for each kind with `writes`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import chain, count
from typing import Any, TypeVar

from sluice.codegen.burst.stages import (
    CURRENT,
    PASSED_MAX,
    UNIT,
    copied_units,
    deferred_in_series,
    ends_templates,
    fast_enter_of,
    forward_to,
    has_one_path,
    main_head,
    needs_no_path,
    otherwise_head,
    series_of,
    stay_on_fast_path,
    waits_without_path,
)
from sluice.codegen.c.control_flow import Structure
from sluice.codegen.c.expressions import as_arguments, assigned, emit, inside, negated, place, stored
from sluice.codegen.c.heads import HEADS
from sluice.codegen.c.names import comment, identifier, variable
from sluice.codegen.c.statements import Condition
from sluice.codegen.events.control import controls_stream
from sluice.codegen.layer.packet_data import GIVEN, Direct
from sluice.codegen.stack_names import StackNames
from sluice.hooks.c_words import C_WORDS
from sluice.ir import instruction as ir
from sluice.ir.expression import COMPARISONS, STORED, ZERO, Binary, Const, Expr, Reg, is_bytes
from sluice.ir.graph import Block, Graph, LayerProgram
from sluice.ir.graph_kinds import DEFERRED, END, LOOKAHEAD, LOST, MAIN, STATELESS, TEMPLATE
from sluice.lower.scope import SIDE
from sluice.passes.analysis.fast_path import counted_per_burst, is_path_implicit, lead, templates
from sluice.passes.analysis.header_size import header_of, knows_bytes
from sluice.passes.prediction import RARE

WIDTH = 140
"""Characters of a line of declarations."""


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
        # Whether an instance that ends before the packet gets another one has the packet's key and is stored in the
        # table: it was not found by an alias, and it was not created for this packet only. Then packets that find an
        # instance need not load its hash.
        by_alias = any(isinstance(i, ir.FindAlias) for graph in layer.graphs() for i in graph.instructions())
        self.same_key = not by_alias and not self.may_be_fresh
        self.controls_stream = self.table is not None and controls_stream(self.table, names.functions, layer)
        self.needs_no_path = needs_no_path(layer, names)
        self.in_series = series_of(names) is layer
        self.is_deferred_in_series = deferred_in_series(names) is layer
        # The main graph does not store that the packet is in the layer: its caller does, or nothing reads it.
        self.caller_stores_path = self.needs_no_path or has_one_path(layer, names)
        self.in_place = False  # whether the instruction ends an instance that is replaced, or creates its replacement
        self._line = ""

    def prototypes(self) -> list[str]:
        """Declarations of the layer's functions."""
        # unused if passes found that no packet reaches the layer
        out = [f"SL_UNUSED {main_head(self.layer)};"]
        if self.in_series:
            out.append(self._head(MAIN) + ";")
        out += [self._head(kind) + ";" for kind, _ in self.layer.graphs_by_kind() if kind != MAIN]
        if self.layer.template is not None:
            out.append(f"{otherwise_head(self.word)};")
        if self.is_deferred_in_series:
            out.append(self._deferred_head() + ";")
        if self.layer.frame is not None:
            out += [head + ";" for head in messages_heads(self.word) if self.layer.of_streams]
            out += [packet_head(self.word) + ";"] if self.layer.of_packets else []
        return out

    def _head(self, kind: str) -> str:
        """The head of the C function of the layer's graph of a kind."""
        if kind == MAIN:
            series = f"SL_INLINED void main_{self.word}({HEADS[MAIN].parameters})"
            return series if self.in_series else main_head(self.layer)
        head = HEADS[kind]
        instance = self.table.struct if self.table is not None else ""
        return f"{self._storage(kind)} {head.result} {kind}_{self.word}({head.parameters.format(instance=instance)})"

    def _storage(self, kind: str) -> str:
        """The storage class of the function of a graph."""
        if kind == STATELESS and self.layer.template is not None:
            return "SL_COLD"  # only the few packets that do not match the template take it
        if kind == LOOKAHEAD:
            # nearly every packet's lookup is prefetched at the end of the fast path
            ends = ends_templates(self.layer, self.names.program) or has_one_path(self.layer, self.names)
            return "SL_INLINED" if ends else "SL_UNUSED static"
        return HEADS[kind].storage

    def _deferred_head(self) -> str:
        return f"SL_INLINED void deferred_work_{self.word}(struct sl_stack_box *box)"

    def functions(self) -> list[str]:
        """The layer's functions."""
        out: list[str] = []
        for kind, graph in self.layer.graphs_by_kind():
            if kind == DEFERRED and self.is_deferred_in_series:
                out += self._deferred_functions(graph)
            elif kind != MAIN:
                out += self._function(graph, self._head(kind), kind)
        return out + self._function(self.layer.main, self._head(MAIN), MAIN)

    def _deferred_functions(self, graph: Graph) -> list[str]:
        """The functions for a layer's deferred work and the rest of stage 2, which are separate in a series."""
        return [
            *self._function(graph, self._deferred_head(), DEFERRED),
            "",
            self._head(DEFERRED),
            "{",
            f"    deferred_work_{self.word}(box);",
            f"    {CURRENT}.then(box, at, captured, length);",
            "}",
        ]

    def _function(self, graph: Graph, head: str, kind: str) -> list[str]:
        self.kind = kind
        self._line = ""
        self._more = self._header_after() if kind == TEMPLATE else 0
        has_own = HEADS[kind].finds and self.table is not None and bool(self.table.sides)
        self._direct = Direct(graph) if has_own else None
        self.direct = GIVEN
        labels: dict[str, str] = {}
        taken: set[str] = set(C_WORDS)

        def label(name: str) -> str:
            if name not in labels:
                word = identifier(name)
                words = chain([word], (f"{word}_{number}" for number in count(2)))
                labels[name] = next(word for word in words if word not in taken)
                taken.add(labels[name])
            return labels[name]

        lines = Structure(graph, self._block, self._branches, self._finish, label, _case, self._chosen).lines()
        if lines and lines[-1].level == 1 and lines[-1].text == "return;":
            lines.pop()
        body = self._counted(kind) + ["    " * line.level + line.text for line in lines]
        used = {word for line in body for word in _WORD.findall(line)}
        out = ["", head, "{"]
        if kind == DEFERRED:
            out.append("    const struct sl_pending *waiting = &box->waiting[box->base.lookahead.packet];")
            out += [f"    const uint64_t {variable(reg)} = {self._carried(reg)};" for reg in graph.parameters]
            if self.names.functions.needs_path:  # for functions that read the path when an instance ends
                out.append("    box->base.depth = waiting->deferred_depth;")
                out.append("    memcpy(box->base.path, waiting->path, sizeof waiting->path);")
                out += copied_units(self.names)
        elif UNIT in head:
            out.append("    SL_UNUSED sl_bytes unit = {at, captured, length};")
        if (slots := HEADS[kind].slots) and "slots" in used:
            out.append(f"    SL_UNUSED struct sl_slots *const slots = {slots};")
        out += ["    " + text for text in self._locals(graph, used)]
        if kind == END:
            out.append("    SL_UNUSED uint64_t stored = inst->head.slot != SL_SLOT_FRESH;")
        if kind in (MAIN, LOST) and SIDE in graph.parameters and "side" in used:
            out.append("    SL_UNUSED uint64_t side = stream.side;")
        return [*out, *body, "}"]

    def _counted(self, kind: str) -> list[str]:
        """Statements before those of the graph: they count the packet, and note its path."""
        if kind == STATELESS:
            wait = ["        " + text for text in self._wait()]
            return [f"    if (depth >= {min(PASSED_MAX, self.names.program.depth - 1)}) {{", *wait, "    }"]
        if kind != MAIN:
            return []
        out: list[str] = []
        if not self.caller_stores_path:
            if self.names.functions.needs_units:
                out.append("    box->base.units[box->base.depth] = unit;")
            out.append(f"    box->base.path[box->base.depth++] = {self.index};")
        packets = "    " + self.count("packets")  # gets its number here, even if a series counts its packets
        out += [] if self.in_series else [packets]
        return [*out, "    " + self.count("bytes", "unit.length")]

    def _locals(self, graph: Graph, used: set[str]) -> list[str]:
        """Declarations of the variables of a graph. used: the words of its text."""
        parameters = {reg.name for reg in graph.parameters}
        numbers: list[str] = []
        slices: list[str] = []
        for reg in graph.registers().values():
            if reg.name in parameters or reg.space in (*STORED, "slot") or variable(reg) not in used:
                continue
            (slices if reg.is_bytes else numbers).append(variable(reg))
        # unused: some are never read if the pass that removes dead code is off
        out = _declared("SL_UNUSED uint64_t", [f"{name} = 0" for name in sorted(numbers)])
        out += _declared("SL_UNUSED sl_bytes", [f"{name} = {{0}}" for name in sorted(slices)])
        if self.table is not None and HEADS[self.kind].finds:
            out.append(f"{self.table.struct} *inst = NULL;")
            out.append(f"uint64_t key[{self.table.words}];")
            out.append("uint32_t hash;")
            if self.table.oriented:
                out.append("bool flip;")
            if self.may_be_fresh:
                out.append(f"{self.table.struct} fresh_instance;")
                if self.table.messages:
                    out.append(f"struct sl_messages fresh_messages[{self.table.sides}];")
            if self.table.sides:
                out.append("struct sl_packet_data direct[2];")
                out += self._direct.at_entry() if self._direct is not None else []
            else:
                out.append("SL_UNUSED struct sl_packet_data *const direct = NULL;")
        return out

    def _block(self, block: Block) -> list[str]:
        out: list[str] = []
        for at, instruction in enumerate(block.body):
            if self._direct is not None:
                self.direct = self._direct.argument(block, at)
            self.in_place = self.same_key and _begins_in_place(block.body, at)
            lines = WRITERS[type(instruction)](self, instruction)
            if lines:
                lines[0] += self._note(instruction)
            out += lines
        return out

    def _note(self, instruction: ir.Instruction) -> str:
        """A comment with the line of the description, if it differs from that of the previous statement."""
        where = instruction.where.short if instruction.where.line else ""
        if not where or where == self._line:
            return ""
        self._line = where
        return f"   /* {comment(where)} */"

    def count(self, name: str, amount: str = "") -> str:
        return self.names.counters.add(self.layer.name, name, amount)

    def _branches(self, terminator: ir.Terminator) -> list[tuple[Condition | None, str]]:
        note = self._note(terminator)
        match terminator:
            case ir.Goto(to):
                return [(None, to)]
            case ir.Branch(condition, yes, no):
                tested = Condition(emit(condition), negated(condition), note, rare=condition == RARE)
                return [(tested, yes), (None, no)]
            case ir.Check(mark, size, yes, cut, short) if cut == short:
                if self._more and isinstance(size, Const):
                    size, self._more = Const(size.value + self._more), 0
                return [(_likely(self._fits(mark, size, "captured"), note), yes), (None, short)]
            case ir.Check(mark, size, yes, cut, short):
                wire = self._fits(mark, size, "length")
                there = _likely(self._fits(mark, size, "captured"), note)
                return [(there, yes), (Condition(wire, f"!({wire})"), cut), (None, short)]
            case ir.CheckWire(mark, size, yes, short):
                return [(_likely(self._fits(mark, size, "length"), note), yes), (None, short)]
            case _:
                raise AssertionError(terminator)

    def _chosen(self, terminator: ir.Terminator, then: Block) -> str | None:
        """`if (f < x) f = x`, which stores a maximum, as `f = f < x ? x : f`.

        No processor predicts whether the number is higher. C compilers do not make this change, because they do not
        write a field where the program does not.
        """
        match terminator, then.body:
            case ir.Branch(Binary(operator, left, right) as condition), [ir.Assign(target, value) as assign] if (
                operator in COMPARISONS
                and target.space in ("perm", "own", "other")
                and {left, right} == {target, value}
            ):
                chosen = f"{emit(condition)} ? {assigned(assign)} : {place(target)}"
                return f"{place(target)} = {chosen};{self._note(terminator)}"
            case _:
                return None

    def _fits(self, mark: Expr, size: Expr, measure: str) -> str:
        """The condition that `size` bytes after `mark` are captured, or on the wire (`measure`).

        A size from a packet may be any number.
        """
        if isinstance(size, Const) and size.value < 1 << 31:
            return f"{emit(size if mark == ZERO else Binary('+', mark, size))} <= unit.{measure}"
        if mark == ZERO:
            return f"{inside(size, 8)} <= unit.{measure}"
        return f"{emit(mark)} <= unit.{measure} && {inside(size, 8)} <= unit.{measure} - {inside(mark, 10)}"

    def _left(self, outcome: str, terminator: ir.Terminator) -> list[str]:
        """Statements that count a packet that has passed the layer by its stateless graph or template."""
        counters = self.names.counters
        packets, bytes_ = (counters.index(self.layer.name, name) for name in ("packets", "bytes"))
        assert bytes_ == packets + 1
        left = f"count_packet(box, {packets}, {counters.index(self.layer.name, outcome)}, unit.length);"
        return [f"{left:<42} /* {comment(f'{self.layer.name}: {outcome}')} */{self._note(terminator)}"]

    def _header_after(self) -> int:
        """The bytes of the header that the next template reads.

        The first length check of this template includes them, so that the C compiler knows that they are there. A
        packet without them does not match this template, just as it would not match the next one.
        """
        next_stage = self.names.program.layers[lead(self.layer).layer].template
        return header_of(next_stage) if next_stage is not None else 0

    def _lead(self, terminator: ir.NextStateless, layer: LayerProgram) -> list[str]:
        """Statements by which a template forwards a packet to `layer`."""
        program = self.names.program
        left = self._left(terminator.outcome, terminator)
        if self.layer in (at_once := counted_per_burst(program)):
            bytes_too = knows_bytes(program, at_once.index(self.layer))
            left = [] if bytes_too else [self.count("bytes", "unit.length") + self._note(terminator)]
        path, otherwise = [f"waiting->path[depth] = {self.index};"], list[str]()
        if is_path_implicit(program):
            below = [item.name for item in templates(program)]
            below = below[: below.index(self.layer.name) + 1]
            stored = [f"waiting->path[{at}] = {list(program.layers).index(name)};" for at, name in enumerate(below)]
            off_fast_path = (
                layer.template is not None or waits_without_path(layer, self.names) or has_one_path(layer, self.names)
            )
            path, otherwise = ([], stored) if off_fast_path else (stored, [])
        if has_one_path(layer, self.names):
            on = as_arguments(
                terminator.sdu, lambda sdu: f"wait_{fast_enter_of(layer)}(box, waiting, {sdu}, depth + 1);"
            )
        else:
            on = as_arguments(terminator.sdu, lambda sdu: stay_on_fast_path(layer, sdu, "depth + 1", otherwise))
        if isinstance(terminator, ir.NextDeferring):
            on = self._defer(terminator, on)
        return [*left, *self._stored_unit(), *path, *on]

    def _stored_unit(self) -> list[str]:
        """Statements that store the unit of a layer that an arriving packet passes, if a function reads units."""
        return ["waiting->units[depth] = unit;"] if self.names.functions.needs_units else []

    def _wait(self) -> list[str]:
        """Statements that make a packet pending for the main graph of the layer."""
        return [f"wait_{self.word}(box, waiting, at, captured, length, depth);", "return;"]

    def _defer(self, terminator: ir.NextDeferring, on: list[str]) -> list[str]:
        """Statements that forward a packet by `on`, and defer the layer's graph `deferred` to stage 2.

        The operands of this graph are stored first, with the values that they have before the packet is forwarded.
        """
        assert self.layer.deferred is not None
        carried = zip(self.layer.deferred.parameters, terminator.carried, strict=True)
        return [
            *(f"{self._carried(reg)} = {stored(value, reg.bits)};" for reg, value in carried),
            *on,
            *(["waiting->deferred_depth = depth + 1;"] if self.names.functions.needs_path else []),
            "waiting->then = waiting->layer;",
            f"waiting->layer = deferred_{self.word};",
        ]

    def _carried(self, reg: Reg) -> str:
        """The member of the pending state that stores an operand of the layer's deferred graph."""
        return f"waiting->carried.of_{self.word}.{variable(reg)}"

    def _finish(self, terminator: ir.Terminator) -> list[str]:
        match terminator:
            case ir.End(outcome) if self.kind == STATELESS:
                return [*self._left(outcome, terminator), "return;"]
            case ir.NextStateless(outcome, name, sdu):
                layer = self.names.program.layers[name]
                if self.kind == TEMPLATE:
                    return [*self._lead(terminator, layer), "return true;"]
                path = f"waiting->path[depth] = {self.index};"
                on = as_arguments(sdu, lambda sdu: forward_to(layer, sdu, "depth + 1"))
                if isinstance(terminator, ir.NextDeferring):
                    on = self._defer(terminator, on)
                return [*self._left(outcome, terminator), *self._stored_unit(), path, *on, "return;"]
            case ir.End(outcome):
                leave = [] if self.caller_stores_path else ["box->base.depth--;"]
                return [self.count(outcome) + self._note(terminator), *leave, "return;"]
            case ir.Again(unit):
                again = as_arguments(unit, lambda unit: f"layer_{self.word}(box, {unit});")
                uncounted = [
                    self.count("packets").replace("++", "--"),
                    self.count("bytes", "unit.length").replace("+=", "-="),
                ]
                leave = [] if self.caller_stores_path else ["box->base.depth--;"]
                return [*uncounted, *leave, *again, "return;"]
            case ir.Dispatch(key, reverse):
                return [f"return {key_hash(key, reverse)};"]
            case ir.NextDispatch(name, sdu):
                on = as_arguments(
                    sdu, lambda sdu: f"return dispatch_{identifier(name)}(slots, secret, {sdu}, depth + 1);"
                )
                return [f"if (depth + 1 >= {self.names.program.depth})", "    return 0;", *on]
            case ir.NextPath(name, sdu):
                on = as_arguments(sdu, lambda sdu: f"path_{identifier(name)}(slots, secret, keys, {sdu}, depth + 1);")
                return [f"if (depth + 1 >= {self.names.program.depth})", "    return;", *on, "return;"]
            case ir.Return() if self.kind == STATELESS:
                return self._wait()
            case ir.Return() if self.kind == DEFERRED and not self.is_deferred_in_series:
                return ["waiting->then(box, at, captured, length);", "return;"]
            case ir.Return(result):
                return [HEADS[self.kind].leave.format(emit(result))]
            case _:
                return []


def _likely(condition: str, note: str) -> Condition:
    """A condition that holds for nearly every packet."""
    return Condition(f"SL_LIKELY({condition})", f"!SL_LIKELY({condition})", note)


def _case(terminator: ir.Terminator) -> tuple[str, str] | None:
    """The C of the number and of the constant, for a terminator that tests for a single constant; else None."""
    match terminator:
        case ir.Branch(Binary("==", Reg() as asked, Const(value)), _, _) if not asked.is_bytes:
            return emit(asked), emit(Const(value))
        case _:
            return None


def key_hash(key: tuple[Expr, ...], reverse: tuple[Expr, ...]) -> str:
    """The hash of a key, which is the same in either order of its halves."""
    return " + ".join(_hashed(half) for half in (key, reverse) if half) or "0"


def _hashed(half: tuple[Expr, ...]) -> str:
    """The hash of one half of the key that selects the worker of a packet."""
    text = "secret"
    for part in half:
        text = f"sl_dispatch_{'bytes' if is_bytes(part) else 'number'}({text}, secret, {emit(part)})"
    return text


def messages_heads(word: str) -> list[str]:
    """Heads of the functions that cut a stream into messages for a layer, and that end it."""
    box = "struct sl_stack_box *box, struct sl_stream stream, struct sl_messages *messages"
    return [
        f"static void messages_{word}({box}, uint64_t offset, sl_bytes sdu)",
        f"SL_COLD void close_{word}({box})",
    ]


def packet_head(word: str) -> str:
    """Head of the function that cuts a packet into messages for a layer."""
    return f"SL_UNUSED static void cut_{word}(struct sl_stack_box *box, struct sl_stream stream, sl_bytes sdu)"


_Writer = TypeVar("_Writer", bound=Callable[..., list[str]])

WRITERS: dict[type[ir.Instruction], Callable[[LayerWriter, Any], list[str]]] = {}
"""By kind of instruction, the function that gives its C, line by line."""


def writes(kind: type[ir.Instruction]) -> Callable[[_Writer], _Writer]:
    """Register the decorated function as the writer of the instructions of this kind."""

    def register(function: _Writer) -> _Writer:
        WRITERS[kind] = function
        return function

    return register


_WORD = re.compile(r"[A-Za-z_]\w*")


def _declared(kind: str, variables: list[str]) -> list[str]:
    """Declarations of variables, as many on a line as fit."""
    out: list[str] = []
    for name in variables:
        if out and len(out[-1]) + len(name) < WIDTH:
            out[-1] = f"{out[-1][:-1]}, {name};"
        else:
            out.append(f"{kind} {name};")
    return out


def _begins_in_place(body: list[ir.Instruction], at: int) -> bool:
    """Whether an instruction ends an instance that the next one replaces, or creates this replacement."""
    pair = body[at : at + 2] if isinstance(body[at], ir.EndInst) else body[max(at - 1, 0) : at + 1]
    return [type(instruction) for instruction in pair] == [ir.EndInst, ir.CreateInst]
