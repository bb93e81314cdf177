"""What a program of the kernel knows of the dispatch graphs of a stack: their order, their registers, and sizes of bytes."""

from __future__ import annotations

from sluice.ir import instruction as ir
from sluice.ir.expression import Const, Reg
from sluice.ir.graph import Graph


def longest(graphs: dict[str, Graph], name: str, path: tuple[str, ...] = ()) -> int:
    """The number of layers on the longest path from one on that enters none twice."""
    if name in path:
        return 0
    return 1 + max((longest(graphs, other, (*path, name)) for other in above(graphs[name])), default=0)


def above(graph: Graph) -> set[str]:
    """The layers to which a graph forwards packets."""
    return {i.layer for i in graph.instructions() if isinstance(i, ir.NextDispatch)}


def cyclic(graphs: dict[str, Graph]) -> set[str]:
    """The layers that a packet may enter twice."""
    found: set[str] = set()
    for name in graphs:
        seen: set[str] = set()
        waiting = [name]
        while waiting:
            more = above(graphs[waiting.pop()]) - seen
            seen |= more
            waiting += more
        found |= {name} & seen
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
