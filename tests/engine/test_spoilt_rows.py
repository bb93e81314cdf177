"""Rows of an isolated worker that crashed, which has written anything as the number of its complete bytes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from sluice.engine.compiler import RUNTIME

SOURCES = (Path(__file__).with_name("spoilt_rows.c"), RUNTIME / "driver" / "row_file.c")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("there is no cc")
    made = tmp_path_factory.mktemp("rows") / "spoilt_rows"
    words = ["cc", "-std=gnu11", "-Wall", "-Wextra", f"-I{RUNTIME}", *map(str, SOURCES), "-o", str(made), "-lpthread"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return made


@pytest.mark.parametrize("number", ["", "100000", str(1 << 62), str((1 << 64) - 1)])
def test_complete_rows_are_there_and_no_others(program: Path, tmp_path: Path, number: str) -> None:
    """The number is that of the rows, beyond the end of the file, and none that a file can have."""
    output = tmp_path / "rows"
    done = subprocess.run([str(program), str(output), number], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert output.read_text().split() == ["1", "2", "3", "4", "5", "6"]
