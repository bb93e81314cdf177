"""Functions in Python that drop packets and reset connections (sluice.functions.Verdicts)."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.cli.main import main
from sluice.engine.box import Box, Settings, compile_stack
from sluice.engine.functions import Wanted, load_python
from tests.chain.running import small_stack
from tests.support.capture import pcap, read_packets
from tests.support.connection import handshake, pair

GUARD = """
from sluice.functions import Verdicts, at_end, counter, on, parameter

word = parameter("attack", "which is stopped")
how = parameter("drop", "or reset")
too_late = counter("decisions that were none")
verdicts = Verdicts()
seen = []


@on("tcp", "data")
def look(event):
    seen.append(event)
    if word.encode() in event.bytes:
        (verdicts.reset if how == "reset" else verdicts.drop)(event)


@at_end
def late():
    too_late.value += sum(not verdicts.drop(event) for event in seen)
"""


def left(folder: Path, packets: list[bytes], options: str = "") -> tuple[list[bytes], dict[str, int]]:
    (folder / "guard.py").write_text(GUARD)
    wanted = Wanted(python=[load_python(folder / "guard.py", options)])
    assert wanted.python_decides()
    stack = compile_stack(small_stack(), (), wanted.python_hooks(), decides=True)
    with Box(stack, Settings(max_instances=1 << 8), wanted.python, output=folder / "out.pcap") as box:
        box.burst([(packet, 10**18 + number, 1, None) for number, packet in enumerate(packets)])
        box.finish()
        reports = box.reports()
    return [packet.data for packet in read_packets(stack.compiled.path, folder / "out.pcap")], reports


def talk() -> list[bytes]:
    client, server = pair()
    return [*handshake(client, server), client.data(b"hello"), client.data(b"an attack"), client.data(b"more")]


def test_a_packet_is_dropped_within_its_burst(tmp_path: Path) -> None:
    packets = talk()
    found, reports = left(tmp_path, packets)
    assert found == [*packets[:4], packets[5]]
    assert reports["packets_dropped"] == 1
    assert reports["too_late"] == 3, "after its packet, an event decides nothing"


def test_a_connection_is_reset(tmp_path: Path) -> None:
    packets = talk()
    found, reports = left(tmp_path, packets, "how=reset")
    assert found[:4] == packets[:4] and reports["packets_sent"] == 2
    assert [packet[47] & 4 for packet in found[4:6]] == [4, 4], "RST to both ends"


def test_the_command_writes_what_leaves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "guard.py").write_text(GUARD)
    (tmp_path / "stack.py").write_text(STACK)
    (tmp_path / "in.pcap").write_bytes(pcap(talk()))
    given = ["run", str(tmp_path / "stack.py"), "-r", str(tmp_path / "in.pcap"), "-f", str(tmp_path / "guard.py")]
    assert main([*given, "-w", str(tmp_path / "out.pcap")]) == 0
    assert (tmp_path / "out.pcap").stat().st_size == (tmp_path / "in.pcap").stat().st_size - 16 - 54 - len("an attack")
    assert main(given) == 0
    assert "note: guard.py: drops, changes or sends packets" in capsys.readouterr().err


STACK = """
from tests.chain.running import small_stack

stack = small_stack()
"""
