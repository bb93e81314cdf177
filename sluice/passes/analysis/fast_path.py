"""The fast path: the consecutive layers that templates cover, and the work that is done there once per group of packets
instead of once per packet.

Nearly all packets of a group take the fast path. The few that leave it are counted, and the number of the others
follows from that count. So the fast path itself counts no packets. It counts bytes only above a layer that forwards a
varying part of its unit. The path of a packet is stored only where it is read: where a packet leaves the fast path,
and where it becomes pending for a layer that needs the path. Both save instructions for every packet.
"""

from __future__ import annotations

from sluice.ir.graph import LayerProgram, Program
from sluice.ir.instruction import NextStateless


def templates(program: Program) -> list[LayerProgram]:
    """The layers that have templates, in the order of a packet's path."""
    out: list[LayerProgram] = []
    name = program.roots[0][1] if program.roots else None
    while name is not None and (layer := program.layers[name]).template is not None and layer not in out:
        out.append(layer)
        name = lead(layer).layer
    return out


def lead(layer: LayerProgram) -> NextStateless:
    """The terminator by which a layer's template forwards a packet to the next layer."""
    assert layer.template is not None
    return next(i for i in layer.template.instructions() if isinstance(i, NextStateless))


def fast_path_stage(program: Program) -> LayerProgram | None:
    """The layer that the last template forwards to. Packets become pending there, unless it has a stateless graph."""
    covered = templates(program)
    return program.layers[lead(covered[-1]).layer] if covered else None


def first_root(program: Program) -> str | None:
    """The layer of the link type that is tested first."""
    return sorted(program.roots, key=lambda root: root[0] is None)[0][1] if program.roots else None


def counted_per_burst(program: Program) -> list[LayerProgram]:
    """The layers with templates that packets enter only from the template before or, the first, by one link type."""
    if first_root(program) != (program.roots[0][1] if program.roots else None):
        return []
    out: list[LayerProgram] = []
    for layer in templates(program):
        if [name for _, name in program.roots].count(layer.name) > (not out):
            break
        out.append(layer)
    return out


def is_path_implicit(program: Program) -> bool:
    """Whether the path is stored only where it is read: each template is entered by one path, and no layer defers to
    stage 2, as the deferred work would read the path before that.
    """
    covered = templates(program)
    return len(counted_per_burst(program)) == len(covered) and all(
        layer.deferred is None for layer in program.layers.values()
    )
