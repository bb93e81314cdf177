"""What lifting knows as bits is what it would know as a dictionary, on every way out of every block of real graphs."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.ir.copy import copy_graph
from sluice.ir.instruction import Branch
from sluice.lower.build import build
from sluice.passes import constants
from sluice.passes.analysis import new_instance
from sluice.passes.analysis.decisions import Decisions, Known, value_of
from sluice.passes.lifting import follow
from sluice.stacks.find import find_stack

LAYERS = ("ipv4", "tcp_over_ipv4")


@cache
def decisions_of(layer: str) -> tuple[Decisions, tuple[tuple[str, int], ...]]:
    """Of a layer's main graph, and the facts that following it meets."""
    found = build(find_stack("tcp_ip")).layers[layer]
    graph = copy_graph(found.main)
    constants.change(found, graph)
    decisions = Decisions(found, graph)
    assert follow(decisions, (new_instance.UNSTORED.name,), 10 * len(graph.blocks)) is not None
    return decisions, tuple(decisions.facts)


def ways(decisions: Decisions, name: str, known: Known) -> list[tuple[str, Known]]:
    """The ways out of a block, step by step."""
    now = dict(known)
    for step in decisions.steps[name]:
        step.apply(now)
    last = decisions.graph.blocks[name].terminator
    value = value_of(last.condition, now) if isinstance(last, Branch) else None
    return [
        (target, {reg: n for reg, n in now.items() if reg in decisions.live[target]} | told)
        for target, holds, told in decisions.exits[name]
        if value is None or bool(value) == holds
    ]


@pytest.mark.parametrize("layer", LAYERS)
@given(data=st.data())
def test_bits_mean_what_a_dictionary_means(layer: str, data: st.DataObject) -> None:
    decisions, facts = decisions_of(layer)
    name = data.draw(st.sampled_from(decisions.order), "block")
    live = sorted({reg for reg, _ in facts} & decisions.live[name])
    values = {reg: sorted({value for other, value in facts if other == reg} | {0, 1}) for reg in live}
    known = data.draw(st.fixed_dictionaries({}, optional={reg: st.sampled_from(values[reg]) for reg in live}), "known")
    before = decisions.bits(known)
    assert decisions.known(before) == known
    taken = decisions.paths(decisions.number[name], before)
    found = [(decisions.order[way.target], decisions.known(before & way.keeps | way.brings)) for way in taken]
    assert found == ways(decisions, name, known)
