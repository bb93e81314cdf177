"""Real captures: compiled code and interpreter tell the same events in one order, the same bytes and counters."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from sluice.engine.box import CompiledStack, Settings
from sluice.stacks.tcp_ip import tcp_ip
from tests.differential.both import assert_same, compiled, read_capture

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [Path(os.environ.get("SLUICE_CORPUS", ROOT / "../shared/corpus")), ROOT / "tests/corpus"]
FOLDER = next((folder for folder in FOLDERS if folder.is_dir()), FOLDERS[-1])
CAPTURES = sorted(path for path in FOLDER.glob("*.pcap*") if path.suffix in (".pcap", ".pcapng"))
PACKETS = int(os.environ.get("SLUICE_PACKETS", "600"))
"""Packets of each capture: the interpreter takes its time."""


@pytest.fixture(scope="module")
def tcp_ip_library() -> CompiledStack:
    return compiled(tcp_ip())


@pytest.mark.corpus
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_compiled_code_does_what_the_interpreter_says(path: Path, tcp_ip_library: CompiledStack) -> None:
    packets = list(itertools.islice(read_capture(tcp_ip_library, path), PACKETS))
    assert_same(tcp_ip_library, packets, Settings(memory=1 << 26, max_instances=1 << 16, timeouts=False, seed=1))
    assert_same(tcp_ip_library, packets, Settings(memory=1 << 26, max_instances=5, idle=0.05, seed=1))
