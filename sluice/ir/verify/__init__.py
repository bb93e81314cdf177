"""The verifier: the rules that a program must satisfy after lowering and after every pass. One file per rule.

`structure` comes first, because the other rules rely on complete blocks. The order of the others does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator

from sluice.ir.graph import PREFETCH_MOST, Program
from sluice.ir.verify import definitions, instance, kinds, native, paths, reads, sequence, slots, structure, traces
from sluice.ir.verify.subject import Subject, VerifyError, Whole

RULES = {
    module.RULE: module.check
    for module in (structure, kinds, paths, definitions, sequence, instance, native, slots, reads, traces)
}
ACROSS = (slots.RULE,)
"""Rules that a change in one graph can break in another graph."""


def verify(program: Program, before: Program | None = None) -> None:
    """Raises VerifyError unless `program` satisfies all rules.

    `before`: a verified program. Graphs that a pass took over from it without a change are not checked again, except by
    the rules in ACROSS.
    """
    for _, name in program.roots:
        if name not in program.layers:
            raise VerifyError("structure", f"packets enter at layer '{name}', which does not exist", program.name)
    if not 0 < program.prefetch <= PREFETCH_MOST:
        reason = f"prefetches {program.prefetch} bytes of a packet, it must be 1 to {PREFETCH_MOST}"
        raise VerifyError("structure", reason, program.name)
    if program is before:
        return
    known = set[int]() if before is None else _taken_over(program, before)
    subjects = list(_subjects(program))
    for name, rule in RULES.items():
        for subject in subjects:
            if id(subject.graph) not in known or name in ACROSS:
                rule(subject)


def _subjects(program: Program) -> Iterator[Subject]:
    whole = Whole(program)
    for layer in program.layers.values():
        for kind, graph in layer.graphs_by_kind():
            yield Subject(whole, layer, kind, graph)


def _taken_over(program: Program, before: Program) -> set[int]:
    """Identities of the graphs that both programs share, in layers that are otherwise equal."""
    if _outline(program) != _outline(before):
        return set()
    found: set[int] = set()
    for name, layer in program.layers.items():
        old = before.layers[name]
        around = (old.instance, old.rules, old.events) == (layer.instance, layer.rules, layer.events)
        for kind, graph in layer.graphs_by_kind():
            if graph is getattr(old, kind) and around:
                found.add(id(graph))
    return found


def _outline(program: Program) -> object:
    """What graphs may refer to outside their layer: the slots, the layers, and the kinds of graphs that each layer
    has.
    """
    return program.slots, {name: [kind for kind, _ in layer.graphs_by_kind()] for name, layer in program.layers.items()}


__all__ = ["RULES", "Subject", "VerifyError", "verify"]
