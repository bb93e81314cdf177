"""Real captures: compiled code and interpreter tell the same events in one order, the same bytes and counters."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sluice.engine.box import Settings
from sluice.stacks.tcp_ip import tcp_ip
from tests.differential.both import Compared, assert_same, compiled, read_capture
from tests.support.budget import examples, thinned

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [Path(os.environ.get("SLUICE_CORPUS", ROOT / "../shared/corpus")), ROOT / "tests/corpus"]
FOLDER = next((folder for folder in FOLDERS if folder.is_dir()), FOLDERS[-1])
CAPTURES = sorted(path for path in FOLDER.glob("*.pcap*") if path.suffix in (".pcap", ".pcapng"))
MOST = os.environ.get("SLUICE_PACKETS", str(examples(3000, 1500)))
PACKETS = None if MOST == "all" else int(MOST)
"""Packets of each capture with room for all connections (SLUICE_PACKETS=all: every one); the interpreter takes its
time. 3000, those of the full matrix, are five of six in the corpus."""
CROWDED = None if PACKETS is None else PACKETS // 5
"""Packets, the last of each capture, with room for few."""


@pytest.fixture(scope="module")
def tcp_ip_library() -> Compared:
    return compiled(tcp_ip())


@pytest.mark.corpus
@pytest.mark.parametrize("path", thinned(CAPTURES, 18, id=lambda path: path.stem))
def test_compiled_code_does_what_the_interpreter_says(path: Path, tcp_ip_library: Compared) -> None:
    packets = list(read_capture(tcp_ip_library, path))
    roomy = Settings(memory=1 << 26, max_instances=1 << 16, timeouts=False, seed=1)
    crowded = Settings(memory=1 << 26, max_instances=5, idle=0.05, seed=1)
    assert_same(tcp_ip_library, packets[:PACKETS], roomy)
    assert_same(tcp_ip_library, packets if CROWDED is None else packets[-CROWDED:], crowded)
