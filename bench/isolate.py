"""What traffic of one container costs another: the penalty of the thesis (2.3), with and without `sluice isolate`.

    .venv/bin/python bench/isolate.py [--rounds N] [--containers N ...] [--only TEXT ...] [--mode NAME ...] [--busy]
                             [--minutes M] [--quick] [--docs] [--json FILE] [--svg FOLDER] [--from FILE]

On one CPU, a victim computes beside containers that have the same limit. Its penalty is its rate beside others that
compute, divided by its rate beside others that receive, or send. Rounds take turns between both; a cell has the median
of its rounds, with the least and the greatest. Needs root; all rows with five rounds take half an hour for each number
of containers (2, 3 and 6). --svg writes pictures as figures 2.9 to 2.12 and 2.16 of the thesis, --from those of an
earlier run. --minutes shortens all windows so that the tables take that long together. --quick is the penalty table in
12 minutes: all rows for two containers without us, with charging, with dropping and with threaded NAPI, and the floods
for 3 and 6 containers without us and with dropping. --docs writes the tables into docs/isolate.md.

The bench has two CPUs before all other tasks of the machine, which hardly run there meanwhile: its control groups have
the greatest weight, and the bench itself the highest priority. Use a machine that has nothing else to do. The bench
refuses to begin where the load average of the last minute exceeds 1.5 per CPU, unless --busy is given.

Modes: `none`; `charging` by the quota alone; `dropping` at the host's end of the link (the default of `sluice isolate
run`), in the driver (`xdp`) and after it (`tc`); the kernel's own means, `threads`: threaded NAPI in the control group
of the receiver, without us; and `threads+charging`, which is `sluice isolate run --drop threads`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import isolate_manual
from bench.isolate_plot import penalty_pictures
from sluice.isolate.cgroups import find_hierarchy
from sluice.isolate.enforcer import Enforcer
from sluice.isolate.interrupts import measure
from sluice.isolate.session import Session
from tests.isolate.lab import PREFIX, Burner, Lab, why_not

CPU, OTHER_CPU = 0, 1
FORGET, SETTLE, BASE, WINDOW = 1.5, 0.5, 0.8, 1.2
"""Seconds after traffic, until debt and credit are settled; before traffic is measured; beside others that compute; and
beside traffic.
"""
PERIOD = 0.1
"""Of the limits: windows are multiples of it, so that a victim with a limit has the same part of it in each."""
SHORTEST = 0.3
"""The least factor by which windows are shortened."""
QUICK = 12
"""Minutes of --quick."""
MEASUREMENTS = 7
BUSY = 1.5
"""Load average per CPU above which the machine has other work, which the bench would stop."""
MODES = {
    "none": "",
    "charging": "none",
    "dropping": "host-end",
    "xdp": "xdp",
    "tc": "tc",
    "threads": "",
    "threads+charging": "threads",
}
"""By name: where `sluice isolate run` drops."""


@dataclass(frozen=True)
class Traffic:
    """What the interfering containers do."""

    name: str
    receives: bool
    sender: tuple[str, ...]
    """Arguments of the load program after address and port; the first is its command."""
    shape: str = ""
    """Rate of HTB at the sender."""


TRAFFIC = (
    Traffic("UDP in, 1400 bytes, 50,000/s", True, ("send", "50000", "1400", "0")),
    Traffic("UDP in, 1400 bytes, 100,000/s", True, ("send", "100000", "1400", "0")),
    Traffic("UDP in, 1400 bytes, 200,000/s", True, ("send", "200000", "1400", "0")),
    Traffic("UDP in, 1400 bytes, flood", True, ("send", "0", "1400", "0")),
    Traffic("UDP in, 64 bytes, flood", True, ("send", "0", "64", "0")),
    Traffic("TCP in, 1 flow", True, ("stream", "1")),
    Traffic("TCP in, 10 flows", True, ("stream", "10")),
    Traffic("TCP in, 100 flows", True, ("stream", "100")),
    Traffic("UDP out, flood", False, ("send", "0", "1400", "0")),
    Traffic("UDP out, HTB 0.5 Gbit/s", False, ("send", "0", "1400", "0"), "500mbit"),
    Traffic("UDP out, HTB 1 Gbit/s", False, ("send", "0", "1400", "0"), "1gbit"),
    Traffic("UDP out, HTB 2 Gbit/s", False, ("send", "0", "1400", "0"), "2gbit"),
    Traffic("TCP out, 1 flow", False, ("stream", "1")),
    Traffic("TCP out, 10 flows", False, ("stream", "10")),
    Traffic("TCP out, 50 flows", False, ("stream", "50")),
    Traffic("TCP out, 1 flow, HTB 1 Gbit/s", False, ("stream", "1"), "1gbit"),
    Traffic("TCP out, 50 flows, HTB 1 Gbit/s", False, ("stream", "50"), "1gbit"),
)

FLOODS = ("UDP in, 1400 bytes, flood", "TCP in, 100 flows", "UDP out, flood", "TCP out, 50 flows")
"""Rows of --quick for more than two containers."""


@dataclass(frozen=True)
class Cell:
    """What is measured at once: all rounds of a row in a mode."""

    containers: int
    traffic: Traffic
    mode: str


class Budget:
    """Shortens windows so that all cells take a given time.

    seconds: for all; 0 shortens nothing.
    """

    def __init__(self, seconds: float, cells: int, rounds: int) -> None:
        self._end = time.monotonic() + seconds if seconds else 0.0
        self._cells = cells
        self._rounds = rounds
        self._constant = 1.0
        """Seconds that a cell takes besides its windows: the greatest so far."""
        self.scale = 1.0
        """The factor for the windows of the next cell."""
        self._windows = 0.0
        self._begin = time.monotonic()

    def begin(self, mode: str) -> None:
        """Before a cell."""
        round_seconds = (FORGET if MODES[mode] else SETTLE) + BASE + SETTLE + WINDOW
        self._begin = time.monotonic()
        if self._end:
            left = (self._end - self._begin) / max(1, self._cells)
            self.scale = min(1.0, max(SHORTEST, (left - self._constant) / (self._rounds * round_seconds)))
        self._cells -= 1
        self._windows = self.scale * self._rounds * round_seconds

    def end(self) -> None:
        """After it."""
        self._constant = max(0.2, 0.7 * self._constant + 0.3 * (time.monotonic() - self._begin - self._windows))


class Scene:
    """A victim and interfering containers of one lab, which compute, or receive or send.

    scale: of all windows.
    """

    def __init__(self, lab: Lab, traffic: Traffic, containers: int, threads: bool, scale: float = 1.0) -> None:
        self.lab = lab
        self._scale = scale
        lab.prefer()
        share = 100 // containers
        self.victim: Burner = lab.burn(lab.limited("v", share), cpu=CPU)
        self.computing: list[Burner] = []
        self.talking = []
        for number in range(containers - 1):
            cgroup = lab.limited(f"i{number}", share)
            namespace, address = lab.namespace(cpu=CPU)
            if threads:
                lab.without_tso(namespace)
                lab.thread_napi(namespace, cgroup, CPU)
            if traffic.shape:
                lab.shape(namespace, traffic.shape)
            self.computing.append(lab.burn(cgroup, cpu=CPU))
            inside = {"cgroup": cgroup, "namespace": namespace, "cpu": CPU}
            outside = {"cgroup": lab.cgroup("outside"), "namespace": None, "cpu": OTHER_CPU}
            receiver, sender = (inside, outside) if traffic.receives else (outside, inside)
            to = address if traffic.receives else lab.host_address(namespace)
            port = str(5000 + number)
            command, *rest = traffic.sender
            lab.start("sink" if command == "stream" else "receive", port, **receiver)  # type: ignore[arg-type]
            time.sleep(0.2)
            self.talking.append(lab.start(command, to, port, *rest, **sender))  # type: ignore[arg-type]
        time.sleep(0.2)

    def compute(self, wait: Callable[[float], None]) -> float:
        """The victim's rate while the others compute. wait: lets seconds pass."""
        self._turn(computing=True)
        wait(self._scale * (SETTLE if wait is time.sleep else FORGET))
        return self._rate(self._window(BASE), wait)

    def talk(self, wait: Callable[[float], None]) -> float:
        """Its rate while they receive or send."""
        self._turn(computing=False)
        wait(self._scale * SETTLE)
        return self._rate(self._window(WINDOW), wait)

    def _window(self, seconds: float) -> float:
        return PERIOD * max(2, round(self._scale * seconds / PERIOD))

    def _turn(self, computing: bool) -> None:
        for process in self.talking:
            (self.lab.pause if computing else self.lab.resume)(process)
        for burner in self.computing:
            (self.lab.resume if computing else self.lab.pause)(burner.process)

    def _rate(self, seconds: float, wait: Callable[[float], None]) -> float:
        units, begin = self.victim.units, time.monotonic()
        wait(seconds)
        return (self.victim.units - units) / (time.monotonic() - begin)


@contextlib.contextmanager
def enforcing(mode: str, pattern: str, interrupt_ns: int, state: Path) -> Generator[Callable[[float], None]]:
    """Enforces containers in a mode; what lets seconds pass meanwhile."""
    if not MODES[mode]:
        yield time.sleep
        return
    with Enforcer([pattern], MODES[mode], interrupt_ns=interrupt_ns, state_folder=state) as enforcer:
        yield enforcer.wait


def interrupt_cost() -> int:
    """The hidden cost of an interrupt: the median of some measurements, as the load of the machine changes it."""
    with Session(["none"], interrupt_ns=0) as session:
        costs = [measure(session.accounting) for _ in range(MEASUREMENTS)]
    return round(median([cost.hidden_ns for cost in costs if not cost.why_not] or [0]))


def penalties(one: Cell, rounds: int, wait: Callable[[float], None], scale: float) -> list[float]:
    """The penalty in each round; none if the traffic ended."""
    found: list[float] = []
    with Lab(find_hierarchy()) as lab:
        scene = Scene(lab, one.traffic, one.containers, one.mode == "threads", scale)
        for _ in range(rounds):
            base = scene.compute(wait)
            found.append(base / max(scene.talk(wait), 1e-9))
            if any(process.poll() is not None for process in scene.talking):
                return []
    return found


def table(cells: list[Cell], options: argparse.Namespace, interrupt_ns: int, budget: Budget) -> dict[str, Any]:
    """Measure for a number of containers on the CPU; all rounds. One controller serves all rows of a mode, as its start
    takes longer than a short row.
    """
    rows: dict[str, dict[str, list[float]]] = {one.traffic.name: {} for one in cells}
    containers = cells[0].containers
    for mode in dict.fromkeys(one.mode for one in cells):
        with (
            tempfile.TemporaryDirectory() as folder,
            enforcing(mode, f"{PREFIX}-{os.getpid()}/*", interrupt_ns, Path(folder) / "state") as wait,
        ):
            for one in cells:
                if one.mode != mode:
                    continue
                budget.begin(mode)
                values, text = [], "not measured: a process did not end"
                with contextlib.suppress(subprocess.TimeoutExpired):
                    values = penalties(one, options.rounds, wait, budget.scale)
                    text = isolate_manual.cell(values) if values else "not measured: its traffic ended"
                budget.end()
                print(f"{containers} containers, {mode}, {one.traffic.name}: {text}", flush=True)
                if values:
                    rows[one.traffic.name][mode] = values
    return {"interrupt_ns": interrupt_ns, "containers": containers, "penalties": rows}


def chosen(options: argparse.Namespace) -> list[list[Cell]]:
    """The cells of each table. Threaded NAPI polls what is received."""
    tables: list[list[Cell]] = []
    for containers in (2, 3, 6) if options.quick else options.containers:
        modes = options.mode or list(MODES)
        names = [one.name for one in TRAFFIC if not options.only or any(text in one.name for text in options.only)]
        if options.quick:
            modes = ["none", "charging", "dropping", "threads"] if containers == 2 else ["none", "dropping"]
            names = names if containers == 2 else [name for name in names if name in FLOODS]
        cells = [
            Cell(containers, traffic, mode)
            for traffic in TRAFFIC
            if traffic.name in names
            for mode in modes
            if traffic.receives or not mode.startswith("threads")
        ]
        if not cells:
            raise SystemExit(f"{sys.argv[0]}: no row and mode are left; rows are {', '.join(o.name for o in TRAFFIC)}")
        tables.append(cells)
    return tables


def prepare(busy: bool) -> None:
    """Refuse where nothing can be measured; then have the CPUs before all other tasks."""
    if why_not():
        raise SystemExit(f"{sys.argv[0]}: {why_not()}")
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    if load > BUSY and not busy:
        raise SystemExit(
            f"{sys.argv[0]}: the load average is {load:.1f} per CPU, above {BUSY}: other tasks would wait for the "
            "bench, and change its figures; begin all the same with --busy"
        )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # and remove what the lab made
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -20)  # what the bench does between windows must not wait for other tasks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--containers", type=int, nargs="+", default=[2], help="on the CPU, the victim among them")
    parser.add_argument("--only", action="append", help="rows whose name contains this; all by default")
    parser.add_argument("--mode", action="append", choices=list(MODES), help="columns; all by default")
    parser.add_argument("--busy", action="store_true", help="begin though the machine has other work, which will wait")
    parser.add_argument("--minutes", type=float, default=0, help="shorten all windows so that all take so long")
    parser.add_argument("--quick", action="store_true", help=f"the penalty table in {QUICK} minutes, or in --minutes")
    parser.add_argument("--docs", action="store_true", help="write the tables into docs/isolate.md")
    parser.add_argument("--json", type=Path, help="write all rounds to this file")
    parser.add_argument("--svg", type=Path, metavar="FOLDER", help="write pictures there")
    parser.add_argument(
        "--from", dest="earlier", type=Path, metavar="FILE", help="do not measure: use that --json file"
    )
    options = parser.parse_args()
    if options.earlier:
        results = json.loads(options.earlier.read_text())
    else:
        prepare(options.busy)
        begin = time.monotonic()
        interrupt_ns = interrupt_cost()
        print(f"an interrupt has {interrupt_ns / 1000:.1f} us that no probe sees")
        tables = chosen(options)
        seconds = 60 * (options.minutes or (QUICK if options.quick else 0))
        budget = Budget(seconds - (time.monotonic() - begin) if seconds else 0, sum(map(len, tables)), options.rounds)
        results = [table(cells, options, interrupt_ns, budget) for cells in tables]
        results[0]["measured"] = isolate_manual.machine("bench/isolate.py " + " ".join(sys.argv[1:]))
        print(f"{time.monotonic() - begin:.0f} seconds\n\n{isolate_manual.penalties(results)}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    if options.docs:
        isolate_manual.write("penalties", f"{results[0]['measured']}\n\n{isolate_manual.penalties(results)}")
    if options.svg:
        for path in penalty_pictures(results, options.svg):
            print(f"wrote {path}")


if __name__ == "__main__":
    main()
