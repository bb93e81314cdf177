"""Random stacks on random packets: compiled code does what the interpreter says, with all passes, none and each alone.

SLUICE_STACKS sets how many stacks are tried (a long campaign: some thousands).
"""

from __future__ import annotations

import os
import random
import warnings

import pytest

from sluice.engine.box import Settings
from sluice.lang import DescriptionWarning
from sluice.passes.pipeline import PASSES
from tests.differential.both import assert_same, compiled
from tests.differential.stacks import packets, stack

STACKS = int(os.environ.get("SLUICE_STACKS", "24"))


@pytest.mark.parametrize("seed", range(STACKS))
def test_compiled_code_does_what_the_interpreter_says(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # The C compiler's optimiser is not what is tested here, and without it a stack takes a third of the time.
    monkeypatch.setenv("SLUICE_CFLAGS", "-O0")
    rnd = random.Random(seed)
    passes = ["all", "none", *([item.name] for item in PASSES)][seed % (2 + len(PASSES))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DescriptionWarning)
        made = compiled(stack(rnd), passes)
    assert made.compiled.messages == ""
    for settings in (
        Settings(memory=1 << 24, max_instances=1 << 10, seed=seed),
        Settings(memory=1 << 24, max_instances=2, seed=seed),
        Settings(memory=1 << 24, max_instances=1 << 10, timeouts=False, seed=seed),
    ):
        assert_same(made, packets(rnd, 400), settings)
