"""Metadata: constant tables that describe layers to functions."""

from __future__ import annotations

from sluice.codegen.c.names import boolean, c_string, identifier, member, storage
from sluice.codegen.events.control import is_controlled
from sluice.codegen.events.functions import function_states, is_on_demand
from sluice.codegen.events.timers import timer_offsets
from sluice.codegen.layer.instance_layout import Table
from sluice.codegen.stack_names import StackNames
from sluice.ir.expression import Reg
from sluice.ir.graph import LayerProgram


def information(names: StackNames) -> list[str]:
    """The table of layers, and the tables that it points to."""
    out = ["", "/* --- metadata of layers for functions --- */", ""]
    rows: list[str] = []
    for index, layer in enumerate(names.program.layers.values()):
        word = identifier(layer.name)
        members = [
            f".name = {c_string(layer.name)}, .layer = {c_string(layer.layer)}, .prototype = "
            f"{c_string(layer.prototype)}, .index = {index}"
        ]
        reasons = layer.events["malformed"].reasons if "malformed" in layer.events else ()
        if reasons:
            text = ", ".join(map(c_string, reasons))
            out.append(f"static const char *const malformed_{word}[] = {{{text}}};")
            members.append(f".malformed = malformed_{word}")
        if layer.instance is not None:
            table = names.tables[layer.instance.table]
            out += _parts(names, layer, table)
            members += _instance(names, layer, table)
        rows += [f"    {{{members[0]}}},"] if len(members) == 1 else _rows(members)
    return [*out, "static const struct sl_layer_info layers[] = {", *rows, "};"]


def _rows(members: list[str]) -> list[str]:
    return ["    {", *(f"        {member}," for member in members), "    },"]


def _parts(names: StackNames, layer: LayerProgram, table: Table) -> list[str]:
    """The tables of a layer with instances."""
    word = identifier(layer.name)
    parts = ", ".join(f'{{"{p.part.name}", {p.part.bits}, {p.word}, {p.shift}}}' for p in table.parts)
    out = [f"static const struct sl_key_part key_{word}[] = {{{parts}}};"]
    if fields := _fields(table):
        text = (f'    {{"{reg.name.partition(".")[2]}", {_place(table, reg)}}},' for reg in fields)
        out += [f"static const struct sl_field_info fields_{word}[] = {{", *text, "};"]
    if layer.states:
        text = ", ".join(f'{{"{s.name}", {boolean(s.accept)}, {boolean(s.closed)}}}' for s in layer.states)
        out.append(f"static const struct sl_state_info states_{word}[] = {{{text}}};")
    if names.functions.c:
        kept = function_states(table, names.functions)
        offsets = [
            f"offsetof({table.struct}, {f.name}_state)" if f.name in kept and not f.beside else "0"
            for f in names.functions.c
        ]
        out.append(f"static const uint32_t functions_{word}[] = {{{', '.join(offsets)}}};")
    if offsets := timer_offsets(table, names.functions):
        out.append(f"static const uint32_t timers_{word}[] = {{{', '.join(offsets)}}};")
    return out


def _fields(table: Table) -> list[Reg]:
    return [reg for reg, _ in table.fields if reg.space == "perm"]


def _instance(names: StackNames, layer: LayerProgram, table: Table) -> list[str]:
    """The members of struct sl_layer_info that are about instances. Those that are 0 or NULL are left out."""
    word, struct, functions = identifier(layer.name), table.struct, names.functions
    key = f".half_words = {table.half}, .key_parts = {len(table.parts)}, .key_part = key_{word}"
    out = [(".oriented = true, " if table.oriented else "") + key]
    if fields := _fields(table):
        out.append(f".fields = {len(fields)}, .field = fields_{word}")
    if layer.states:
        states = f".states = {len(layer.states)}, .state = states_{word}"
        out.append(f"{states}, .state_offset = offsetof({struct}, inst_state)")
    out.append(f".number_offset = offsetof({struct}, number), .swapped_offset = offsetof({struct}, swapped)")
    if functions.c:
        out.append(f".function_state = functions_{word}")
    if is_on_demand(table, functions):
        out.append(f".watch_offset = offsetof({struct}, watch)")
    if timer_offsets(table, functions):
        out.append(f".timer = timers_{word}")
    if layer.rules is not None:
        out.append(".has_sequence = true")
        if not layer.rules.units:
            streams = f".rules = &rules_{word}, .sides = {table.sides}"
            out.append(f"{streams}, .sequence_offset = offsetof({struct}, sequence)")
    if is_controlled(table, functions):
        out.append(f".control_offset = offsetof({struct}, control)")
    return out


def _place(table: Table, reg: Reg) -> str:
    """The place of a field in the instance, as initialisers of struct sl_field_info."""
    if reg not in table.packed:
        return f"offsetof({table.struct}, {member(reg)}), {storage(reg.bits)}, 0, 0"
    byte, bit = table.packed[reg]
    return f"offsetof({table.struct}, packed) + {byte}, 0, SL_BIT({bit}, {reg.bits}), {reg.bits}"
