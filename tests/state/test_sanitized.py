"""The client of a store, and instances that use it, under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.engine.cache import cache_folder
from tests.robust.test_sanitized import ROOT, SLUICE, sanitizer_library
from tests.state.boxes import needs_store


@needs_store
@pytest.mark.slow
@pytest.mark.slow_matrix
@pytest.mark.sanitizer
def test_instances_and_their_store_are_clean(tmp_path: Path) -> None:
    found = sanitizer_library()
    if found is None:
        pytest.skip("the C compiler has no AddressSanitizer library to load into Python")
    library, flags = found
    words = [sys.executable, "-P", "-m", "tests.state.sanitized", str(tmp_path)]
    cache = {"SLUICE_CFLAGS": flags, "SLUICE_CACHE": str(cache_folder() / "sanitized")}
    without = {**os.environ, **cache, "PYTHONPATH": f"{SLUICE}{os.pathsep}{ROOT}"}
    # the compiler itself is not to run under the sanitizer
    subprocess.run([*words, "compile"], env=without, check=True, capture_output=True, timeout=900)
    environment = {**without, "LD_PRELOAD": library, "PYTHONMALLOC": "malloc", "ASAN_OPTIONS": "detect_leaks=0"}
    run = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=900)
    assert run.returncode == 0 and "Sanitizer" not in run.stderr and "runtime error" not in run.stderr, run.stderr[
        -6000:
    ]
    assert run.stdout.split() == ["True", "True", "0"]
