"""Expressions as C: every pair of operators, and every operator on every kind of operand, means in C what
`sluice.ir.expression.calculate` says, and no compiler has anything to warn of.

All cases are lines of one file, which is compiled once.
"""

import ctypes
import itertools
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from sluice.codegen.c.expressions import emit, stored
from sluice.engine.compiler import INCLUDES
from sluice.ir.expression import (
    ARITHMETIC,
    COMPARISONS,
    LOGICAL,
    MASK,
    Binary,
    Const,
    Expr,
    Flip,
    Length,
    Reg,
    Slice,
    calculate,
    show,
)

A, B, C = Reg("header.a", 64), Reg("temp.b", 64), Reg("local.c", 64)
BIT = Reg("local.bit", 1)
SHORT, STATE, SLOT = Reg("perm.short", 16), Reg("inst.state", 8), Reg("slot.ip.ttl", 8)
UNIT = Reg("local.unit", 0)
NUMBERS = (A, B, C, BIT, SHORT, STATE, SLOT)
CAPTURED, LENGTH = 5, 9

Unary = Callable[[Expr], Expr]
Pair = Callable[[Expr, Expr], Expr]


def pair(operator: str, serial: int = 0) -> Pair:
    return lambda left, right: Binary(operator, left, right, serial)


def flip(bits: int) -> Unary:
    return lambda operand: Flip(operand, bits)


OPERATORS: dict[str, Pair] = {
    **{operator: pair(operator) for operator in (*ARITHMETIC, *COMPARISONS)},
    **{f"{operator}.16": pair(operator, 16) for operator in ("+", "-", "<", "<=", ">", ">=")},
}
FLIPS: dict[str, Unary] = {f"flip.{bits}": flip(bits) for bits in (1, 8, 64)}
LEAVES: dict[str, Expr] = {
    "variable": A,
    "bit": BIT,
    "state": STATE,
    "slot": SLOT,
    "0": Const(0),
    "1": Const(1),
    "64": Const(64),
    "2^31-1": Const((1 << 31) - 1),
    "2^31": Const(1 << 31),
    "2^64-1": Const(MASK),
    "comparison": Binary("<", A, B),
    "serial comparison": Binary("<=", A, B, 16),
    "flipped bit": Flip(BIT, 1),
    "length": Length(UNIT),
}


@dataclass(frozen=True)
class Case:
    """An expression; with `bits`, cut to so many where it is stored."""

    expression: Expr
    bits: int = 64

    @property
    def text(self) -> str:
        return emit(self.expression) if self.bits == 64 else stored(self.expression, self.bits)

    def __str__(self) -> str:
        return show(self.expression) + ("" if self.bits == 64 else f" in {self.bits} bits")


def cases() -> list[Case]:
    found: list[Expr] = []
    for outer, inner in itertools.product(OPERATORS.values(), OPERATORS.values()):
        found += [outer(inner(A, B), C), outer(A, inner(B, C)), outer(inner(A, B), inner(B, C))]
        found += [outer(inner(BIT, SHORT), STATE), outer(SLOT, inner(SHORT, Const(3)))]
    for unary, operator in itertools.product(FLIPS.values(), OPERATORS.values()):
        found += [unary(operator(A, B)), operator(unary(A), B), operator(A, unary(B))]
        found += [operator(unary(BIT), unary(BIT))]
    for outer, inner in itertools.product(FLIPS.values(), FLIPS.values()):
        found += [outer(inner(A)), outer(inner(BIT))]
    for operator, left, right in itertools.product(OPERATORS.values(), LEAVES.values(), LEAVES.values()):
        found.append(operator(left, right))
    bits = [BIT, Binary("<", A, B), Binary("<=", A, B, 16), Flip(BIT, 1), Flip(Binary("<", B, C, 16), 1)]
    inner = [pair(sign)(*both) for sign in (*LOGICAL, "&", "|", "==") for both in itertools.pairwise([*bits, BIT])]
    for operator, bit, both in itertools.product(map(pair, (*LOGICAL, "&", "+")), bits, inner):
        found += [operator(bit, both), operator(both, bit)]
    below_zero = [Binary("-", Const(5), Const(7)), Binary("-", Binary("<", A, B), Binary("<", B, A))]
    for operator, left, right in itertools.product(OPERATORS.values(), below_zero, (A, Const(2), BIT)):
        found += [operator(left, right), operator(right, left)]
    for unary, leaf in itertools.product(FLIPS.values(), LEAVES.values()):
        found.append(unary(leaf))
    found += [Binary("|", left, Const(1)) for left in (Binary("==", A, B), BIT, Flip(Binary("|", BIT, Const(0)), 1))]
    found += [Binary(operator, A, B, 64) for operator in ("+", "-", "<", "<=", ">", ">=")]
    found += [Length(UNIT, captured=True), Length(Slice(UNIT, Const(2), Const(MASK)), captured=True)]
    found += [Length(Slice(UNIT, Const(low), Const(high))) for low in (0, 3, 9, 12) for high in (0, 4, 12)]
    stores = [operator(A, B) for operator in OPERATORS.values()] + [flip(8)(A), A, SHORT, Const(MASK)]
    return [Case(item) for item in dict.fromkeys(found)] + [Case(item, bits) for item in stores for bits in (1, 8, 32)]


EDGES = (0, 1, 2, 63, 64, 0x7FFF, 0x8000, 0xFFFF, (1 << 31) - 1, 1 << 31, 1 << 63, MASK)
VALUES: list[dict[str, int]] = [
    {
        "header.a": EDGES[n % 12],
        "temp.b": EDGES[n * 5 % 12],
        "local.c": EDGES[n * 7 // 3 % 12],
        "local.bit": n % 2,
        "perm.short": EDGES[n % 8],
        "inst.state": n * 85 % 256,
        "slot.ip.ttl": n * 51 % 256,
    }
    for n in range(24)
]


def meaning(expression: Expr, values: dict[str, int]) -> int:
    """The value of a number, by the one definition."""
    match expression:
        case Const(value):
            return value
        case Reg(name, _):
            return values[name]
        case Binary(operator, left, right, serial):
            return calculate(operator, meaning(left, values), meaning(right, values), serial)
        case Flip(operand, bits):
            return ~meaning(operand, values) & ((1 << bits) - 1)
        case Length(Reg(), captured):
            return CAPTURED if captured else LENGTH
        case Length(Slice(Reg(), Const(low), Const(high)), captured):
            end = CAPTURED if captured else LENGTH
            return max(0, min(high, end) - min(low, end))
        case _:
            raise AssertionError(expression)


SOURCE = """
#include "core/bytes.h"
struct inst { uint16_t perm_short; uint8_t inst_state; };
struct slots { uint8_t ip_ttl; };
void run(const uint64_t *at, uint64_t *out);
void run(const uint64_t *at, uint64_t *out) {
    uint64_t header_a = at[0], temp_b = at[1], c = at[2], bit = at[3];
    struct inst fields = {(uint16_t)at[4], (uint8_t)at[5]}, *inst = &fields;
    struct slots left = {(uint8_t)at[6]}, *slots = &left;
    sl_bytes unit = {(const uint8_t *)"12345", %d, %d};
%s}
"""
FLAGS = ("-std=gnu11", "-O0", "-Wall", "-Wextra", *INCLUDES, "-fPIC", "-shared")
ALWAYS_SO = {
    "gcc": ("-Wno-tautological-compare", "-Wno-type-limits", "-Wno-bool-compare"),
    "clang": ("-Wno-tautological-compare", "-Wno-tautological-constant-compare"),
}
"""Some cases are comparisons that come out always the same: that the expression says so is not C's fault."""


def compile_cases(compiler: str, which: list[Case], folder: Path) -> tuple[ctypes.CDLL, str]:
    """A library of the cases, and what the compiler said."""
    lines = "".join(f"    out[{number}] = {case.text};\n" for number, case in enumerate(which))
    source, library = folder / "cases.c", folder / "cases.so"
    source.write_text(SOURCE % (CAPTURED, LENGTH, lines))
    done = subprocess.run(
        [compiler, *FLAGS, *ALWAYS_SO[compiler], str(source), "-o", str(library)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[:4000]
    return ctypes.CDLL(str(library)), done.stderr


def wrong(library: ctypes.CDLL, which: list[Case]) -> list[str]:
    """What does not mean in C what it should."""
    out = (ctypes.c_uint64 * len(which))()
    found: dict[Case, str] = {}
    for values in VALUES:
        library.run((ctypes.c_uint64 * len(NUMBERS))(*(values[reg.name] for reg in NUMBERS)), out)
        for case, got in zip(which, out, strict=True):
            expected = meaning(case.expression, values) & ((1 << case.bits) - 1)
            if got != expected:
                found.setdefault(case, f"{case}: {case.text} is {got:#x}, not {expected:#x}, with {values}")
    return list(found.values())


@pytest.mark.parametrize("compiler", [name for name in ALWAYS_SO if shutil.which(name)])
def test_c_means_what_the_ir_means(compiler: str, tmp_path: Path):
    which = cases()
    library, said = compile_cases(compiler, which, tmp_path)
    assert said == ""
    assert wrong(library, which) == []
