"""Alerts on real captures against a plain search of the same streams: none is missing, none is without its bytes."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.events import PythonFunction, Seen
from sluice.ir.hook import Hook
from sluice.stacks.find import find_stack
from tests.functions.detect.boxes import needs_ids, numbered, rule, run
from tests.support.corpus import captures, corpus

pytestmark = [pytest.mark.corpus, needs_ids]

PATTERNS = {
    1: (r'content:"HTTP/1.1"; nocase;', rb"(?i)HTTP/1\.1"),
    2: (r'content:"GET "; depth:4;', rb"\AGET "),
    3: (r'content:"|0d 0a|"; content:"Content-Type"; distance:0;', rb"\r\nContent-Type|\r\n.*Content-Type"),
    4: (r'content:"|16 03|"; depth:2; content:"|01|"; offset:5; depth:1;', rb"\A\x16\x03...\x01"),
    5: (r'content:"Server: "; content:"Apache"; within:6;', rb"Server: Apache"),
    6: (r'pcre:"/User-Agent: [A-Z][a-z]+\\//";', rb"User-Agent: [A-Z][a-z]+/"),
    7: (r'content:"www."; pcre:"/^[a-z]+\\.com/R";', rb"www\.[a-z]+\.com"),
    8: (r'content:"220 "; depth:4;', rb"\A220 "),
    9: (r'content:"|00 00 00 00|"; offset:100; depth:400;', rb"(?s)\A.{100,496}\x00\x00\x00\x00"),
    10: (r'pcre:"/[^ -~]{3}[a-z]{8}/";', rb"[^ -~]{3}[a-z]{8}"),
}
RULES = "".join(rule(options.replace("\\\\", "\\"), sid=sid) for sid, (options, _) in PATTERNS.items())
SURICATA: dict[str, dict[str, int]] = {
    "bug-3286-01-no-evasion-without_evasion": {'content:"THIS_IS_A_TEST"; nocase;': 1},
    "bug-3286-02-linux-evasion-with_evasion_linux": {'content:"THIS_IS_A_TEST"; nocase;': 1},
    "bug-6244-tcp-rst-with-data-tcp-rst-with-data": {
        'flow:no_stream; flags:R,A; content:"Access Denied"; depth:13; isdataat:!13;': 1,
        'flow:only_stream; content:"Access Denied";': 0,
        'content:"Please Let Me In!";': 1,
    },
    "tcp-fastopen-07-tcp_fastopen_segmentation": {
        'content:"d2";': 1,
        'content:"d3";': 1,
        'flow:no_stream; content:"d2";': 1,
        'flow:no_stream; content:"d3";': 1,
        'flow:only_stream; content:"d2";': 1,
        'flow:only_stream; content:"d3";': 1,
        'flow:only_stream; content:"d2d3";': 1,
        'content:"d2d3";': 1,
        'http.uri; content:"d2d3";': 1,
        'content:"GET";': 2,
        'flags:S; content:"GET";': 2,
        'http.method; content:"GET";': 2,
        'http.user_agent; content:"czx";': 1,
        'http.header; content:"Keep-Alive";': 1,
        'http.host; content:"10.0.0.61";': 1,
    },
}
"""Of captures of Suricata's test suite (suricata-verify): rules, and how often Suricata alerts by that suite."""

BLOCK = 1 << 20
"""So large that a whole stream lies in a window: then the plain search of all of it is the truth."""


@cache
def streams_only() -> CompiledStack:
    """The stack with nothing but the bytes of streams."""
    return compile_stack(find_stack("tcp_ip"), (), frozenset([Hook("tcp", "data"), Hook("tcp", "gap")]))


def streams(capture: Path) -> dict[tuple[int, int], list[bytearray]]:
    """What each side of each connection said, cut where bytes are missing."""
    found: dict[tuple[int, int], list[bytearray]] = defaultdict(lambda: [bytearray()])

    def data(event: Seen) -> None:
        found[event.instance, event.side][-1].extend(event.bytes)

    def gap(event: Seen) -> None:
        found[event.instance, event.side].append(bytearray())

    watch = PythonFunction("watch", [("tcp", "data", data), ("tcp", "gap", gap)], [])
    with Box(streams_only(), Settings(seed=1, timeouts=False, max_instances=1 << 16), [watch]) as box:
        box.run(capture)
        box.finish()
    return found


def expected(pieces: list[bytearray]) -> set[int]:
    """The rules that match a side's stream, by a plain search. One that counts from the beginning has only the first
    piece; the reference says nothing about the others.
    """
    found: set[int] = set()
    for sid, (_, text) in PATTERNS.items():
        anchored = b"\\A" in text
        if any(re.search(text, bytes(piece), re.DOTALL) for piece in (pieces[:1] if anchored else pieces)):
            found.add(sid)
    return found


@pytest.mark.parametrize("name", SURICATA)
def test_suricata_expects_the_same_alerts(name: str) -> None:
    capture = corpus() / f"OISF_suricata-verify__{name}.pcap"
    if not capture.is_file():
        pytest.skip(f"the corpus here has no {capture.name}")
    asked = SURICATA[name]
    found = run(lambda box: box.run(capture), numbered(*asked)).counts
    assert {options: found[sid] for sid, options in enumerate(asked, 1)} == asked


def chosen() -> list[Path]:
    """Captures of some hundred kilobytes at most, one of three, so that the folder stays fast."""
    return [path for path in captures() if path.stat().st_size < 400_000][::3]


def check(captures: list[Path]) -> tuple[int, int]:
    """Compare the alerts on captures with a plain search. Returns how many sides and alerts were compared."""
    sides, alerts = 0, 0
    for capture in captures:
        found: dict[tuple[int, int], set[int]] = defaultdict(set)
        alerted = run(lambda box, path=capture: box.run(path), RULES, f"block={BLOCK}")
        for row in alerted.rows:
            found[row["flow_id"], row["direction"] == "to_client"].add(row["alert"]["signature_id"])
        said = streams(capture)
        for side, pieces in said.items():
            if sum(map(len, pieces)) >= 2 * BLOCK or len(pieces) > 1:
                continue
            sides += 1
            alerts += len(found[side])
            wanted = expected(pieces)
            # Windows of this size can come to the bound on the work for one packet, which is counted. Where a capture
            # has the secrets of TLS, rules also match what was opened, which the plain search does not see.
            bounded, opened = (alerted.reports[name] for name in ("ids_bounded_matches", "ids_tls_opened"))
            assert (bounded or found[side] >= wanted) and (opened or found[side] <= wanted), (
                capture.name,
                side,
                found[side],
                wanted,
            )
        assert found.keys() <= said.keys(), capture.name
    return sides, alerts


def test_a_plain_search_of_the_streams_agrees() -> None:
    sides, alerts = check(chosen())
    assert sides > 100 and alerts > 100


@pytest.mark.slow_matrix
def test_a_plain_search_of_all_streams_agrees() -> None:
    sides, alerts = check(captures())
    assert sides > 1000 and alerts > 1000
