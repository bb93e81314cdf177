"""The verifier: what every program must keep to, however many passes it went through. One file a rule.

`structure` comes first, as the other rules take whole blocks for granted; after it any order would do.
"""

from __future__ import annotations

from collections.abc import Iterator

from sluice.ir.graph import Program
from sluice.ir.verify import definitions, instance, kinds, paths, reads, sequence, slots, structure
from sluice.ir.verify.subject import DRAIN, END, MAIN, Subject, VerifyError

RULES = {
    module.RULE: module.check
    for module in (structure, kinds, paths, definitions, sequence, instance, slots, reads)
}


def verify(program: Program) -> None:
    """Raises VerifyError unless `program` keeps all rules."""
    for _, name in program.roots:
        if name not in program.layers:
            raise VerifyError(
                "structure", f"packets enter at layer '{name}', which does not exist", program.name
            )
    subjects = list(_subjects(program))
    for rule in RULES.values():
        for subject in subjects:
            rule(subject)


def _subjects(program: Program) -> Iterator[Subject]:
    for layer in program.layers.values():
        for kind, graph in ((MAIN, layer.main), (DRAIN, layer.drain), (END, layer.end)):
            if graph is not None:
                yield Subject(program, layer, kind, graph)


__all__ = ["RULES", "Subject", "VerifyError", "verify"]
