"""Golden cases of pass `short_circuit`, see tests/golden/passes/short_circuit.txt; conditions keep their values."""

import random

import pytest

from sluice.codegen.stack import generate
from sluice.hooks.function import Functions
from sluice.ir.expression import LOGICAL, Binary, Expr, Flip, Reg, calculate, children
from sluice.lower.build import build
from sluice.passes import short_circuit
from sluice.passes.pipeline import PASSES, run
from sluice.stacks.find import find_stack
from tests.passes.golden_passes import Case, cases, check
from tests.support.stacks import optimised

FILE = "short_circuit.txt"
BITS = [Reg(f"header.bit{number}", 1) for number in range(3)]
NUMBERS = [Reg("header.a", 8), Reg("perm.b", 8)]


@pytest.mark.parametrize("case", cases(FILE), ids=lambda case: case.name)
def test_golden(case: Case) -> None:
    check(case, FILE, short_circuit.run)


def any_condition(choose: random.Random, depth: int) -> Expr:
    if depth == 0:
        one, other = choose.sample(NUMBERS, 2)
        comparison = Binary(choose.choice(["<", "=="]), one, other, choose.choice([0, 8]))
        return choose.choice([*BITS, comparison])
    if choose.random() < 0.2:
        return Flip(any_condition(choose, depth - 1), 1)
    return Binary(choose.choice("&|"), any_condition(choose, depth - 1), any_condition(choose, depth - 1))


def value(expression: Expr, registers: dict[Reg, int]) -> int:
    match expression:
        case Reg():
            return registers[expression]
        case Binary(operator, left, right, serial):
            return calculate(operator, value(left, registers), value(right, registers), serial)
        case Flip(operand, bits):
            return ~value(operand, registers) & ((1 << bits) - 1)
        case _:
            raise AssertionError(expression)


def operators(expression: Expr) -> set[str]:
    own = {expression.operator} if isinstance(expression, Binary) else set[str]()
    return own.union(*map(operators, children(expression)))


def test_conditions_keep_their_values() -> None:
    choose, jumps = random.Random(1), 0
    for _ in range(500):
        condition = any_condition(choose, 4)
        made = short_circuit.short_circuit(condition)
        assert short_circuit.short_circuit(made) is made
        jumps += bool(operators(made).intersection(LOGICAL))
        for _ in range(8):
            registers = {reg: choose.randrange(1 << reg.bits) for reg in (*BITS, *NUMBERS)}
            assert value(made, registers) == value(condition, registers)
    assert 50 < jumps < 490


def test_switched_off_by_name() -> None:
    """The C evaluates what the program says: without the pass, nested branches only become conditions with &&."""
    passes = [item.name for item in PASSES if item.name != "short_circuit"]
    with_it, without = optimised("tcp_ip"), run(build(find_stack("tcp_ip")), passes)
    one, other = (
        {
            op
            for i in program.layers["tcp_over_ipv4"].main.instructions()
            for item in i.expressions()
            for op in operators(item)
        }
        for program in (with_it, without)
    )
    assert one.issuperset(LOGICAL) and not other.intersection(LOGICAL)
    jumps = [generate(program, Functions()).source.count(" && ") for program in (with_it, without)]
    assert jumps[0] > jumps[1] + 50
