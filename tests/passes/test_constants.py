"""Golden cases of pass `constants`; see tests/golden/passes/constants.txt."""

import random
from functools import partial

import pytest

from sluice.ir.copy import copy_graph
from sluice.ir.expression import ARITHMETIC, COMPARISONS, Binary, Const, Expr, Flip, Reg, calculate, show
from sluice.ir.graph import Program
from sluice.ir.hook import Hook
from sluice.ir.simplify import simplify
from sluice.ir.text import parse_graph, print_graph
from sluice.lower.build import build
from sluice.passes import constants, pipeline
from sluice.passes.analysis.blocks import each_graph
from sluice.stacks.find import find_stack
from tests.passes.golden_passes import Case, cases, check

FILE = "constants.txt"


@pytest.mark.parametrize("case", cases(FILE), ids=lambda case: case.name)
def test_golden(case: Case):
    """Without the removal of dead code that follows."""
    check(case, FILE, partial(each_graph, change=constants.change))


@pytest.mark.parametrize("name", ["tcp_ip", "gtp", "sctp", "quic"])
def test_once_is_enough(name: str):
    """The pass is idempotent after each of the other passes."""
    left: list[str] = []

    def again(_: str, program: Program) -> None:
        for layer in program.layers.values():
            for graph in layer.graphs():
                copy = copy_graph(graph)
                constants.change(layer, copy)
                before = print_graph(copy)
                if constants.change(layer, copy) or print_graph(copy) != before:
                    left.append(f"{layer.name} {graph.name}")

    pipeline.run(build(find_stack(name), frozenset({Hook("*", "data")})), verify=False, observer=again)
    assert left == []


A, BIT, WIDE = Reg("header.a", 8), Reg("header.bit", 1), Reg("header.wide", 64)
DATA = Reg("local.data", 0)
REGISTERS = {reg.name: reg.bits for reg in (A, BIT, WIDE, DATA)}

SIMPLE = {
    "(2 + 3)": "5",
    "(1 - 2)": "18446744073709551615",
    "(1 -.32 2)": "4294967295",
    "(4294967295 +.32 1)": "0",
    "(7 / 0)": "0",
    "(1 << 64)": "0",
    "(4294967295 <.32 0)": "1",
    "flip.8(1)": "254",
    "length(local.data[3:3])": "0",
    "captured(local.data[3:2])": "0",
    "(header.a + 0)": "header.a",
    "(0 + header.a)": "header.a",
    "(header.wide +.32 0)": "(header.wide +.32 0)",
    "(header.a +.32 0)": "header.a",
    "(header.a * 1)": "header.a",
    "(header.a * 0)": "0",
    "(header.a & 0)": "0",
    "(header.a | 0)": "header.a",
    "(header.a ^ header.a)": "0",
    "(header.a - header.a)": "0",
    "(header.a & header.a)": "header.a",
    "(header.a & 255)": "header.a",
    "(header.a & 127)": "(header.a & 127)",
    "(header.a >> 8)": "0",
    "(header.wide >> 8)": "(header.wide >> 8)",
    "(header.a % 1)": "0",
    "(0 / header.a)": "0",
    "((header.a + 3) + 4)": "(header.a + 7)",
    "((header.a & 3) & 4)": "0",
    "((header.a << 3) << 61)": "0",
    "((header.a << 3) << 2)": "(header.a << 5)",
    "((header.wide << 3) >> 3)": "((header.wide << 3) >> 3)",
    "((header.a +.32 3) + 4)": "((header.a +.32 3) + 4)",
    "(header.a == header.a)": "1",
    "(header.a < header.a)": "0",
    "(header.a == 256)": "0",
    "(header.a < 256)": "1",
    "(header.a <= 255)": "1",
    "(header.a <= 254)": "(header.a <= 254)",
    "(header.a >= 0)": "1",
    "(header.a > 0)": "(header.a != 0)",
    "(header.a >.32 0)": "(header.a >.32 0)",
    "(5 < header.a)": "(header.a > 5)",
    "(5 <.32 header.a)": "(header.a >.32 5)",
    "(header.bit == 1)": "header.bit",
    "(header.bit != 1)": "flip.1(header.bit)",
    "((header.a < 4) == 0)": "(header.a >= 4)",
    "flip.1((header.a == 4))": "(header.a != 4)",
    "(header.bit && 0)": "0",
    "(header.bit && 1)": "header.bit",
    "(header.bit || 1)": "1",
    "(header.bit || 0)": "header.bit",
    "(header.bit || header.bit)": "header.bit",
    "(header.bit && (header.a < 4))": "(header.bit && (header.a < 4))",
    "flip.1((header.a <.32 4))": "flip.1((header.a <.32 4))",
    "flip.8((header.a == 4))": "flip.8((header.a == 4))",
    "flip.1(flip.1(header.bit))": "header.bit",
    "flip.1(flip.1(header.a))": "flip.1(flip.1(header.a))",
    "length(local.data[0:])": "length(local.data)",
    "length(local.data[2:10][1:4])": "length(local.data[3:6])",
    "length(local.data[2:10][1:])": "length(local.data[3:10])",
    "length(local.data[2:10][9:12])": "0",
}


def parse(text: str) -> Expr:
    declared = ", ".join(f"{name}:{f'u{bits}' if bits else 'bytes'}" for name, bits in REGISTERS.items())
    graph = parse_graph(f"graph g ({declared})\nentry:\n  Return({text})\n")
    (found,) = graph.blocks["entry"].terminator.expressions()
    return found


@pytest.mark.parametrize(("text", "simple"), SIMPLE.items(), ids=SIMPLE)
def test_simplify(text: str, simple: str):
    assert show(simplify(parse(text))) == simple


def value(expression: Expr, registers: dict[str, int]) -> int:
    """The value of a number expression without bytes."""
    match expression:
        case Const(number):
            return number
        case Reg(name, _):
            return registers[name]
        case Binary(operator, left, right, serial):
            return calculate(operator, value(left, registers), value(right, registers), serial)
        case Flip(operand, bits):
            return ~value(operand, registers) & ((1 << bits) - 1)
        case _:
            raise AssertionError(expression)


def random_expression(chance: random.Random, depth: int) -> Expr:
    if depth == 0 or chance.random() < 0.15:
        constants = [0, 1, 2, 3, 7, 8, 63, 64, 127, 128, 255, 256, (1 << 32) - 1, 1 << 63, (1 << 64) - 1]
        return chance.choice([A, BIT, WIDE, Const(chance.choice(constants))])
    if chance.random() < 0.2:
        return Flip(random_expression(chance, depth - 1), chance.choice([1, 8, 64]))
    operator = chance.choice(ARITHMETIC + COMPARISONS)
    serial = chance.choice([0, 0, 8, 32]) if operator in ("+", "-", "<", "<=", ">", ">=") else 0
    left = random_expression(chance, depth - 1)
    right = left if chance.random() < 0.1 else random_expression(chance, depth - 1)
    return Binary(operator, left, right, serial)


def test_simplify_keeps_the_value():
    chance = random.Random(1)
    for _ in range(5000):
        expression = random_expression(chance, 4)
        simpler = simplify(expression)
        assert simplify(simpler) == simpler
        for _ in range(8):
            registers = {
                reg.name: chance.choice([0, 1, 2, chance.getrandbits(64), (1 << 64) - 1]) & ((1 << reg.bits) - 1)
                for reg in (A, BIT, WIDE)
            }
            assert value(simpler, registers) == value(expression, registers), show(expression)
