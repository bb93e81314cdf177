"""Real SCTP: what two ends of usrsctp tell each other over a link that loses and reorders, message by message.

The ends (tests/support/sctp_pair.c) say what they sent and what they got; the capture is what the link delivered.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sluice.engine.box import Box, CompiledStack, Settings
from sluice.engine.events import PythonFunction, Seen
from tests.support.budget import thinned
from tests.support.stacks import all_protocols

SOURCE = Path(__file__).resolve().parents[1] / "support" / "sctp_pair.c"
MESSAGES = 120
DATA, I_DATA, FORWARD_TSN, I_FORWARD_TSN = 0, 64, 192, 194
UNORDERED, END = 4, 1


class Message(NamedTuple):
    """As an application sends it, or gets it."""

    stream: int
    ppid: int
    unordered: int
    number: int
    length: int


def stack() -> CompiledStack:
    return all_protocols("checksums")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program. Skips where usrsctp is not installed; fails where nothing keeps one from getting it."""
    program = tmp_path_factory.mktemp("sctp") / "pair"
    command = ["cc", "-std=gnu11", "-Wall", "-Wextra", "-O1", "-o", str(program), str(SOURCE), "-lusrsctp", "-lpthread"]
    made = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if "usrsctp.h" in made.stderr:
        hint = "libusrsctp-dev is not installed: `scripts/setup.sh --tools` gets it, as root"
        if os.environ.get("CI") and os.geteuid() == 0:
            pytest.fail(hint)
        pytest.skip(hint)
    assert made.returncode == 0 and made.stderr == "", made.stderr
    return program


def talk(pair: Path, capture: Path, seed: int, loss: int, how: str = "") -> dict[str, tuple[list[Message], ...]]:
    """What each side sent (S), and what of it the other got (R)."""
    command = [str(pair), str(seed), str(loss), str(MESSAGES), str(capture), *how.split()]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    found: dict[str, tuple[list[Message], ...]] = {"S": ([], []), "R": ([], [])}
    for line in said.stdout.splitlines():
        kind, side, *rest = line.split()
        found[kind][int(side)].append(Message(*map(int, rest)))
    assert all(len(messages) == MESSAGES for messages in found["S"])
    assert "partial" in how or all(len(messages) == MESSAGES for messages in found["R"])
    return found


def hear(capture: Path) -> tuple[dict[tuple[int, int], list[tuple[Message, bytes]]], list[dict[str, Any]]]:
    """Messages as Sluice delivers them, by association and side of the sender; and the rows of `sluice flows`."""
    found: dict[tuple[int, int], list[tuple[Message, bytes]]] = defaultdict(list)

    def message(event: Seen) -> None:
        said = int.from_bytes(event.data[:4], "big")
        one = Message(event.stream, event.ppid, event.unordered, said, len(event.data))
        found[event.association, event.to_active].append((one, event.data))

    rows = capture.with_suffix(".jsonl")
    handlers = [("sctp_message", "message", message)]
    with Box(stack(), Settings(timeouts=False, seed=1), [PythonFunction("all", handlers, [])], [f"out={rows}"]) as box:
        box.run(capture)
    return found, [row for row in map(json.loads, rows.read_text().splitlines()) if row["proto"] == "sctp"]


def by_stream(messages: list[Message]) -> dict[int, list[Message]]:
    """The ordered messages of each stream, in their order."""
    found: dict[int, list[Message]] = defaultdict(list)
    for message in messages:
        if not message.unordered:
            found[message.stream].append(message)
    return found


def check_bytes(messages: list[tuple[Message, bytes]]) -> None:
    """Each message has the bytes that its number stands for."""
    for message, data in messages:
        assert data[4:] == bytes((message.number * 31 + place) % 256 for place in range(4, message.length))


@pytest.mark.parametrize("how", ["", "udp", "homes", "interleaved"], ids=["ip", "udp", "two addresses", "I-DATA"])
@pytest.mark.parametrize("loss", [0, 5, 20])
@pytest.mark.parametrize("seed", thinned([1, 2], 2))
def test_messages_are_those_that_were_sent(pair: Path, tmp_path: Path, seed: int, loss: int, how: str) -> None:
    capture = tmp_path / "pair.pcap"
    said = talk(pair, capture, seed, loss, how)
    heard, rows = hear(capture)
    assert len(heard) == 2 and len({association for association, _ in heard}) == 1
    for side in (0, 1):
        (found,) = [messages for (_, sender), messages in heard.items() if sender == side]
        check_bytes(found)
        delivered = [message for message, _ in found]
        assert sorted(delivered) == sorted(said["S"][side])
        assert by_stream(delivered) == by_stream(said["S"][side]) == by_stream(said["R"][side])
    (row,) = rows
    assert (row["state"], row["end"], row["gaps"]) == ("TERMINATED", "closed", [])
    sent = [sum(message.length for message in said["S"][side]) for side in (0, 1)]
    assert [row["src_stream"], row["dst_stream"]] == sent
    assert "malformed:checksum" not in {key for key, value in checksum_counters(capture).items() if value}


class Chunk(NamedTuple):
    """Of a capture, a chunk and who sent it."""

    src: bytes
    type: int
    flags: int
    rest: bytes


def chunks(capture: Path) -> Iterator[Chunk]:
    """The chunks of raw IPv4 packets, in order."""
    rest = capture.read_bytes()[24:]
    while rest:
        size = int.from_bytes(rest[8:12], "little")
        packet, rest = rest[16 : 16 + size], rest[16 + size :]
        at = 32
        while at < len(packet):
            kind, flags, length = struct.unpack_from(">BBH", packet, at)
            yield Chunk(packet[12:16], kind, flags, packet[at + 4 : at + length])
            at += length + 3 & ~3


def test_fragments_of_messages_come_in_turn(pair: Path, tmp_path: Path) -> None:
    """The ends do what is to be tested: I-DATA alone, fragments between those of another stream's message."""
    capture = tmp_path / "pair.pcap"
    talk(pair, capture, 1, 0, "interleaved")
    open_messages: dict[bytes, set[tuple[int, int, int]]] = defaultdict(set)
    at_once = 0
    for chunk in chunks(capture):
        assert chunk.type != DATA
        if chunk.type == I_DATA:
            stream, _, mid = struct.unpack_from(">HHI", chunk.rest, 4)
            message = stream, chunk.flags & UNORDERED, mid
            own = open_messages[chunk.src]
            own.add(message)
            at_once = max(at_once, len(own))
            if chunk.flags & END:
                own.discard(message)
    assert at_once > 3


@pytest.mark.parametrize("how", ["partial", "interleaved partial"])
@pytest.mark.parametrize("loss", [2, 10])
@pytest.mark.parametrize("seed", thinned([1, 2, 3], 3))
def test_messages_that_are_given_up(pair: Path, tmp_path: Path, seed: int, loss: int, how: str) -> None:
    """RFC 3758: what the receiver got is told, and no part of what it did not get."""
    capture = tmp_path / "pair.pcap"
    said = talk(pair, capture, seed, loss, how)
    skips = [chunk for chunk in chunks(capture) if chunk.type == (I_FORWARD_TSN if "inter" in how else FORWARD_TSN)]
    assert skips
    heard, rows = hear(capture)
    for side in (0, 1):
        (found,) = [messages for (_, sender), messages in heard.items() if sender == side]
        check_bytes(found)
        delivered = [message for message, _ in found]
        assert sorted(delivered) == sorted(said["R"][side])
        assert by_stream(delivered) == by_stream(said["R"][side])
    (row,) = rows
    assert (row["state"], row["end"]) == ("TERMINATED", "closed")


def checksum_counters(capture: Path) -> dict[str, int]:
    """Counters of the common header."""
    with Box(stack(), Settings(timeouts=False, seed=1), [], [f"out={capture}.again"]) as box:
        box.run(capture)
        return box.counters()["sctp_packet_over_ipv4"]
