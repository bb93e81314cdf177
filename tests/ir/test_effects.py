"""The table of effects: what each instruction changes besides its operands, and what follows from it."""

import pytest

from sluice.ir.copy import with_expressions, with_operands, with_targets
from sluice.ir.dataflow import hidden_writes
from sluice.ir.expression import Binary, Const, Expr, Reg, registers, rewrite
from sluice.ir.instruction import (
    GRAPHS,
    INSTRUCTIONS,
    Assign,
    Branch,
    Check,
    Instruction,
    Load,
    RecordSeq,
    ReleaseSeq,
    Resource,
)
from sluice.lang.where import Where

A, B, MARK = Reg("local.a", 8), Reg("local.b", 8), Reg("mark.0", 32)

RUN_GRAPHS = {"CreateInst", "EndInst", "Drain", "NextLayer", "NextOfSide", "NextMessages", "CutMessages"}
RUN_GRAPHS |= {"CloseMessages", "Again"}
KEEP_SLOTS = {"CreateInst", "EndInst", "Drain"}
CHANGE_INSTANCE = RUN_GRAPHS | {"Lookup", "FindAlias", "FreshInst", "DestroyInst", "SwapSides"}


@pytest.mark.parametrize("cls", INSTRUCTIONS.values(), ids=INSTRUCTIONS)
def test_hidden_writes_follow_from_the_table(cls: type[Instruction]):
    expected: tuple[str, ...] = ()
    if cls.__name__ in CHANGE_INSTANCE:
        expected += ("inst.", "perm.")
    if cls.__name__ in RUN_GRAPHS - KEEP_SLOTS | {
        "LookAhead",
        "NextStateless",
        "NextDeferring",
        "NextDispatch",
        "NextPath",
    }:
        expected += ("slot.",)
    assert hidden_writes(cls) == expected


@pytest.mark.parametrize("cls", INSTRUCTIONS.values(), ids=INSTRUCTIONS)
def test_what_runs_graphs_may_write_all_that_they_write(cls: type[Instruction]):
    """Whatever some instruction of a graph writes, one that runs graphs writes too."""
    assert cls.WRITES <= {*GRAPHS, Resource.CACHE}
    if cls.__name__ in RUN_GRAPHS:
        kept = {Resource.CONTEXT} if cls.__name__ in KEEP_SLOTS else set[Resource]()
        assert cls.RUNS_GRAPHS and set(GRAPHS) - kept == cls.WRITES
    else:
        assert not cls.RUNS_GRAPHS


def test_what_needs_something_reads_it():
    for cls in INSTRUCTIONS.values():
        assert cls.NEEDS_INSTANCE <= (Resource.INSTANCE in cls.READS)
        assert cls.NEEDS_SEQUENCE <= (Resource.SEQUENCE in cls.READS)


def test_operands_by_role():
    load = Load(A, MARK, 16, 8, "big")
    assert load.written() == (A,)
    assert load.expressions() == load.read_registers() == (MARK,)
    release = ReleaseSeq(A, (A, B), Binary("+", B, Const(1)))
    assert release.written() == (A, A, B)
    assert release.read_registers() == (B,)
    record = RecordSeq(A, Const(1), (B, Const(2), Binary("-", A, B)))
    assert record.written() == ()
    assert record.expressions() == (A, Const(1), B, Const(2), Binary("-", A, B))
    assert record.read_registers() == (A, B, A, B)
    assert Check(MARK, A, "yes", "cut", "short").targets() == ("yes", "cut", "short")


def test_shape_of_operands():
    shape = [(item.name, item.role, item.many, item.type) for item in ReleaseSeq.SHAPE.operands]
    assert shape == [
        ("more", "write", False, "Reg"),
        ("values", "write", True, "Reg"),
        ("side", "read", False, "Expr"),
    ]
    shape = [(item.name, item.role, item.many, item.type) for item in Load.SHAPE.operands]
    assert shape[1:] == [
        ("mark", "read", False, "Reg"),
        ("at", "plain", False, "int"),
        ("bits", "plain", False, "int"),
        ("order", "plain", False, "str"),
    ]


def zero_for_a(node: Expr) -> Expr:
    return Const(0) if node == A else node


def test_rewriting_keeps_the_object_that_stays():
    other = Binary("+", B, Const(1))
    assert rewrite(other, zero_for_a) is other
    found = rewrite(Binary("*", A, other), zero_for_a)
    assert found == Binary("*", Const(0), other)
    assert isinstance(found, Binary) and found.right is other
    assert registers(found) == (B,)


def test_instructions_are_replaced_not_changed():
    where = Where("a.py", 3)
    before = Assign(B, Binary("+", A, Const(1)), where=where)
    after = with_expressions(before, lambda item: rewrite(item, zero_for_a))
    assert before == Assign(B, Binary("+", A, Const(1)))
    assert after == Assign(B, Binary("+", Const(0), Const(1)))
    assert after.where is where
    assert with_expressions(after, lambda item: rewrite(item, zero_for_a)) is after
    branch = Branch(A, "yes", "no", where=where)
    turned = with_targets(branch, {"yes": "other", "no": "no"}.__getitem__)
    assert turned == Branch(A, "other", "no") and branch.yes == "yes" and turned.where is where
    assert with_targets(turned, str) is turned
    assert with_operands(branch, condition=B) == Branch(B, "yes", "no")


def test_marks_stay_registers():
    load = Load(A, MARK, 0, 8, "big")
    assert with_expressions(load, lambda _: Const(0)) is load
