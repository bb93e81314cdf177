"""Which packets out of order leave a record: those that may have something to say in their turn."""

from sluice.ir.graph import Graph
from sluice.ir.instruction import Branch, RecordSeq
from sluice.lower.build import build
from sluice.stacks.find import find_stack


def asked_before_records(graph: Graph) -> set[str]:
    """The registers that decide whether a record is made."""
    recording = {name for name, block in graph.blocks.items() if any(isinstance(i, RecordSeq) for i in block.body)}
    return {
        reg.name
        for block in graph.blocks.values()
        if isinstance(last := block.terminator, Branch) and last.yes in recording
        for reg in last.read_registers()
    }


def test_bytes_without_a_fin_leave_none():
    """TCP asks of virtual packets whether they have a FIN: those without cannot matter in their turn."""
    program = build(find_stack("tcp_ip"))
    assert "header.fin" in asked_before_records(program.layers["tcp_over_ipv4"].main)


def test_every_fragment_leaves_one():
    """The last fragment of a datagram is the one whose flag is 0: it is what IPv4 waits for."""
    program = build(find_stack("tcp_ip"))
    asked = asked_before_records(program.layers["ipv4"].main)
    assert asked and not asked & {"header.more_frag", "header.offset"}
