"""Files cut at every byte, packets cut at every length, through the whole stack."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.engine.box import Box, RunError, Settings
from tests.robust.cuts import FILES, cuts, records, samples, stack
from tests.support.budget import examples, thinned
from tests.support.capture import Edge, Packet, read_packets
from tests.support.conserve import Counters, check_all_ended, check_conservation
from tests.support.corpus import OWN, captures

FIRST_BYTES = examples(2000, 600)
CUT_FILES = ("gen__tcp_over_ipfrag.pcap", "seladb_PcapPlusPlus__pcapng-example.pcapng")


def counted(counters: Counters, kind: str) -> dict[str, int]:
    """Outcomes of one kind that have counted, by layer and name."""
    return {
        f"{layer} {name}": value
        for layer, found in counters.items()
        for name, value in found.items()
        if value and name.startswith(kind)
    }


@pytest.mark.parametrize("name", CUT_FILES)
def test_a_file_cut_anywhere(name: str, tmp_path: Path) -> None:
    """The packets before the cut are processed and counted; the fault is told wherever a record is cut."""
    file = (OWN / name).read_bytes()
    ends = records(file)
    path = tmp_path / name
    refused = 0
    for size in range(FIRST_BYTES + 1):
        path.write_bytes(file[:size])
        with Box(stack(), Settings(seed=1), [], [f"out={tmp_path / 'flows'}", ""]) as box:
            try:
                outcome = box.run(path)
            except RunError as error:
                assert "cut short" in str(error) or "empty" in str(error), str(error)
                assert refused == size, "a shorter file was readable"
                refused += 1
                continue
            assert outcome.packets == sum(packet for end, packet in ends if end <= size)
            assert (outcome.fault is None) == (size in dict(ends))
            check_conservation(stack().program, outcome.counters)
            check_all_ended(stack().program, outcome.counters)
    assert refused == ends[0][0], "the header of the file, or of its first section, is what it takes"


@pytest.mark.parametrize("name", FILES)
def test_a_packet_cut_by_the_snap_length(name: str, tmp_path: Path) -> None:
    """It ends as cut or goes on: what is missing is never taken for corruption."""
    packets = samples()[name]
    with Box(stack(), Settings(seed=1), [], [f"out={tmp_path / 'flows'}", ""]) as box:
        edge = Edge(box)
        for packet in packets:
            edge.packet(packet)
        whole = counted(box.counters(), "malformed:")
        for packet in packets:
            for size in cuts(packet):
                edge.packet(packet.cut(size, wire=False))
        check_conservation(stack().program, box.counters())
        box.finish()
        found = box.counters()
    assert found["box"]["packets"] == edge.number > len(packets) * 20
    check_conservation(stack().program, found)
    check_all_ended(stack().program, found)
    assert counted(found, "cut:")
    assert counted(found, "malformed:").keys() == whole.keys()


@pytest.mark.parametrize("name", FILES)
def test_a_packet_cut_on_the_wire(name: str, tmp_path: Path) -> None:
    """It is malformed or goes on: nothing is taken for cut by the snap length."""
    packets = samples()[name]
    with Box(stack(), Settings(seed=1), [], [f"out={tmp_path / 'flows'}", ""]) as box:
        edge = Edge(box)
        for packet in packets:
            for size in cuts(packet):
                edge.packet(packet.cut(size, wire=True))
        check_conservation(stack().program, box.counters())
        box.finish()
        found = box.counters()
    assert found["box"]["packets"] == edge.number
    check_conservation(stack().program, found)
    check_all_ended(stack().program, found)
    assert counted(found, "malformed:")
    if all(packet.length == len(packet.data) for packet in packets):
        assert not counted(found, "cut:")


def test_a_packet_longer_than_it_was() -> None:
    """A wire length far beyond what is captured: up to the largest that a frame can say."""
    with Box(stack(), Settings(seed=1), [], ["out=/dev/null", ""]) as box:
        edge = Edge(box)
        for packets in samples().values():
            for packet in packets:
                for length in (len(packet.data) + 1, 65535, 65536, 2**31, 2**32 - 1):
                    edge.packet(packet._replace(length=length))
        box.finish()
        check_conservation(stack().program, box.counters())
        check_all_ended(stack().program, box.counters())
        assert box.reports()["pool left"] == 0


@pytest.mark.corpus
@pytest.mark.parametrize("path", thinned(captures(), 12, id=lambda path: path.name))
def test_packets_that_are_gone_afterwards(path: Path, tmp_path: Path) -> None:
    """A packet's memory is the next one's: the flows are the same as from the file, where it stays."""
    settings = Settings(timeouts=False, seed=1)
    with Box(stack(), settings, [], [f"out={tmp_path / 'file'}", ""]) as box:
        box.run(path)
    packets: list[Packet] = read_packets(stack().compiled.path, path)
    with Box(stack(), settings, [], [f"out={tmp_path / 'edge'}", ""]) as box:
        edge = Edge(box)
        for packet in packets:
            edge.packet(packet)
        box.finish()
    assert (tmp_path / "file").read_text() == (tmp_path / "edge").read_text()
