"""The chains of the schedules: their functions, the packets that they get, and the state of the ideal chain."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from sluice.chain.description import function
from sluice.chain.processes.program import IsolatedChain
from tests.state.instances import compiled, plan_of, run_ideal
from tests.state.traffic import mixed

FOLDER = Path(__file__).parent.parent
CHAINS = {
    "claims": (function(str(FOLDER / "claims.c")), 2),
    "takes": (function(str(FOLDER / "takes.c")), 2),
    "notices": (function(str(FOLDER / "notices.c")), 2),
    "lapses": (function(str(FOLDER / "lapses.c"), wait=0.05), 3),
}
"""Functions, and how many instances they have."""
NOT_CRASHED = ("claims", "notices")
"""They read cached values, which may be later ones when a batch is processed again (docs/state.md)."""
NOTICED = 5
"""Batches after which the limit that `notices` reads is changed from outside; no log has that."""


@cache
def packets() -> list[bytes]:
    """The packets that a chain gets."""
    return mixed(17, 26)


@cache
def chain_of(name: str) -> IsolatedChain:
    """The compiled chain of a function of CHAINS."""
    one, count = CHAINS[name]
    return compiled(plan_of(one), {name: count})


@cache
def ideal_of(name: str, noticed: int = 0) -> list[str]:
    """The state of the ideal chain. noticed: packets before the change of the limit that `notices` reads."""
    with tempfile.TemporaryDirectory() as folder:
        given: dict[str, Any] = {"from": noticed + 1}
        one = function(str(FOLDER / "notices.c"), **given) if noticed else CHAINS[name][0]
        return run_ideal(plan_of(one), packets(), Path(folder)).state
