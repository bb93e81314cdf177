"""The client of a store, and instances that use it, under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.robust.test_sanitized import environment as environment
from tests.state.boxes import needs_store


@needs_store
@pytest.mark.slow
@pytest.mark.slow_matrix
@pytest.mark.sanitizer
def test_instances_and_their_store_are_clean(environment: dict[str, str], tmp_path: Path) -> None:
    words = [sys.executable, "-P", "-m", "tests.state.sanitized", str(tmp_path)]
    without = {name: value for name, value in environment.items() if name not in ("LD_PRELOAD", "PYTHONMALLOC")}
    subprocess.run([*words, "compile"], env=without, check=True, capture_output=True, timeout=900)
    run = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=900)
    assert run.returncode == 0 and "Sanitizer" not in run.stderr and "runtime error" not in run.stderr, run.stderr[
        -6000:
    ]
    assert run.stdout.split() == ["True", "True", "0"]
