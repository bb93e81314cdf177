"""What a process of the stack that was killed leaves: its output, and a result that is not whole."""

from __future__ import annotations

import os
import pickle
from argparse import Namespace
from pathlib import Path

import pytest

from sluice.chain.processes.root import result_of
from sluice.cli.chain import root_of
from sluice.engine.inputs import Inputs

CAPTURE = Path(__file__).resolve().parents[2] / "examples" / "first" / "capture.pcap"


@pytest.mark.parametrize(
    ("output", "restarts"), [(None, True), ("new.pcap", True), ("fifo", False), ("/dev/null", False)]
)
def test_only_a_file_can_be_cut_and_continued(tmp_path: Path, output: str | None, restarts: bool) -> None:
    """Of a pipe or a device the record that the process was writing cannot be removed."""
    os.mkfifo(tmp_path / "fifo")
    path = None if output is None else str(tmp_path / output)
    options = Namespace(output=path, capture_size=None, capture_time=None)
    root = root_of(Inputs((f"file:{CAPTURE}",)), options)
    assert (root.restarts, root.replays) == (restarts, True)


def test_a_result_that_is_not_whole_is_none() -> None:
    text = pickle.dumps(("done", list(range(1000))))
    assert result_of(text) == ("done", list(range(1000)))
    assert not any(result_of(text[:size]) for size in range(len(text)))
