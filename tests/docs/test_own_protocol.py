"""The chapter "A protocol of your own" is done as a reader would: in an empty folder, from its first line to its last.

- ```python FILE: that file is written.
- ```python FILE from TEXT: the file is cut where TEXT stands, and this is put after it.
- ```console: lines `$ command` are run by a shell; what they print must be what is shown, as in test_docs.py.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_docs import ROOT, blocks, commands, matches

CHAPTER = ROOT / "docs" / "own-protocol.md"
BLOCKS = list(blocks(CHAPTER))


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """In which `sluice` and `python` are ours."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, arguments in (("sluice", "-m sluice"), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        (programs / name).chmod(0o755)
    return {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


@pytest.mark.slow_matrix
def test_the_chapter_does_what_it_says(tmp_path: Path, environment: dict[str, str]) -> None:
    folder = tmp_path / "reader"
    folder.mkdir()
    for block in BLOCKS:
        if block.kind == "console":
            if "tshark" in block.text and shutil.which("tshark") is None:
                continue
            for command, shown in commands(block.text):
                done = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True)
                printed = done.stdout + ("" if command.startswith("tshark") else done.stderr)
                assert matches(shown, printed), f"{CHAPTER.name}:{block.line}: {command}\n{printed}"
        else:
            write(folder, block.kind, block.text)


def write(folder: Path, kind: str, text: str) -> None:
    """Do what a block says that is a file, or the rest of one."""
    found = re.fullmatch(r"python (\S+)(?: from (.+))?", kind)
    assert found is not None, f"what is a block '{kind}'?"
    path = folder / found[1]
    if found[2]:
        before, there, _ = path.read_text().partition(found[2])
        assert there, found[2]
        text = before + text
    path.write_text(text)


def test_what_the_chapter_has_one_write_is_clean(tmp_path: Path) -> None:
    ruff = Path(sys.executable).with_name("ruff")
    if not ruff.exists():
        pytest.skip("no ruff")
    (tmp_path / "dhcp").mkdir()
    for block in BLOCKS:
        if block.kind != "console":
            write(tmp_path, block.kind, block.text)
    for check in (
        ["check", "--select", "E,F,W,I", "--line-length", "120"],
        ["format", "--check", "--line-length", "120"],
    ):
        done = subprocess.run([ruff, *check, "--isolated", tmp_path], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


def test_the_chapter_is_about_what_we_do_not_ship() -> None:
    assert not (ROOT / "sluice" / "protocols" / "dhcp.py").exists()
