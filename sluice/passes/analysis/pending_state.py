"""The state of a packet that is pending for stage 2: when it may be initialised, and what of it lookahead changes."""

from __future__ import annotations

from sluice.ir.graph import GATHERED, Graph, LayerProgram, Program
from sluice.ir.instruction import LookAhead
from sluice.passes.analysis.fast_path import fast_path_stage, first_root, templates


def lookahead_graphs(program: Program, names: list[str]) -> list[Graph]:
    """The lookahead graphs of layers, and of the layers that these graphs continue to."""
    seen: dict[str, Graph] = {}
    to_see = list(names)
    while to_see:
        name = to_see.pop()
        graph = program.layers[name].lookahead
        if name in seen or graph is None:
            continue
        seen[name] = graph
        to_see += [i.layer for i in graph.instructions() if isinstance(i, LookAhead)]
    return list(seen.values())


def fills_slots(program: Program, layer: LayerProgram) -> bool:
    """Whether the lookahead graph of a layer, or of a layer that it continues to, fills slots."""
    graphs = lookahead_graphs(program, [layer.name])
    return any(reg.space == "slot" for graph in graphs for i in graph.instructions() for reg in i.written())


def may_be_lazy(program: Program) -> bool:
    """Whether the pending state may be initialised lazily: only for packets that leave the fast path.

    On the fast path, the end of the templates sets the layer that the packet is pending for. The stack must have no
    slots that layers add to. Its templates must not access byte slots, and lookahead after them must not read byte
    slots.
    """
    first, next_stage = first_root(program), fast_path_stage(program)
    if first is None or program.layers[first].template is None or next_stage is None:
        return False
    if next_stage.stateless is not None or any(slot.name.startswith(GATHERED) for slot in program.slots):
        return False
    graphs = [layer.template for layer in templates(program) if layer.template is not None]
    used = {reg for graph in graphs for i in graph.instructions() for reg in (*i.written(), *i.read_registers())}
    for graph in lookahead_graphs(program, [next_stage.name]):
        used |= {reg for i in graph.instructions() for reg in i.read_registers()}
    return not any(reg.space == "slot" and reg.is_bytes for reg in used)
