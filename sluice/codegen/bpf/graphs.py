"""What a program of the kernel knows of the dispatch graphs of a stack: their order, their registers, and sizes of bytes."""

from __future__ import annotations

from functools import cache

from sluice.ir import instruction as ir
from sluice.ir.expression import Const, Reg
from sluice.ir.graph import Graph


def above(graph: Graph) -> set[str]:
    """The layers to which a graph forwards packets."""
    return {i.layer for i in graph.instructions() if isinstance(i, ir.NextDispatch)}


def cyclic(graphs: dict[str, Graph]) -> set[str]:
    """The layers that a packet may enter twice."""
    further = _further({name: above(graph) for name, graph in graphs.items()})
    return {name for name in graphs if name in further[name]}


def is_longer(graphs: dict[str, Graph], first: str, most: int) -> bool:
    """Whether a path from layer `first` on that enters none twice has more layers than `most`.

    Outside of cycles, the longest path from a layer on is the same whatever was before it. Within a strongly connected
    component, it depends on which of its layers are left. They are looked at only if the sizes of components do not
    suffice.
    """
    after = {name: above(graph) for name, graph in graphs.items()}
    further = _further(after)
    component = {name: frozenset({name} | {o for o in further[name] if name in further[o]}) for name in graphs}

    @cache
    def bound(name: str) -> int:
        own = component[name]
        return len(own) + max((bound(other) for member in own for other in after[member] - own), default=0)

    @cache
    def exceeds(name: str, left: frozenset[str], most: int) -> bool:
        """left: layers of its component that the path has not entered."""
        allowed = (after[name] - component[name]) | (after[name] & left)
        return not most or any(
            exceeds(other, (left if other in left else component[other]) - {other}, most - 1) for other in allowed
        )

    return bound(first) > most and exceeds(first, component[first] - {first}, most)


def _further(after: dict[str, set[str]]) -> dict[str, set[str]]:
    """By layer, those that a packet may enter after it. after: those that it may enter next."""
    found: dict[str, set[str]] = {}
    for name in after:
        seen: set[str] = set()
        waiting = [name]
        while waiting:
            more = after[waiting.pop()] - seen
            seen |= more
            waiting += more
        found[name] = seen
    return found


def registers_of(graph: Graph) -> list[Reg]:
    """The registers of a graph, in the order of their first use."""
    found: dict[str, Reg] = {reg.name: reg for reg in graph.parameters}
    for i in graph.instructions():
        for reg in (*i.read_registers(), *i.written()):
            found.setdefault(reg.name, reg)
    return list(found.values())


def sizes_of_bytes(graphs: dict[str, Graph]) -> dict[str, int]:
    """By register with bytes (of a layer, with its name), their number, where all that sets it agrees. A slot that no layer
    has set has none.
    """
    found: dict[str, set[int | str | None]] = {}
    for layer, graph in graphs.items():
        for i in graph.instructions():
            for reg in i.written():
                if reg.is_bytes:
                    found.setdefault(named(layer, reg), set()).add(_size_set(layer, i))
    sizes: dict[str, int] = {}
    while more := {
        name: size
        for name, given in found.items()
        if name not in sizes
        for size, *others in ([*{sizes.get(one) if isinstance(one, str) else one for one in given}],)
        if size is not None and not others
    }:
        sizes |= more
    return sizes


def named(layer: str, reg: Reg) -> str:
    """The name of a register among those of all layers."""
    return reg.name if reg.space == "slot" else f"{layer} {reg.name}"


def _size_set(layer: str, i: ir.Instruction) -> int | str | None:
    """The number of bytes that a register gets, or the register whose number it is."""
    match i:
        case ir.LoadBytes(size=Const(value)):
            return value
        case ir.Assign(value=Reg() as other):
            return named(layer, other)
        case _:
            return None
