"""The receive buffer of an end: order, copies, sizes, and what gives way at each bound (receive_buffer.c)."""

from __future__ import annotations

import subprocess
from pathlib import Path

from sluice.cli.mos import LIBRARY
from sluice.engine.compiler import RUNTIME, compiler
from tests.compat.mos.programs import EXTRA


def test_what_a_receive_buffer_knows_and_its_bounds(tmp_path: Path) -> None:
    made = tmp_path / "receive_buffer"
    sources = [str(Path(__file__).with_name("receive_buffer.c")), str(LIBRARY / "receive_buffer.c")]
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-g", *EXTRA, f"-I{LIBRARY}", f"-I{RUNTIME}"]
    done = subprocess.run([*compiler(), *flags, *sources, "-o", str(made)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([str(made)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
