"""Which parts of a condition the generated C evaluates only when those before them leave it open.

In the IR `&` and `|` of bits evaluate both sides, which have no effects; so C may use && and || instead. That costs a
jump, and pays where what it jumps over is more work than that: header bits that decide alone, as SYN and RST do, stand
in front of comparisons of fields of the instance.
"""

from __future__ import annotations

from sluice.ir.expression import (
    COMPARISONS,
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
)

JUMP = 4
"""What must be left to evaluate, in the units of `cost`, for a jump over it."""


def cost(expression: Expr) -> int:
    """About how many machine instructions evaluate it."""
    match expression:
        case Const():
            own = 0
        case Reg():
            own = 2 if expression.space in ("perm", "inst", "slot") else 0
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
    """What to evaluate one after the other, as long as that leaves the value open; one group where that does not pay."""
    operator = expression.operator
    if operator not in "&|" or not all(map(is_bit, parts := operands(expression, operator))):
        return [expression]
    found: list[Expr] = []
    while parts:
        taken = 1
        while taken < len(parts) and (cost(chain(operator, parts[taken:])) < JUMP or cost(parts[taken]) == 0):
            taken += 1
        found.append(chain(operator, parts[:taken]))
        parts = parts[taken:]
    return found
