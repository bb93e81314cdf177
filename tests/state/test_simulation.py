"""Schedules by seed: the compiled functions, client and functions of the server, over a simulated network and clock."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.state.boxes import missing
from tests.state.simulation.mutations import Mutation, first_failure, read_mutations

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.skipif(shutil.which("cc") is None, reason="there is no cc, which compiles the simulated network"),
]


def simulated(seeds: str, *off: str, first: bool = False) -> subprocess.CompletedProcess[str]:
    """The outcome of some schedules, with mechanisms switched off."""
    environment = os.environ | {"SLUICE_STATE_OFF": ",".join(off), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.state.simulation.schedule", "--seeds", seeds, *["--first"] * first]
    return subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT, timeout=300)


def test_schedules_give_the_state_of_the_ideal_chain() -> None:
    """Crashes, moves and lost connections at places that the seed chooses."""
    found = simulated("0:8")
    assert found.returncode == 0, found.stdout + found.stderr
    assert "8 schedules, 0 failed" in found.stdout


def test_a_seed_that_fails_is_named() -> None:
    """Without the order of packets, operations on a list come in another order."""
    found = simulated("0:6", "order", first=True)
    assert found.returncode == 1
    assert "seed" in found.stdout


@pytest.mark.slow_matrix
@pytest.mark.parametrize("mutation", read_mutations(), ids=lambda one: one.name)
def test_a_fault_of_the_protocol_is_found(mutation: Mutation) -> None:
    """A missing mark, an early delete, a missing retransmission, ...: some schedule fails."""
    assert first_failure(mutation, mutation.seeds or "0:120")


def test_faults_have_a_place_in_the_sources() -> None:
    """Each changes one place, which is there once."""
    for mutation in read_mutations():
        assert (ROOT / mutation.file).read_text(encoding="utf-8").count(mutation.old) == 1, mutation.name
