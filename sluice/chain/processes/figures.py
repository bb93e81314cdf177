"""Reports and losses of the functions of an isolated chain, and the outcome of a run with these figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sluice.chain.processes.memory import Memory
from sluice.chain.processes.process import Process
from sluice.engine.box import Outcome


def counted(memory: Memory, number: int) -> dict[str, int]:
    """The losses of the functions in a place, by reason."""
    side, stack = memory.functions[number], memory.stack
    return {
        "events_skipped": side.skipped,
        "flows_lost": side.flows_lost,
        "events_lost": stack.lost[number],
        "events_without_room": stack.no_room[number],
        "not_published": side.not_published,
        "not_decided": side.not_decided,
    }


def figures(memory: Memory, process: Process) -> dict[str, int]:
    """The losses of a function, by reason."""
    if process.removed:
        return process.last
    found = counted(memory, process.part.number)
    return {
        "crashes": process.crashes,
        "clones": process.clones,
        **{name: max(0, value - process.before.get(name, 0)) for name, value in found.items()},
        **{f"tunnel_{name}": value for name, value in process.tunnel.items()},
    }


def of_chain(memory: Memory, processes: Iterable[Process]) -> dict[str, int]:
    """The losses of all functions, under the names of the reports, and the stack's drops and refusals for isolation."""
    found: dict[str, int] = {}
    for process in processes:
        for figure, value in figures(memory, process).items():
            name = f"{process.part.label}.{figure}"
            found |= {name: found.get(name, 0) + value} if value else {}
    for name in ("closed_drops", "invalid", "uncommitted", "log_drops"):
        value: int = getattr(memory.stack, name)
        found |= {f"isolated_{name}": value} if value else {}
    return found


def joined(outcome: Outcome, processes: Sequence[Process], isolation: dict[str, int]) -> Outcome:
    """The outcome of the stack with the reports of the functions, in the order of the fused chain.

    isolation: figures of the isolation itself, which come last.
    """
    in_c: dict[str, int] = {}
    python: dict[str, int] = {}
    for process in processes:
        found = python if process.part.python else in_c
        for figure, value in (process.reports or {}).items():
            found[figure] = found.get(figure, 0) + value  # of all instances
        outcome.failure = outcome.failure or process.failure
    of_stack = outcome.reports
    reports = {name: value + of_stack.get(name, 0) for name, value in in_c.items()}  # all of them may store streams
    outcome.reports = reports | {name: of_stack[name] for name in of_stack if name not in in_c} | python | isolation
    return outcome
