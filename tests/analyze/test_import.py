"""Bytes that are imported come from outside: an attacker's crash no program, and refused ones change nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from sluice.analyze.state.instrument import RUN_TIME, SOURCES

HERE = Path(__file__).resolve().parent / "import"
COMPILER = next(filter(shutil.which, ("gcc", "clang", "clang-19")), "cc")


@pytest.fixture(scope="module")
def attack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fuzzer, with the run-time library, under the sanitizers; beside it the exports of a run."""
    program = tmp_path_factory.mktemp("attack") / "attack"
    sources = [*HERE.glob("*.c"), *(RUN_TIME / name for name in SOURCES)]
    sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    probe = [COMPILER, *sanitizers, "-x", "c", "-", "-o", program]
    if (
        subprocess.run(probe, input="int main(void){return 0;}", text=True, capture_output=True, timeout=300).returncode
        != 0
    ):
        pytest.skip(f"{COMPILER} has no address sanitizer")
    flags = ["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", *sanitizers]
    subprocess.run(
        [COMPILER, *flags, f"-I{RUN_TIME}", f"-I{HERE}", "-pthread", "-o", program, *sources], check=True, timeout=300
    )
    subprocess.run([program, program.with_name("exports")], check=True, timeout=300)
    return program


def run(attack: Path, rounds: int, seed: int) -> None:
    environment = os.environ | {"ASAN_OPTIONS": "allocator_may_return_null=1:detect_leaks=0"}
    done = subprocess.run(
        [attack, attack.with_name("exports"), str(rounds), str(seed)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr[:4000]
    assert int(done.stdout.split()[0]) > rounds / 2


def test_changed_exports_are_refused_or_taken_over(attack: Path) -> None:
    run(attack, 100_000, 44)


@pytest.mark.slow_matrix
@pytest.mark.parametrize("seed", range(8))
def test_changed_exports_for_long(attack: Path, seed: int) -> None:
    run(attack, 5_000_000, seed)
