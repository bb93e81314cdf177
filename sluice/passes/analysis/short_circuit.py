"""Short-circuit evaluation: parts of a condition that the generated C evaluates only if earlier parts do not decide it.

In the IR, `&` and `|` of bits evaluate both sides, which have no effects. So C may use && and || instead. This costs a
jump, and pays if the jump skips more work than it costs. For example, header bits that decide alone, such as SYN
and RST, precede comparisons of fields of the instance.
"""

from __future__ import annotations

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
)

JUMP = 4
"""The least remaining work that is worth a jump over it, in the units of `cost`."""


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
