"""Instances and their store with whatever the compiler's options are: run by test_sanitized.py under sanitizers.

    python -m tests.state.sanitized FOLDER [compile]

Functions of several instances over a private server, while traffic moves and instances are killed. `compile`: only
compiles, for a Python that has not loaded the library of a sanitizer. It prints whether the state and the output are
those of the ideal chain, and how many processes ended that were not killed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sluice.chain.description import function
from sluice.engine.box import compile_stack
from sluice.state.client import client_library
from sluice.state.embedded import embedded
from sluice.state.location import Location
from tests.state.instances import Action, compiled, kill_running, move, plan_of, run_ideal, run_instances, stack
from tests.state.traffic import mixed

CHAIN = (
    function("nat", inside="10.1.0.0/16")
    >> function("portscan", out="/dev/null")
    >> function("smtplog", out="/dev/null")
)
NAMES = ("nat", "portscan", "smtplog")


def main(folder: Path, compiles: bool) -> int:
    """Run it."""
    packets = mixed(5, 60)
    client_library()
    plan = plan_of(CHAIN)
    chain = compiled(plan_of(CHAIN), dict.fromkeys(NAMES, 2))
    compile_stack(stack(), tuple(plan.wanted().c))
    if compiles:
        return 0
    ideal = run_ideal(plan, packets, folder / "ideal")
    actions: dict[int, Action] = {1: move("nat", 1), 2: kill_running("nat#1", "portscan#1"), 3: move("nat", 0)}
    actions |= {4: kill_running("nat", "smtplog")}
    with embedded(Location("embedded")) as store:
        found = run_instances(chain, packets, folder, store, actions)
    crashes = sum(count for name, count in found.reports.items() if name.endswith(".crashes"))
    print(found.state == ideal.state, found.left == ideal.left, crashes - 4, found.failure or "")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), "compile" in sys.argv[2:]))
