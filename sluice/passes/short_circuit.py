"""Short-circuit evaluation: parts of a condition are evaluated only if earlier parts do not decide it.

`&` and `|` of bits evaluate both operands. Operands have no effects, so `&&` and `||` give the same value. They cost a
jump, and pay if the jump skips more work than it costs. For example, header bits that decide alone, such as SYN and
RST, precede comparisons of fields of the instance.
"""

from __future__ import annotations

from operator import is_

from sluice.ir.copy import with_expressions
from sluice.ir.expression import (
    COMPARISONS,
    STORED,
    Binary,
    Const,
    Crc,
    Expr,
    Length,
    Reg,
    Sum,
    chain,
    children,
    is_bit,
    operands,
    with_children,
)
from sluice.ir.graph import Graph, LayerProgram, Program
from sluice.passes.analysis.blocks import each_graph

JUMP = 4
"""The least remaining work that is worth a jump over it, in the units of `cost`."""

_LOGICAL = {"&": "&&", "|": "||"}


def run(program: Program) -> Program:
    """The program with `&&` and `||` in conditions where a jump pays."""
    return each_graph(program, _change)


def _change(_: LayerProgram, graph: Graph) -> bool:
    changed = False
    for block in graph.blocks.values():
        new = [with_expressions(instruction, short_circuit) for instruction in block.instructions]
        if not all(map(is_, new, block.instructions)):
            block.instructions = new
            changed = True
    return changed


def short_circuit(expression: Expr) -> Expr:
    """The expression with `&&` and `||` where a jump pays; the same object if it pays nowhere."""
    if isinstance(expression, Binary) and len(parts := groups(expression)) > 1:
        return chain(_LOGICAL[expression.operator], [short_circuit(part) for part in parts])
    return with_children(expression, short_circuit)


def cost(expression: Expr) -> int:
    """The approximate number of machine instructions that evaluate an expression."""
    match expression:
        case Const():
            own = 0
        case Reg():
            own = 2 if expression.space in (*STORED, "slot") else 0
        case Binary(operator, _, _, serial) if serial and operator in COMPARISONS:
            own = 5
        case Length():
            own = 0
        case Sum() | Crc():
            own = 100
        case _:
            own = 1
    return own + sum(map(cost, children(expression)))


def groups(expression: Binary) -> list[Expr]:
    """The groups to evaluate in sequence until the value is decided; a single group if no jump pays."""
    operator = expression.operator
    if operator not in ("&", "|") or not all(map(is_bit, parts := operands(expression, operator))):
        return [expression]
    found: list[Expr] = []
    while parts:
        taken = 1
        while taken < len(parts) and (cost(chain(operator, parts[taken:])) < JUMP or cost(parts[taken]) == 0):
            taken += 1
        found.append(chain(operator, parts[:taken]))
        parts = parts[taken:]
    return found
