"""The pipeline: passes by name, the verifier after each, nothing left to do the second time."""

import dataclasses
from collections.abc import Iterable
from typing import Any, cast

import pytest

from sluice.ir.copy import copy_graph, copy_program, with_operands
from sluice.ir.expression import Reg
from sluice.ir.graph import LayerProgram, Program
from sluice.ir.hook import Hook
from sluice.ir.instruction import Load, NextLayer
from sluice.ir.text import parse_graph, print_program
from sluice.ir.verify import RULES, VerifyError, verify
from sluice.lang import (
    PSM,
    Assemble,
    Assign,
    Connectionless,
    If,
    Pred,
    PSMState,
    Sequence,
    Stack,
)
from sluice.lower.build import build
from sluice.passes import pipeline
from sluice.passes.pipeline import PASSES, Pass, UnknownPassError, run
from sluice.stacks.find import find_stack
from tests.ir.descriptions import eth_parser, ip_hdr, ip_temp
from tests.support.budget import in_matrix

LARGER = ("dispatch", "lifting", "prediction", "forwarding", "split_stateless", "sinking", "lookahead", "padding")
LARGER += ("lazy_init",)
"""Passes that may write a block more than once, a graph of their own, or instructions of their own."""


def ip_parser() -> Any:
    """The IP of the paper's appendix C.1."""
    ip: Any = Connectionless()
    ip.header = ip_hdr
    ip.selector = [ip.header.saddr, ip.header.daddr]
    ip.temp = ip_temp
    ip.prep = Assign(ip.temp.offset, ((ip.header.f1 << 8) + ip.header.f2) << 3) + Assign(
        ip.temp.length, ip.header.tot_len - (ip.header.ihl << 2)
    )
    ip.seq = Sequence(meta=ip.temp.offset, data=ip.payload[: ip.temp.length])
    DUMP = PSMState(start=True, accept=True)
    FRAG = PSMState()
    ip.psm = PSM(DUMP, FRAG)
    ip.psm.dump = (DUMP >> DUMP) + Pred(
        ((ip.header.dont_frag == 1) & (ip.temp.offset == 0)) | ((ip.header.more_frag == 0) & (ip.temp.offset == 0))
    )
    ip.psm.frag = (DUMP >> FRAG) + Pred((ip.header.more_frag == 1) | (ip.temp.offset != 0))
    ip.psm.more = (FRAG >> FRAG) + Pred(ip.header.more_frag == 1)
    ip.psm.last = (FRAG >> DUMP) + Pred(ip.v.header.more_frag == 0)
    taken = cast(Any, ip.psm)
    ip.event.asm = If(taken.dump | taken.last) >> Assemble()
    return ip


@pytest.fixture(scope="module")
def program() -> Program:
    stack = Stack()
    stack.eth = eth_parser()
    stack.ip = ip_parser()
    stack += (stack.eth >> stack.ip) + Pred(stack.eth.header.type == 0x800)
    return build(stack, frozenset({Hook("*", "data"), Hook("*", "gap"), Hook("*", "end")}))


def size(program: Program) -> int:
    """Number of instructions."""
    return sum(1 for layer in program.layers.values() for graph in layer.graphs() for _ in graph.instructions())


def test_the_built_program_is_sound(program: Program):
    verify(program)


def test_smaller_and_nothing_left_to_do(program: Program):
    assert size(run(program, "constants")) < 0.75 * size(program)
    once = run(program)
    assert print_program(run(once)) == print_program(once)


def test_input_stays(program: Program):
    before = print_program(program)
    run(program)
    assert print_program(program) == before


def test_none(program: Program):
    assert run(program, "none") is program


def names_run(program: Program, passes: str | Iterable[str]) -> list[str]:
    seen: list[str] = []
    run(program, passes, observer=lambda name, _: seen.append(name))
    return seen


def test_by_name(program: Program):
    assert names_run(program, "all") == [item.name for item in PASSES]
    assert names_run(program, "none") == []
    assert names_run(program, []) == []
    for item in PASSES:
        assert names_run(program, [item.name]) == [item.name]
        assert names_run(program, item.name) == [item.name]


def test_order_is_that_of_the_pipeline(program: Program):
    backwards = [item.name for item in reversed(PASSES)]
    assert names_run(program, backwards) == backwards[::-1]


def test_every_pass_alone_leaves_a_sound_program(program: Program):
    for item in PASSES:
        result = run(program, [item.name])
        assert size(result) <= size(program) or item.name in LARGER
        assert print_program(run(result, [item.name])) == print_program(result)


def test_names_are_unique():
    assert len({item.name for item in PASSES}) == len(PASSES)


def test_unknown_name(program: Program):
    with pytest.raises(UnknownPassError) as caught:
        run(program, ["tails", "constant"])
    assert str(caught.value) == (
        "unknown pass 'constant': do you mean 'constants'? "
        "Known are dispatch, constants, lifting, prediction, forwarding, tails, path_keys, split_stateless, deferral, "
        "sinking, template, lookahead, padding, merge_sides, lazy_init, header_prefetch, short_circuit "
        "(or 'all', 'none')"
    )
    with pytest.raises(UnknownPassError, match=r"^unknown pass 'x'. Known are dispatch, constants, .* \(or"):
        run(program, "x")
    with pytest.raises(UnknownPassError, match="'all' stands alone, it is not one of several passes"):
        run(program, ["all", "tails"])


def test_what_a_pass_leaves_as_it_is_stays_the_same_object(program: Program):
    once = run(program)
    assert run(once) is once
    for item in PASSES:
        assert item.run(once) is once


def test_only_what_changed_is_verified_again(program: Program, monkeypatch: pytest.MonkeyPatch):
    """Every graph of the last program once. When it is wrong, those of the first, and what each pass changed."""
    looked: list[str] = []
    monkeypatch.setitem(RULES, "kinds", lambda subject: looked.append(subject.graph.name))

    def touch_ip(program: Program) -> Program:
        layer = program.layers["ip"]
        ip = dataclasses.replace(layer, main=copy_graph(layer.main))
        return dataclasses.replace(program, layers={**program.layers, "ip": ip})

    passes = (Pass("touch", touch_ip), Pass("nothing", lambda same: same))
    monkeypatch.setattr(pipeline, "PASSES", passes)
    run(program)
    everything = [graph.name for layer in program.layers.values() for graph in layer.graphs()]
    assert looked == everything
    looked.clear()
    monkeypatch.setattr(pipeline, "PASSES", (*passes, Pass("broken", without_checks)))
    with pytest.raises(VerifyError, match="after pass 'broken'"):
        run(program)
    assert looked == [*everything, *everything, program.layers["ip"].main.name, *everything]


def test_a_pass_that_fails_on_a_broken_program_is_not_to_blame(program: Program, monkeypatch: pytest.MonkeyPatch):
    def fails(program: Program) -> Program:
        raise KeyError("missing")

    monkeypatch.setattr(pipeline, "PASSES", (Pass("broken", without_checks), Pass("fails", fails)))
    with pytest.raises(VerifyError, match="after pass 'broken'"):
        run(program)
    monkeypatch.setattr(pipeline, "PASSES", (Pass("fails", fails),))
    with pytest.raises(KeyError, match="missing"):
        run(program)


def test_graphs_in_changed_surroundings_are_verified_again(program: Program, monkeypatch: pytest.MonkeyPatch):
    def without_fields(program: Program) -> Program:
        layer = program.layers["ip"]
        assert layer.instance is not None
        ip = dataclasses.replace(layer, instance=dataclasses.replace(layer.instance, fields=()))
        return dataclasses.replace(program, layers={**program.layers, "ip": ip})

    monkeypatch.setattr(pipeline, "PASSES", (Pass("broken", without_fields),))
    with pytest.raises(VerifyError, match=r"^after pass 'broken'.* is no field of the layer's instance"):
        run(program)


def test_a_slot_that_is_no_longer_filled(monkeypatch: pytest.MonkeyPatch):
    """The layer that reads it did not change; the one below it did."""
    reader = parse_graph(
        "graph up (local.unit:bytes) uses (slot.x:u8)\nentry:\n  Branch(slot.x) yes: a, no: b\n"
        "a:\n  End('a')\nb:\n  End('b')\n"
    )
    filler = parse_graph(
        "graph low (local.unit:bytes)\nentry:\n  slot.x:u8 = Assign(1)\n  NextLayer('up', local.unit)\n  End('e')\n"
    )
    layers = {
        "low": LayerProgram("low", "low", "p", filler),
        "up": LayerProgram("up", "up", "p", reader),
    }
    program = Program("test", layers, ((None, "low"),), (Reg("slot.x", 8),), 4)

    def without_fill(program: Program) -> Program:
        result = copy_program(program)
        del result.layers["low"].main.blocks["entry"].instructions[0]
        low = result.layers["low"]
        return dataclasses.replace(program, layers={**program.layers, "low": low})

    monkeypatch.setattr(pipeline, "PASSES", (Pass("broken", without_fill),))
    with pytest.raises(VerifyError, match=r"no layer fills slot\.x"):
        run(program)


def test_observer_sees_every_program(program: Program):
    seen: list[tuple[str, Program]] = []
    result = run(program, observer=lambda name, after: seen.append((name, after)))
    assert [name for name, _ in seen] == [item.name for item in PASSES]
    assert seen[-1][1] is result


def without_checks(program: Program) -> Program:
    """A broken pass: it reads where nothing was checked."""
    result = copy_program(program)
    for layer in result.layers.values():
        for block in layer.main.blocks.values():
            for place, item in enumerate(block.instructions):
                if isinstance(item, Load):
                    block.instructions[place] = with_operands(item, at=item.at + 8000)
    return result


@pytest.mark.parametrize("at, size", [(0, 1006), (3, 1014), (len(PASSES), 1014)])
def test_verifier_names_the_pass_that_did_it(program: Program, at: int, size: int, monkeypatch: pytest.MonkeyPatch):
    """At any place of the pipeline, and whatever passes after it do."""
    monkeypatch.setattr(pipeline, "PASSES", (*PASSES[:at], Pass("broken", without_checks), *PASSES[at:]))
    with pytest.raises(VerifyError, match=rf"^after pass 'broken': graph 'eth'.* reads {size} bytes") as caught:
        run(program)
    assert caught.value.stage == "broken"


@pytest.mark.parametrize("name", [in_matrix("everything"), "quic"])
def test_every_pass_leaves_a_sound_program(name: str):
    """Of a whole stack; `run` looks only at what the last one leaves."""
    built = build(find_stack(name), frozenset({Hook("*", "data"), Hook("*", "end")}))
    run(built, observer=lambda _, after: verify(after))


def test_verifier_can_be_switched_off(program: Program, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pipeline, "PASSES", (Pass("broken", without_checks),))
    run(copy_program(program), verify=False)


def test_input_is_verified(program: Program):
    broken = copy_program(program)
    for block in broken.layers["eth"].main.blocks.values():
        for place, item in enumerate(block.instructions):
            if isinstance(item, NextLayer):
                block.instructions[place] = with_operands(item, layer="nowhere")
    with pytest.raises(VerifyError, match="layer 'nowhere' does not exist") as caught:
        run(broken)
    assert caught.value.stage == ""
