"""Rule: instructions on sequences occur only in layers with a sequence, with the fields of that layer's records. The
data of the packet is initialised once, before it is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sluice.ir.dataflow import forward
from sluice.ir.graph import Block
from sluice.ir.instruction import INSERTS_PACKET, USES_PACKET, InitPacketData, Instruction, RecordSeq, ReleaseSeq
from sluice.ir.verify.subject import Subject

RULE = "sequence"


def check(subject: Subject) -> None:
    """Every instruction on sequences is in a layer that has one."""
    rules = subject.layer.rules
    for block in subject.graph.blocks.values():
        for instruction in block.instructions:
            if rules is None:
                if instruction.NEEDS_SEQUENCE:
                    subject.fail(RULE, "the layer has no sequence", block, instruction)
            elif isinstance(instruction, (RecordSeq, ReleaseSeq)) and len(instruction.values) != len(rules.record):
                subject.fail(RULE, f"a record of the layer has {len(rules.record)} fields", block, instruction)
    _check_packet_data(subject)


class _Data(NamedTuple):
    """The data of the packet: whether it is initialised on all paths to a place, and on some, and whether bytes are
    inserted on some.
    """

    initialised: bool = False
    may_be_initialised: bool = False
    may_be_inserted: bool = False

    def after(self, instruction: Instruction) -> _Data:
        """The data after an instruction."""
        if isinstance(instruction, InitPacketData):
            return _Data(True, True, self.may_be_inserted)
        return self._replace(may_be_inserted=True) if isinstance(instruction, INSERTS_PACKET) else self


def _check_packet_data(subject: Subject) -> None:
    """On every path through a graph that initialises the data of the packet, it does so once and before each use."""
    graph = subject.graph
    if not any(isinstance(instruction, InitPacketData) for instruction in graph.instructions()):
        return

    def flow(block: Block, data: _Data) -> Iterator[tuple[str, _Data]]:
        for instruction in block.instructions:
            data = data.after(instruction)
        for target in block.terminator.targets():
            yield target, data

    def meet(one: _Data, other: _Data) -> _Data:
        inserted = one.may_be_inserted or other.may_be_inserted
        return _Data(
            one.initialised and other.initialised, one.may_be_initialised or other.may_be_initialised, inserted
        )

    for name, data in forward(graph, _Data(), flow, meet).items():
        block = graph.blocks[name]
        for instruction in block.instructions:
            if isinstance(instruction, InitPacketData) and data.may_be_initialised:
                subject.fail(RULE, "a path to it has initialised the data of the packet", block, instruction)
            used = isinstance(instruction, INSERTS_PACKET) or (
                data.may_be_inserted and isinstance(instruction, USES_PACKET)
            )
            if used and not data.initialised:
                subject.fail(RULE, "a path to it has not initialised the data of the packet", block, instruction)
            data = data.after(instruction)
