"""Instructions of header parsing as C."""

from __future__ import annotations

from sluice.codegen.c.expressions import assigned, emit, number, place
from sluice.codegen.c.names import variable
from sluice.codegen.c.writer import LayerWriter, writes
from sluice.ir import instruction as ir
from sluice.ir.expression import ZERO, Binary, Const, Expr


@writes(ir.Load)
def load(w: LayerWriter, i: ir.Load) -> list[str]:
    first, last = i.at // 8, (i.at + i.bits + 7) // 8
    size, shift = last - first, last * 8 - i.at - i.bits
    where = f"unit.at + {emit(i.mark)} + {first}" if first else f"unit.at + {emit(i.mark)}"
    if i.order == "little":
        return [f"{variable(i.target)} = sl_load_le({where}, {size});"]
    if size > 8:  # a field of up to 64 bits that extends over nine bytes
        text = f"sl_load_be({where}, 8) << {8 - shift} | sl_load_be({where} + 8, 1) >> {shift}"
        return [f"{variable(i.target)} = ({text}) & {number((1 << i.bits) - 1)};"]
    text = f"sl_load_be({where}, {size})"
    if shift:
        text += f" >> {shift}"
    if size * 8 - shift != i.bits:
        text = f"{text if not shift else f'({text})'} & {number((1 << i.bits) - 1)}"
    return [f"{variable(i.target)} = {text};"]


@writes(ir.LoadBytes)
def load_bytes(w: LayerWriter, i: ir.LoadBytes) -> list[str]:
    begin: Expr = Binary("+", i.mark, Const(i.at)) if i.at else i.mark
    return [f"{variable(i.target)} = sl_bytes_slice(unit, {emit(begin)}, {emit(Binary('+', begin, i.size))});"]


@writes(ir.LoadVarint)
def load_varint(w: LayerWriter, i: ir.LoadVarint) -> list[str]:
    return [f"{variable(i.target)} = sl_load_varint(unit.at + {emit(i.mark)}, {emit(i.size)});"]


@writes(ir.Mark)
def mark(w: LayerWriter, i: ir.Mark) -> list[str]:
    if i.offset == ZERO:
        return [f"{variable(i.target)} = {emit(i.base)};"]
    return [f"{variable(i.target)} = {emit(Binary('+', i.base, i.offset))};"]


@writes(ir.Payload)
def payload(w: LayerWriter, i: ir.Payload) -> list[str]:
    return [f"{variable(i.target)} = sl_bytes_after(unit, {emit(i.mark)});"]


@writes(ir.Pad)
def pad(w: LayerWriter, i: ir.Pad) -> list[str]:
    return [f"{variable(i.target)} = sl_pad({emit(i.data)}, {i.size}, &box->base.scratch);"]


@writes(ir.Assign)
def assign(w: LayerWriter, i: ir.Assign) -> list[str]:
    if i.value == i.target:  # compilers warn about it
        return []
    return [f"{place(i.target)} = {assigned(i)};"]
