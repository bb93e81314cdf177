"""Results of the analyses of a program (sluice/passes/analysis) for its C, as rows: `sluice explain --analyses`."""

from __future__ import annotations

from collections.abc import Iterator

from sluice.ir.graph import Program
from sluice.ir.instruction import INSERTS_PACKET, USES_PACKET
from sluice.passes.analysis.fast_path import counted_per_burst, fast_path_stage, is_path_implicit, templates
from sluice.passes.analysis.packet_bytes import PacketBytes
from sluice.passes.analysis.packet_reads import call_native, lookahead_reads_path, prefetches_instances, read_path
from sluice.passes.analysis.pending_state import fills_slots


def analyses(program: Program, only: str | None = None) -> Iterator[tuple[str, str]]:
    """The subject and the result of each. only: a layer, by its name in the stack or in the program."""
    if only is None:
        yield from _of_program(program)
    for layer in program.layers.values():
        if only not in (None, layer.name, layer.layer):
            continue
        decided = [
            *(["a graph reads the path"] if read_path([layer]) else []),
            *(["lookahead reads the path, or goes on"] if lookahead_reads_path(layer) else []),
            *(["lookahead prefetches instances"] if prefetches_instances(layer) else []),
            *(["lookahead fills slots"] if fills_slots(program, layer) else []),
            *(["calls a native module"] if call_native([layer]) else []),
        ]
        if decided:
            yield f"layer {layer.name}", "; ".join(decided)
        if layer.rules is not None and any(
            isinstance(i, (*INSERTS_PACKET, *USES_PACKET)) for i in layer.main.instructions()
        ):
            yield f"bytes of the packet in {layer.name}.main", f"from {', '.join(PacketBytes(layer.main).places())}"


def _of_program(program: Program) -> Iterator[tuple[str, str]]:
    stage = fast_path_stage(program)
    yield "fast path", _listed([layer.name for layer in templates(program)])
    yield "where it ends", stage.name if stage is not None else "none"
    yield "counted once per group", _listed([layer.name for layer in counted_per_burst(program)])
    yield "path of a packet", "stored where it is read" if is_path_implicit(program) else "stored for every packet"
    yield "pending state", "initialised off the fast path" if program.pending_lazily else "initialised for every packet"
    yield "header bytes prefetched", str(program.prefetch)


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "none"
