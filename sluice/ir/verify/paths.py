"""Rule: every block is reachable, and from every block the graph can end."""

from __future__ import annotations

from sluice.ir.verify.subject import Subject

RULE = "paths"


def check(subject: Subject) -> None:
    """Refuses blocks that the entry cannot reach, and blocks that cannot reach an end."""
    graph = subject.graph
    reachable = set(graph.order())
    predecessors = graph.predecessors()
    waiting = [block.name for block in graph.blocks.values() if not block.terminator.targets()]
    ending = set(waiting)
    while waiting:
        for name in predecessors[waiting.pop()]:
            if name not in ending:
                ending.add(name)
                waiting.append(name)
    for block in graph.blocks.values():
        if block.name not in reachable:
            subject.fail(RULE, "no path from the entry leads to this block", block)
        if block.name not in ending:
            subject.fail(RULE, "no path from this block leads to an End or a Return", block)
