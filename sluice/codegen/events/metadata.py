"""Metadata: constant tables that describe layers to functions."""

from __future__ import annotations

from sluice.codegen.c.names import boolean, c_string, identifier, member, storage
from sluice.codegen.events.control import is_controlled
from sluice.codegen.events.functions import function_states, is_on_demand
from sluice.codegen.events.timers import timer_offsets
from sluice.codegen.layer.instance_layout import Table
from sluice.codegen.stack_names import StackNames
from sluice.ir.expression import Reg


def information(names: StackNames) -> list[str]:
    """The table of layers, and the tables that it points to."""
    out = ["", "/* --- what functions may ask of layers --- */", ""]
    rows: list[str] = []
    for index, layer in enumerate(names.program.layers.values()):
        word = identifier(layer.name)
        table = names.tables[layer.instance.table] if layer.instance is not None else None
        reasons = layer.events["malformed"].reasons if "malformed" in layer.events else ()
        if reasons:
            text = ", ".join(map(c_string, reasons))
            out.append(f"static const char *const malformed_{word}[] = {{{text}}};")
        malformed = f"malformed_{word}" if reasons else "NULL"
        row = [c_string(layer.name), c_string(layer.layer), c_string(layer.prototype), str(index), malformed]
        if table is None:
            rows.append(
                f"    {{{', '.join(row)}, false, false, 0, 0, 0, 0, NULL, NULL, NULL, 0, 0, 0, NULL, 0, NULL, NULL, 0, 0, 0}},"
            )
            continue
        parts = ", ".join(f'{{"{p.part.name}", {p.part.bits}, {p.word}, {p.shift}}}' for p in table.parts)
        out.append(f"static const struct sl_key_part key_{word}[] = {{{parts}}};")
        fields = [reg for reg, _ in table.fields if reg.space == "perm"]
        if fields:
            text = ", ".join(f'{{"{reg.name.partition(".")[2]}", {_place(table, reg)}}}' for reg in fields)
            out.append(f"static const struct sl_field_info fields_{word}[] = {{{text}}};")
        if layer.states:
            text = ", ".join(f'{{"{s.name}", {boolean(s.accept)}, {boolean(s.closed)}}}' for s in layer.states)
            out.append(f"static const struct sl_state_info states_{word}[] = {{{text}}};")
        kept = function_states(table, names.functions)
        offsets = [
            f"offsetof({table.struct}, {f.name}_state)" if f.name in kept and not f.beside else "0"
            for f in names.functions.c
        ]
        out.append(f"static const uint32_t functions_{word}[] = {{{', '.join(offsets) or '0'}}};")
        row += [
            boolean(layer.rules is not None),
            boolean(table.oriented),
            str(table.half),
            str(len(table.parts)),
            str(len(fields)),
            str(len(layer.states)),
        ]
        row += [
            f"key_{word}",
            f"fields_{word}" if fields else "NULL",
            f"states_{word}" if layer.states else "NULL",
        ]
        row += [f"offsetof({table.struct}, number)", f"offsetof({table.struct}, swapped)"]
        row += [f"offsetof({table.struct}, inst_state)" if layer.states else "0", f"functions_{word}"]
        row += [f"offsetof({table.struct}, watch)" if is_on_demand(table, names.functions) else "0"]
        offsets = timer_offsets(table, names.functions)
        if offsets:
            out.append(f"static const uint32_t timers_{word}[] = {{{', '.join(offsets)}}};")
        row.append(f"timers_{word}" if offsets else "NULL")
        streams = layer.rules is not None and not layer.rules.units
        row += (
            [f"&rules_{word}", str(table.sides), f"offsetof({table.struct}, sequence)"] if streams else ["NULL, 0, 0"]
        )
        row += [f"offsetof({table.struct}, control)" if is_controlled(table, names.functions) else "0"]
        rows.append(f"    {{{', '.join(row)}}},")
    return [*out, "static const struct sl_layer_info layers[] = {", *rows, "};"]


def _place(table: Table, reg: Reg) -> str:
    """The place of a field in the instance, as initialisers of struct sl_field_info."""
    if reg not in table.packed:
        return f"offsetof({table.struct}, {member(reg)}), {storage(reg.bits)}, 0, 0"
    byte, bit = table.packed[reg]
    return f"offsetof({table.struct}, packed) + {byte}, 0, SL_BIT({bit}, {reg.bits}), {reg.bits}"
