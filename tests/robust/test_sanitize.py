"""`make sanitize` finds what it is there for; it runs the whole suite, and for long."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.budget import thinned

ROOT = Path(__file__).resolve().parents[2]
PLANTED = r'''
import ctypes, subprocess, pytest

TEXT = """
#include <stdlib.h>
int get(int at) { int *volatile block = calloc(3, sizeof *block), found = block[at]; free(block); return found; }
int twice(int n) { return n + n; }
"""

@pytest.fixture
def library(tmp_path):
    (tmp_path / "c.c").write_text(TEXT)
    subprocess.run(["cc", "-fPIC", "-shared", tmp_path / "c.c", "-o", tmp_path / "c.so"], check=True)
    return ctypes.CDLL(str(tmp_path / "c.so"))

def test_clean(library):
    assert library.get(2) == 0 and library.twice(21) == 42

def test_address(library):
    library.get(3)

def test_undefined(library):
    library.twice(1 << 30)
'''


def sanitize(compiler: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What scripts/sanitize.sh makes of the planted tests."""
    planted = folder / "test_planted.py"
    planted.write_text(PLANTED)
    run = subprocess.run(
        [ROOT / "scripts" / "sanitize.sh", planted, "-n", "1", *arguments],
        env={**os.environ, "SANITIZE_CC": compiler, "SANITIZE_FOLDER": str(folder / "out")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    if "has no library of AddressSanitizer" in run.stdout:
        pytest.skip(run.stdout.strip())
    return run


@pytest.mark.sanitizer
@pytest.mark.parametrize("compiler", thinned([name for name in ("gcc", "clang") if shutil.which(name)], 2))
def test_findings_fail_it(compiler: str, tmp_path: Path) -> None:
    run = sanitize(compiler, tmp_path, "-k", "clean")
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
    assert "1 passed" in run.stdout and f"sanitize: {compiler} clean" in run.stdout
    run = sanitize(compiler, tmp_path)
    assert run.returncode == 1
    assert "1 passed" in run.stdout and "2 failed" in run.stdout
    assert "heap-buffer-overflow" in run.stdout and "signed integer overflow" in run.stdout
    assert f"sanitize: failed: {compiler}" in run.stdout


@pytest.mark.sanitizer
def test_a_compiler_that_is_not_there(tmp_path: Path) -> None:
    run = sanitize("no-such-cc", tmp_path)
    assert run.returncode == 2 and "there is no no-such-cc" in run.stderr
