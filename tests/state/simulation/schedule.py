"""Runs a chain by a seed: the order in which its processes run and bytes arrive, moves, crashes and lost connections.

`python -m tests.state.simulation.schedule --seeds 0:100` prints the seeds at which the final state is not that of the
ideal chain, or the chain comes to a stop.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from sluice.state import chain_store as stores
from sluice.state.client import client_library
from sluice.state.embedded import embedded
from sluice.state.location import Location
from tests.state.servers import Server, running
from tests.state.simulation.chains import CHAINS, chain_of, ideal_of
from tests.state.simulation.libraries import OwnClient, folder_of_copies
from tests.state.simulation.simulation import ScheduleError, Simulation, connected
from tests.support.unoptimised import unoptimised

SALT = 1 << 32
"""Added to a seed where its decision must not change those of the schedule."""


def preload(folder: Path) -> Path:
    """Compile network.c."""
    path, source = folder / "network.so", Path(__file__).parent / "network.c"
    command = ["cc", "-O1", "-Wall", "-Wextra", "-shared", "-fPIC", str(source), "-o", str(path)]
    subprocess.run([*command, "-ldl", "-lpthread"], check=True, timeout=300)
    return path


def simulate(seeds: Sequence[int], say: Callable[[str], None], first: bool = False) -> list[int]:
    """The seeds that fail, or the first one. In a process in which network.c is loaded."""
    library = ctypes.CDLL(os.environ["LD_PRELOAD"])
    library.simulated_run.restype = ctypes.c_bool
    for name in ("out", "pending"):
        getattr(library, f"simulated_{name}").restype = ctypes.c_size_t
    library.simulated_deliver.argtypes = [ctypes.c_int, ctypes.c_size_t]
    stores.Client = OwnClient  # pyright: ignore[reportPrivateImportUsage]
    failed: list[int] = []
    with unoptimised(), contextlib.ExitStack() as opened:
        for name in CHAINS:
            chain_of(name)
            ideal_of(name)
        client_library()
        server = opened.enter_context(embedded(Location("embedded")))
        opened.enter_context(folder_of_copies())
        for seed in seeds:
            pid = os.fork()
            if not pid:
                os._exit(_one(seed, server, library, say))
            if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
                failed.append(seed)
                if first:
                    break
    return failed


def _one(seed: int, server: Location, library: ctypes.CDLL, say: Callable[[str], None]) -> int:
    """The exit status of one schedule. In a process of its own, with which the memory of crashed threads is freed."""
    with folder_of_copies() as own, contextlib.ExitStack() as opened:
        failing = random.Random(seed + SALT).random() < 0.4
        chosen = opened.enter_context(running(own / "server")) if failing else server
        control = connected(chosen.location if isinstance(chosen, Server) else chosen)
        control.sendall(b"*1\r\n$8\r\nFLUSHALL\r\n")
        control.recv(100)
        library.simulated_begin(control.fileno())
        made = Simulation(seed, chosen, library, control)
        try:
            made.run()
        except ScheduleError as stopped:
            say(f"seed {seed} ({made.name}): {stopped}")
            return 1
        except BaseException as error:
            say(f"seed {seed} ({made.name}): {error!r}")
            return 1
    return 0


def main() -> int:
    """Prints the seeds that fail."""
    parser = argparse.ArgumentParser(description="Schedules of chains with several instances, by seed.")
    parser.add_argument("--seeds", default="0:100", help="FIRST:LAST (0:100)")
    parser.add_argument("--first", action="store_true", help="stop at the first seed that fails")
    options = parser.parse_args()
    first, last = map(int, options.seeds.split(":"))
    if "network.so" not in os.environ.get("LD_PRELOAD", ""):
        with tempfile.TemporaryDirectory() as folder:
            environment = os.environ | {"LD_PRELOAD": str(preload(Path(folder)))}
            command = [sys.executable, "-m", "tests.state.simulation.schedule", *sys.argv[1:]]
            return subprocess.run(command, env=environment).returncode
    failed = simulate(range(first, last), lambda line: print(line, flush=True), options.first)
    print(f"{last - first} schedules, {len(failed)} failed{': ' + ', '.join(map(str, failed)) if failed else ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
