"""The five commands of docs/live.md, from a file to an inline box between two namespaces."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.live.veth import ROOT
from tests.live.wire import why_no_wire

pytestmark = [pytest.mark.skipif(bool(why_no_wire()), reason=why_no_wire()), pytest.mark.root]

PATIENCE = 300.0
"""Seconds: the first command compiles."""


def commands() -> list[str]:
    """The block of the section."""
    section = (ROOT / "docs" / "live.md").read_text().split("## Five commands")[1].split("\n## ")[0]
    return [line.strip() for line in section.splitlines() if line.startswith("    ")]


def test_a_new_user_gets_from_a_file_to_a_box(tmp_path: Path) -> None:
    """In a folder with the examples, and with `sluice` in the path."""
    shutil.copytree(ROOT / "examples" / "wire", tmp_path / "examples" / "wire")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "sluice"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m sluice "$@"\n')
    program.chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "no_proxy": "*"}
    first, up, box, fetch, down = commands()

    def run(command: str) -> str:
        done = subprocess.run(
            ["sh", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "stopped: 1" in run(first) and (tmp_path / "out.pcap").stat().st_size > 24
    errors = tmp_path / "errors"
    try:
        run(up)
        with errors.open("w") as said:
            running = subprocess.Popen(
                ["sh", "-c", f"exec {box.removesuffix('&')}"],
                cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=said, text=True,
            )  # fmt: skip
        end = time.monotonic() + PATIENCE
        while "receiving from left, right" not in errors.read_text():
            assert running.poll() is None and time.monotonic() < end, errors.read_text()
            time.sleep(0.1)
        assert run(fetch) == (ROOT / "examples" / "wire" / "hello.txt").read_text()
        refused = subprocess.run(
            ["sh", "-c", fetch.replace("--retry 9 --retry-all-errors", "").replace("hello", "secret")],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        assert refused.returncode == 56 and refused.stdout == "", "curl: failure in receiving"
    finally:
        run(down)
    assert "stopped: 1" in running.communicate(timeout=PATIENCE)[0] and running.returncode == 0
