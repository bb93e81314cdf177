"""What tests of traces share: running a program, the packets of a file, and what Sluice finds in it."""

from __future__ import annotations

import functools
import json
import struct
import subprocess
from pathlib import Path
from typing import Any

from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.functions import find_functions
from sluice.stacks.find import find_stack

CORPUS = Path(__file__).resolve().parents[1] / "corpus"
IN_ORDER = CORPUS / "sdnfv_openNetVM__64B_download.pcap"
"""750 connections over 14,328 packets, each in order."""

Ends = tuple[tuple[bytes, int], ...]


def answer(program: Path, *arguments: object) -> dict[str, Any]:
    """What a program prints as JSON."""
    words = [str(word) for word in (program, *arguments)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def packets(path: Path) -> list[bytes]:
    """Of a pcap file in little-endian byte order."""
    data = path.read_bytes()
    found: list[bytes] = []
    at = 24
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at + 8)
        found.append(data[at + 16 : at + 16 + size])
        at += 16 + size
    return found


def ends(packet: bytes) -> Ends:
    """Both ends of TCP over IPv4, the lower one first."""
    ports = struct.unpack_from(">HH", packet, 34)
    return tuple(sorted([(packet[26:30], ports[0]), (packet[30:34], ports[1])]))


def by_ends(path: Path) -> dict[Ends, list[bytes]]:
    """The packets of each connection, in order."""
    found: dict[Ends, list[bytes]] = {}
    for packet in packets(path):
        found.setdefault(ends(packet), []).append(packet)
    return found


@functools.cache
def compiled(stack: str, function: str) -> CompiledStack:
    """A stack with a ready function."""
    return compile_stack(find_stack(stack), tuple(find_functions([function]).c))


def assembled(path: Path, stack: str = "tcp_ip") -> dict[str, int]:
    """Bytes and TCP connections that Sluice finds."""
    with Box(compiled(stack, "assemble"), Settings(seed=1, timeouts=False), [], [""]) as box:
        box.run(str(path))
        box.finish()
        tcp = next(layer for name, layer in box.counters().items() if name.startswith("tcp"))
        return {"bytes": box.reports()["delivered_bytes"], "connections": tcp["instances"]}


def rows(path: Path, folder: Path) -> list[dict[str, Any]]:
    """The flow log of a trace."""
    out = folder / "flows.jsonl"
    with Box(compiled("tcp_ip", "flow_log"), Settings(seed=1, timeouts=False), [], [f"out={out}"]) as box:
        box.run(str(path))
    return [json.loads(line) for line in out.read_text().splitlines()]
