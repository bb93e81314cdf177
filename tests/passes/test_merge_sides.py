"""Pass `merge_sides`: one path for both sides, which selects fields by the side."""

import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.codegen.stack import generate
from sluice.hooks.function import Functions
from sluice.ir.copy import copy_graph
from sluice.ir.expression import ONE, SIDE, ZERO, Binary, Const, Expr, Reg, calculate, fields_of, of_side, rewrite
from sluice.ir.graph import Block, Graph, Program
from sluice.ir.instruction import Assign, Branch, Count, Goto, Instruction, Return
from sluice.ir.interpreter.expressions import number, set_number
from sluice.ir.text import parse_graph, print_graph
from sluice.ir.verify import VerifyError, verify
from sluice.lower.build import build
from sluice.passes.merge_sides import Fields, merged
from sluice.passes.pipeline import PASSES, run
from sluice.stacks.find import find_stack
from tests.support.stacks import optimised

MINE, ITS = [Reg(f"perm.mine{n}", 8) for n in range(3)], [Reg(f"perm.its{n}", 8) for n in range(3)]
BOTH, OTHER = Reg("perm.both", 8), Reg("v.other", 8)
FIELDS = [*MINE, *ITS, BOTH]
MIRROR: Fields = {**dict(zip(MINE, ITS, strict=True)), **dict(zip(ITS, MINE, strict=True))}


def exchanged(expression: Expr) -> Expr:
    return rewrite(expression, lambda node: MIRROR.get(node, node) if isinstance(node, Reg) else node)


def twin(block: Block) -> Block:
    """The mirror image, on the path of side 1, of a block of the path of side 0."""

    def lead(to: str) -> str:
        return to.replace("no", "yes")

    def changed(i: Instruction) -> Instruction:
        match i:
            case Assign(target, value):
                return Assign(MIRROR.get(target, target), exchanged(value))
            case Branch(condition, yes, no):
                return Branch(exchanged(condition), lead(yes), lead(no))
            case Goto(to):
                return Goto(lead(to))
            case _:
                return i

    return Block(lead(block.name), [changed(i) for i in block.instructions])


def any_expression(choose: random.Random, depth: int = 2) -> Expr:
    if depth == 0 or choose.random() < 0.3:
        return choose.choice([*FIELDS, OTHER, Const(choose.randrange(4))])
    operator = choose.choice(["+", "^", "<", "=="])
    return Binary(operator, any_expression(choose, depth - 1), any_expression(choose, depth - 1))


def any_ways(choose: random.Random) -> Graph:
    """A branch on the side, and a path for each side; one is the mirror image of the other."""
    count = choose.randrange(1, 6)
    blocks = {"end": Block("end", [Return(ZERO)])}
    for at in range(count):
        does: list[Instruction] = [
            Assign(choose.choice([*FIELDS, OTHER]), any_expression(choose)) for _ in range(choose.randrange(3))
        ]
        later = [f"no{n}" for n in range(at + 1, count)] + ["end"]
        end = choose.choice([Goto(later[0]), Branch(any_expression(choose), later[0], choose.choice(later))])
        blocks[f"no{at}"] = Block(f"no{at}", [*does, end])
    blocks |= {twin(block).name: twin(block) for block in list(blocks.values()) if block.name != "end"}
    blocks["begin"] = Block("begin", [Branch(SIDE, "yes0", "no0")])
    graph = Graph("any", "begin", (SIDE,), blocks)
    graph.blocks = {name: blocks[name] for name in graph.order()}
    return graph


def spoilt(graph: Graph, choose: random.Random) -> None:
    """The paths differ in one instruction, or one has another predecessor."""
    name = choose.choice([name for name in graph.blocks if name.startswith("yes")])
    body = list(graph.blocks[name].body)
    match choose.randrange(5):
        case 0:
            body.append(Assign(OTHER, Const(9)))
        case 1:
            body.append(Assign(SIDE, ONE))
            no = graph.blocks[name.replace("yes", "no")]
            no.instructions.insert(len(no.body), Assign(SIDE, ONE))
        case 2:
            body.append(Count("once"))
        case 3 if body and isinstance(body[0], Assign):
            body[0] = Assign(body[0].target, Binary("+", body[0].value, ONE))
        case _:
            graph.blocks["more"] = Block("more", [Branch(OTHER, name, "begin")])
            graph.entry = "more"
    graph.blocks[name] = Block(name, [*body, graph.blocks[name].terminator])


def ended(graph: Graph, state: dict[Reg, int]) -> dict[Reg, int]:
    """The values of registers after a graph."""
    state = dict(state)

    def field(register: Reg) -> Reg:
        pair = fields_of(register)
        return register if pair is None else pair[state[SIDE] ^ (register.space == "other")]

    def value(expression: Expr) -> int:
        match expression:
            case Reg():
                return state[field(expression)]
            case Binary(operator, left, right):
                return calculate(operator, value(left), value(right))
            case Const(number):
                return number
            case _:
                raise AssertionError(expression)

    name = graph.entry
    while True:
        for instruction in graph.blocks[name].body:
            if isinstance(instruction, Assign):
                state[field(instruction.target)] = value(instruction.value) & 0xFF
        match graph.blocks[name].terminator:
            case Branch(condition, yes, no):
                name = yes if value(condition) else no
            case Goto(to):
                name = to
            case _:
                return state


def check(graph: Graph, choose: random.Random) -> bool:
    """The merged graph has the same effects. Returns whether anything was merged."""
    pairs: Fields = {}
    one_path = merged(graph, FIELDS, pairs)
    for _ in range(20):
        state = {reg: choose.randrange(4) for reg in (*FIELDS, OTHER)} | {SIDE: choose.randrange(2)}
        assert ended(one_path, state) == ended(graph, state)
    assert all(first in MINE and second in ITS for first, second in pairs.items()), "the first ones, in their order"
    return one_path is not graph


def test_mirror_images_become_one_path() -> None:
    for seed in range(500):
        choose = random.Random(seed)
        graph = any_ways(choose)
        assert check(graph, choose), seed


def test_others_do_not() -> None:
    merged = 0
    for seed in range(2000):
        choose = random.Random(seed)
        graph = any_ways(choose)
        spoilt(graph, choose)
        merged += check(graph, choose)
    assert merged == 0


def test_a_second_branch_on_the_side() -> None:
    """Within the paths, which are mirror images of each other."""

    def block(name: str, target: Reg, value: int, end: Instruction) -> Block:
        return Block(name, [Assign(target, Const(value)), end])

    to_end = Goto("end")
    blocks = [
        Block("begin", [Branch(SIDE, "yes", "no")]),
        block("no", MINE[0], 1, Branch(SIDE, "no1", "no0")),
        block("yes", ITS[0], 1, Branch(SIDE, "yes1", "yes0")),
        block("no0", MINE[1], 3, to_end),
        block("yes0", ITS[1], 3, to_end),
        block("no1", ITS[1], 3, to_end),
        block("yes1", MINE[1], 3, to_end),
        Block("end", [Return(ZERO)]),
    ]
    for order in (blocks, blocks[::-1]):
        assert check(Graph("again", "begin", (SIDE,), {one.name: one for one in order}), random.Random(1))


@pytest.fixture(scope="module")
def tcp_ip() -> Program:
    return optimised("tcp_ip")


@pytest.mark.parametrize("step", [1, 2])
def test_several_branches_share_pairs(step: int) -> None:
    """Also if paths read the side and both fields of a pair, or return to the branch, or if a field is read later."""

    def first(name: str, mine: Reg, its: Reg) -> Block:
        does = [Assign(BOTH, mine), Assign(mine, its), Assign(OTHER, SIDE), Assign(its, BOTH)]
        return Block(name, [*does, Assign(BOTH, Const(step)), Goto("next")])

    def second(name: str, its: Reg) -> Block:
        return Block(name, [Assign(its, Binary("+", its, BOTH)), Branch(Binary("<", its, Const(99)), "next", "end")])

    blocks = [
        Block("begin", [Branch(SIDE, "yes", "no")]),
        first("no", MINE[0], ITS[0]),
        first("yes", ITS[0], MINE[0]),
        Block("next", [Branch(SIDE, "yes2", "no2")]),
        second("no2", ITS[0]),
        second("yes2", MINE[0]),
        Block("end", [Assign(OTHER, MINE[0]), Return(ZERO)]),
    ]
    graph = Graph("several", "begin", (SIDE,), {one.name: one for one in blocks})
    assert check(graph, random.Random(step))
    assert {"yes", "yes2"}.isdisjoint(merged(graph, FIELDS, {}).blocks)


def test_paths_that_leave_to_other_blocks() -> None:
    """Into each other, or to blocks with other predecessors: the merged graph has the same effects."""
    merged = 0
    for seed in range(3000):
        choose = random.Random(seed)
        graph = any_ways(choose)
        for name in choose.sample(sorted(graph.blocks), k=min(2, len(graph.blocks))):
            end = graph.blocks[name].terminator
            if name not in ("begin", "end"):
                later = [to for to in graph.blocks if to == "end" or (to != "begin" and to[-1] > name[-1])]
                does = choose.choice([Goto(choose.choice(later)), Branch(OTHER, *choose.choices(later, k=2)), end])
                graph.blocks[name] = Block(name, [*graph.blocks[name].body, does])
        graph.blocks = {name: graph.blocks[name] for name in graph.order()}
        merged += check(graph, choose)
    assert 100 < merged < 2000


def test_a_field_has_one_partner() -> None:
    def ways(graph: str, one: Reg, other: Reg) -> Graph:
        blocks = {"begin": Block("begin", [Branch(SIDE, "yes", "no")])}
        blocks |= {name: Block(name, [Assign(reg, ONE), Return(ZERO)]) for name, reg in (("no", one), ("yes", other))}
        return Graph(graph, "begin", (), blocks)

    pairs: Fields = {}
    assert "yes" not in merged(ways("first", MINE[0], ITS[0]), FIELDS, pairs).blocks
    assert "yes" not in merged(ways("turned", ITS[0], MINE[0]), FIELDS, pairs).blocks
    assert "yes" in merged(ways("another", MINE[0], ITS[1]), FIELDS, pairs).blocks
    assert "yes" in merged(ways("other size", MINE[1], Reg("perm.wide", 16)), FIELDS, pairs).blocks
    assert "yes" in merged(ways("no field", OTHER, Reg("v.more", 8)), FIELDS, pairs).blocks
    assert pairs == {MINE[0]: ITS[0]}


def test_tcp_takes_the_windows_of_both_sides_by_one_path(tcp_ip: Program) -> None:
    program = tcp_ip
    text = generate(program, Functions()).source
    assert text.count("pair_active_window[side] = (uint32_t)") == 2, "over IPv4 and IPv6"
    assert text.count("uint32_t perm_active_next, perm_passive_next;") == 2
    assert text.count("pair_active_next[side] = sl_serial_less(") == 2, "and keeps the highest number without a branch"

    apart = run(build(find_stack("tcp_ip")), [item.name for item in PASSES if item.name != "merge_sides"])
    for name, layer in program.layers.items():
        assert (len(layer.main.blocks) < len(apart.layers[name].main.blocks)) == (layer.layer == "tcp"), name
    assert "pair_" not in generate(apart, Functions()).source


def test_text_verifier_and_interpreter_know_the_fields_of_a_side(tcp_ip: Program) -> None:
    main = tcp_ip.layers["tcp_over_ipv4"].main
    assert "own.active_next#passive_next:u32 = Assign(" in print_graph(main)
    assert parse_graph(print_graph(main)) == main

    field, other = (of_side(MINE[0], ITS[0], other) for other in (False, True))
    frame: Any = SimpleNamespace(fields={MINE[0].name: 1, ITS[0].name: 2}, numbers={SIDE.name: 1})
    assert (number(field)(frame), number(other)(frame)) == (2, 1)
    set_number(field)(frame, 7)
    assert frame.fields == {MINE[0].name: 1, ITS[0].name: 7}


def test_the_side_must_be_set(tcp_ip: Program) -> None:
    layer = tcp_ip.layers["tcp_over_ipv4"]
    main = copy_graph(layer.main)
    field = next(reg for i in main.instructions() for reg in i.written() if reg.space == "own")
    main.blocks[main.entry].instructions.insert(0, Assign(field, ZERO))
    with pytest.raises(VerifyError, match="needs"):
        verify(replace(tcp_ip, layers={**tcp_ip.layers, layer.name: layer.with_graphs(main=main)}))
