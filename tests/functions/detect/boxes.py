"""Boxes with `ids` over small stacks, compiled once, and the alerts that rules give about packets."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.functions import VENDOR, FunctionError, find_functions
from sluice.functions.detect.rules import Reader, RuleSet
from sluice.functions.detect.table import table
from sluice.stacks.find import find_stack
from tests.support.connection import Host, handshake, pair
from tests.support.conserve import check_all_ended, check_conservation
from tests.support.packets import UDP, eth, ip4, udp

START, SECOND = 1_700_000_000 * 10**9, 10**9


def missing(function: str, what: str) -> str:
    """Why a function cannot be compiled here; empty where it can."""
    if not VENDOR.is_dir():
        return "llhttp is not there: scripts/setup.sh gets it"
    try:
        find_functions([function])
    except FunctionError:
        return f"no {what}: scripts/setup.sh gets them"
    return ""


MISSING = missing("ids", "Hyperscan or PCRE2 (Debian: libhyperscan-dev, libpcre2-dev)")
needs_ids = pytest.mark.skipif(bool(MISSING), reason=MISSING)


@dataclass
class Alerts:
    """What a run came to: the rows, and what is counted."""

    rows: list[dict[str, Any]] = field(default_factory=lambda: [])
    reports: dict[str, int] = field(default_factory=lambda: {})

    @property
    def sids(self) -> list[int]:
        """The rules that alerted, in order; each as often as it did."""
        return [row["alert"]["signature_id"] for row in self.rows]

    @property
    def counts(self) -> Counter[int]:
        """How often each rule alerted."""
        return Counter(self.sids)


@cache
def compiled(stack: str = "tcp_ip") -> CompiledStack:
    """`ids` over a stack."""
    return compile_stack(find_stack(stack), tuple(find_functions(["ids"]).c))


@cache
def _table(rules: str, variables: tuple[tuple[str, str], ...]) -> bytes:
    """The table of a text of rules: several runs share it."""
    reader = Reader(dict(variables))
    reader.read(rules, "test.rules")
    return table(reader.found.rules)


def run(
    feed: Callable[[Box], object],
    rules: str,
    parameters: str = "",
    stack: str = "tcp_ip",
    variables: dict[str, str] | None = None,
    made: Callable[[RuleSet], bytes] | None = None,
    program: CompiledStack | None = None,
    keylog: Path | None = None,
) -> Alerts:
    """The alerts of rules about what `feed` gives a box; each run is checked for what must hold after it.

    program: `ids` over another stack. keylog: of the stack's layers.
    """
    found = Alerts()
    program = program or compiled(stack)
    settings = Settings(
        seed=1, timeouts=False, max_instances=1 << 16, natives={"keylog": str(keylog)} if keylog else {}
    )
    if made is None:
        stored = _table(rules, tuple(sorted((variables or {}).items())))
    else:
        reader = Reader(variables)
        reader.read(rules, "test.rules")
        stored = made(reader.found)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "table").write_bytes(stored)
        options = f"table={folder}/table,out={folder}/out{parameters and ',' + parameters}"
        with Box(program, settings, [], [options]) as box:
            feed(box)
            box.finish()
            found.reports = box.reports()
            check_conservation(program.program, box.counters())
            check_all_ended(program.program, box.counters())
        found.rows = [json.loads(line) for line in Path(folder, "out").read_text().splitlines()]
    return found


def packets(
    frames: Sequence[bytes],
    rules: str,
    parameters: str = "",
    *,
    step: float = 0.001,
    variables: dict[str, str] | None = None,
) -> Alerts:
    """The alerts about packets that come `step` seconds apart."""

    def feed(box: Box) -> None:
        for number, data in enumerate(frames):
            box.packet(data, START + int(number * step * SECOND), 1, len(data))

    return run(feed, rules, parameters, variables=variables)


Talk = Sequence[tuple[str, bytes]]
"""What two hosts say by turns: ">" the client, "<" the server."""


def connection(
    talk: Talk, cut: int = 1460, *, port: int = 80, client_port: int = 40000, close: bool = True
) -> list[bytes]:
    """The frames of a TCP connection between 10.0.0.1 and 10.0.0.2, in segments of at most `cut` bytes."""
    client, server = pair(port=client_port)
    server.port = port
    frames = handshake(client, server)
    for who, said in talk:
        host: Host = client if who == ">" else server
        frames += [host.data(said[at : at + cut]) for at in range(0, len(said), cut)]
    return [*frames, client.send("FA"), server.send("FA"), client.send("A")] if close else frames


def datagram(payload: bytes, sport: int = 1000, dport: int = 2000) -> bytes:
    """A UDP packet from 10.0.0.1 to 10.0.0.2."""
    return eth(ip4(udp(sport, dport, payload), UDP))


def rule(options: str, header: str = "tcp any any -> any any", sid: int = 1) -> str:
    """A rule."""
    return f'alert {header} (msg:"rule {sid}"; {options} sid:{sid};)\n'


def numbered(*options: str) -> str:
    """Rules on TCP with these options, numbered from 1."""
    return "".join(rule(each, sid=sid) for sid, each in enumerate(options, 1))


def fires(options: str, said: bytes, header: str = "tcp any any -> any any") -> bool:
    """Whether a rule alerts about what a client says on a TCP connection to port 80."""
    return bool(packets(connection([(">", said)]), rule(options, header)).rows)
