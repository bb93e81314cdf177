"""What becomes of layers that differ in their keys alone is what would become of each by itself."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from sluice.ir.copy import copy_graph, with_operands
from sluice.ir.expression import Const, Expr, Reg
from sluice.ir.graph import Graph, LayerProgram, Program
from sluice.ir.hook import Hook
from sluice.ir.instruction import Assign, CreateInst, Goto, Instruction, Lookup
from sluice.ir.text import print_program
from sluice.lower.build import build
from sluice.passes import pipeline
from sluice.passes.analysis import equivalent_layers
from sluice.passes.analysis.blocks import each_graph
from sluice.passes.analysis.equivalent_layers import Changed, different_parts
from sluice.stacks.find import find_stack
from tests.support.small_stacks import small_tcp

ONE, OTHER = "tcp_over_ipv4", "tcp_over_ipv6"
SRC, SRC6 = Reg("slot.src.32", 32), Reg("slot.src.128", 0)
DST, DST6 = Reg("slot.dst.32", 32), Reg("slot.dst.128", 0)


@cache
def program_of(name: str) -> Program:
    return build(find_stack(name))


def graphs() -> tuple[Graph, Graph]:
    """Two that differ in their keys alone."""
    layers = program_of("tcp_ip").layers
    return copy_graph(layers[ONE].main), copy_graph(layers[OTHER].main)


def place(graph: Graph, kind: type[Instruction]) -> tuple[list[Instruction], int]:
    """The block's instructions, and the place among them, where the first of a kind is."""
    for block in graph.blocks.values():
        for at, instruction in enumerate(block.instructions):
            if isinstance(instruction, kind):
                return block.instructions, at
    raise AssertionError(kind)


@pytest.mark.parametrize("stack", ["tcp_ip", "sctp", "quic"])
def test_each_becomes_what_it_would_by_itself(stack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    together = print_program(pipeline.run(program_of(stack)))
    found: list[Graph] = []

    def nothing(_: Changed, __: LayerProgram, graph: Graph) -> None:
        found.append(graph)

    monkeypatch.setattr(equivalent_layers.Changed, "find", nothing)
    assert print_program(pipeline.run(program_of(stack))) == together
    assert found


def test_a_pass_sees_one_of_them() -> None:
    seen: list[str] = []

    def change(layer: LayerProgram, graph: Graph) -> bool:
        seen.append(layer.name)
        block = graph.blocks[graph.entry]
        block.instructions.insert(0, Assign(Reg("local.new", 8), Const(1)))
        return True

    after = each_graph(program_of("tcp_ip"), change)
    assert ONE in seen and OTHER not in seen
    one, other = after.layers[ONE].main, after.layers[OTHER].main
    assert isinstance(other.blocks[other.entry].instructions[0], Assign)
    assert different_parts(one, other) == {SRC: SRC6, DST: DST6}
    assert other.name == program_of("tcp_ip").layers[OTHER].main.name


def test_a_graph_that_stays_as_it_is_stays_the_same_object() -> None:
    program = program_of("tcp_ip")
    assert each_graph(program, lambda *_: False) is program


def test_they_differ_in_parts_of_keys() -> None:
    one, other = graphs()
    assert different_parts(one, other) == {SRC: SRC6, DST: DST6}
    assert different_parts(one, one) == {}


def test_other_instructions_are_more_than_a_key() -> None:
    one, other = graphs()
    instructions, at = place(other, Assign)
    old = instructions[at]
    assert isinstance(old, Assign)
    instructions[at] = with_operands(old, value=Const(7))
    assert different_parts(one, other) is None


def test_what_is_found_is_more_than_a_key() -> None:
    one, other = graphs()
    instructions, at = place(other, Lookup)
    instructions[at] = with_operands(instructions[at], found=Reg("local.other", 1))
    assert different_parts(one, other) is None


def test_other_lines_of_the_description_are_more_than_a_key() -> None:
    one, other = graphs()
    for kind in (Assign, Lookup):
        instructions, at = place(other, kind)
        old = instructions[at]
        instructions[at] = replace(old, where=replace(old.where, line=old.where.line + 1))
        assert different_parts(one, other) is None
        instructions[at] = old


def test_blocks_more_or_elsewhere_are_more_than_a_key() -> None:
    one, other = graphs()
    instructions, _ = place(other, Lookup)
    instructions.insert(0, Assign(Reg("local.new", 8), Const(1)))
    assert different_parts(one, other) is None
    one, other = graphs()
    last = next(block for block in other.blocks.values() if isinstance(block.terminator, Goto))
    last.instructions[-1] = Goto(other.entry, where=last.terminator.where)
    assert different_parts(one, other) is None


@pytest.mark.parametrize("register", [SRC, SRC6])
@pytest.mark.parametrize("read", [True, False])
def test_a_part_that_others_know_of_makes_a_difference(register: Reg, read: bool) -> None:
    one, other = graphs()
    new = Assign(Reg("local.new", 32), register) if read else Assign(register, Const(0))
    for graph in (one, other):
        graph.blocks[graph.entry].instructions.insert(0, new)
    assert different_parts(one, other) is None


@pytest.mark.parametrize("lost", [(DST6, SRC6), (DST, SRC)])
def test_two_parts_are_not_one(lost: tuple[Reg, Reg]) -> None:
    one, other = graphs()
    old, new = lost

    def changed(key: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(new if part == old else part for part in key)

    for graph in (one, other):
        for kind in (Lookup, CreateInst):
            instructions, at = place(graph, kind)
            keyed = instructions[at]
            assert isinstance(keyed, Lookup | CreateInst)
            instructions[at] = with_operands(keyed, key=changed(keyed.key), reverse=changed(keyed.reverse))
    assert different_parts(one, other) is None


def test_layers_whose_fields_begin_otherwise_are_not_alike() -> None:
    program = program_of("tcp_ip")
    one, other = program.layers[ONE], program.layers[OTHER]
    seen = Changed()
    seen.add(one, one.main, one.main)
    assert seen.find(other, other.main) is other.main
    layout, rules = other.instance, other.rules
    assert layout is not None and rules is not None and other.end is not None
    (field, value), *rest = layout.fields
    end = copy_graph(other.end)
    end.blocks[end.entry].instructions.insert(0, Assign(Reg("local.new", 8), Const(1)))
    for different in (
        replace(other, instance=replace(layout, fields=((field, value + 1), *rest))),
        replace(other, rules=replace(rules, linear=not rules.linear)),
        other.with_graphs(end=end),
        replace(other, others={kind: graph for kind, graph in other.others.items() if kind != "end"}),
        replace(other, instance=None),
        replace(other, prototype="another"),
    ):
        assert seen.find(different, different.main) is None


def test_a_program_takes_what_became_of_equal_graphs_of_another() -> None:
    """With other events, only the graphs of the layers that have them are changed again."""
    seen: list[str] = []

    def change(layer: LayerProgram, graph: Graph) -> bool:
        seen.append(layer.name)
        graph.blocks[graph.entry].instructions.insert(0, Assign(Reg("local.new", 8), Const(1)))
        return True

    first = each_graph(build(small_tcp()), change)
    assert {"eth", "ipv4", "tcp"} == set(seen)
    seen.clear()
    other = each_graph(build(small_tcp(), frozenset({Hook("tcp", "data")})), change)
    assert set(seen) == {"tcp"} and other.layers["ipv4"].main is first.layers["ipv4"].main


def test_the_last_results_are_stored() -> None:
    layer = build(small_tcp()).layers["eth"]
    changed = Changed()
    for number in range(equivalent_layers.RESULTS + 1):
        graph = copy_graph(layer.main)
        graph.blocks[graph.entry].instructions.insert(0, Assign(Reg("local.new", 8), Const(number)))
        changed.add(replace(layer, main=graph), graph, graph)
        assert changed.find(replace(layer, main=graph), graph) is graph
    forgotten = copy_graph(layer.main)
    forgotten.blocks[forgotten.entry].instructions.insert(0, Assign(Reg("local.new", 8), Const(0)))
    assert changed.find(replace(layer, main=forgotten), forgotten) is None
