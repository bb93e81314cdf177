"""Every fuzzer builds and runs; `make fuzz` runs them for long."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.budget import thinned

ROOT = Path(__file__).resolve().parents[2]
HARNESSES = sorted(path.stem for path in (ROOT / "fuzz").glob("fuzz_*.c"))


def can_fuzz(folder: Path) -> bool:
    """Whether there is a clang with libFuzzer and the sanitizers."""
    source = folder / "try.c"
    source.write_text("int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return d && n > 99; }\n")
    words = ["clang", "-fsanitize=fuzzer,address,undefined", str(source), "-o", str(folder / "try")]
    return shutil.which("clang") is not None and subprocess.run(words, capture_output=True, timeout=300).returncode == 0


@pytest.mark.slow
@pytest.mark.sanitizer
@pytest.mark.parametrize("name", thinned(HARNESSES, 8))
def test_it_runs(name: str, tmp_path: Path) -> None:
    if not can_fuzz(tmp_path):
        pytest.skip("no clang with libFuzzer and sanitizers")
    environment = {**os.environ, "FUZZ_SECONDS": "1", "FUZZ_FOLDER": str(tmp_path / "fuzz")}
    run = subprocess.run(
        [ROOT / "scripts" / "fuzz.sh", name], env=environment, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
    assert f"fuzz: {name} clean" in run.stdout
    assert any((tmp_path / "fuzz" / "corpus" / name).iterdir())
