"""Measures cases: rounds of all of them in random order, and what came out as JSON.

What else the machine does falls on all cases: those of Sluice on the same trace run in one process, in turns (a team);
each other program in a process of its own; one round after another, traces in random order, and the cases of a trace.
Figures are medians over the rounds. Absolute figures move with the machine, ratios within a round much less, and ratios
within a turn hardly.
"""

from __future__ import annotations

import json
import os
import platform
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from bench import functions
from bench.cases import MAIN, PLAIN_GTP, SLUICE, Case
from bench.programs import HERE, HYPERSCAN, PEERS, MissingError, build, has_header
from sluice.cli.bench import figures
from sluice.cli.common.options import passes_of
from sluice.engine.box import CompiledStack, Settings, compile_stack
from sluice.engine.compiler import compiler
from sluice.engine.functions import find_functions
from sluice.engine.measure import Candidate, measure
from sluice.stacks.find import find_stack

PATTERNS = HERE / "patterns.txt"
KEPT = (
    "ns_per_packet_cpu",
    "packets",
    "bytes",
    "flows",
    "delivered_bytes",
    "matches",
    "left_out",
    "peak_rss_bytes",
    "turns",
)
"""Figures of a round that are kept."""
TURNS = 5
"""How often each case of a team runs in a round."""

PREFAULTED: dict[str, Any] = {"prefault": True, "memory": 1 << 29}
"""Bounds of a box all of whose memory is taken at the start: every table without a bound of its own has so much."""
PREFAULTED_MOST = 1_100_000
"""Instances of each table then; for plain traffic as many as others have room for."""


@dataclass
class Results:
    """What each round gave for each case, why others have none, and where it was measured."""

    rounds: dict[Case, list[dict[str, Any]]] = field(default_factory=lambda: {})
    missing: dict[Case, str] = field(default_factory=lambda: {})
    machine: dict[str, str] = field(default_factory=lambda: {})
    generated: list[dict[str, Any]] = field(default_factory=lambda: [])
    """What bench/generated.py found."""

    def ns(self, case: Case) -> list[float]:
        """Nanoseconds a packet of each round; none where the case was not measured."""
        return [found["ns_per_packet_cpu"] for found in self.rounds.get(case, [])]

    def middle(self, case: Case) -> float | None:
        """Their median."""
        found = self.ns(case)
        return median(found) if found else None

    def ratio(self, one: Case, other: Case) -> float | None:
        """How many times longer `one` takes than `other`: the median of what each turn says where they took turns, and
        of what each round says else.
        """
        found = [
            a / b
            for first, second in zip(self.rounds.get(one, []), self.rounds.get(other, []), strict=False)
            for a, b in zip(*_compared(first, second, team_of(one) == team_of(other)), strict=True)
        ]
        return median(found) if found else None

    def figure(self, case: Case, key: str) -> int | None:
        """Another figure, of the last round."""
        found = self.rounds.get(case)
        return found[-1].get(key) if found else None

    def to_json(self) -> str:
        """The text of a file that `read` takes, one case a line."""
        cases = [{**asdict(case), "rounds": rounds} for case, rounds in self.rounds.items()]
        missing = [{**asdict(case), "why": why} for case, why in self.missing.items()]
        parts = [f'"machine": {json.dumps(self.machine)}']
        for name, rows in (("cases", cases), ("missing", missing), ("generated", self.generated)):
            lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
            parts.append(f'"{name}": [\n{lines}\n]' if rows else f'"{name}": []')
        return "{" + ",\n".join(parts) + "}\n"


def _compared(one: dict[str, Any], other: dict[str, Any], took_turns: bool) -> tuple[list[float], list[float]]:
    """What is to be compared of a round of two cases, pair by pair."""
    if took_turns and "turns" in one and "turns" in other:
        return one["turns"], other["turns"]
    return [one["ns_per_packet_cpu"]], [other["ns_per_packet_cpu"]]


def team_of(case: Case) -> tuple[object, ...]:
    """What cases have in common that take turns: their trace, in the same place. Others are alone."""
    return (case.trace, case.warm) if case.program == SLUICE and not case.prefault else (case,)


def read(path: Path) -> Results:
    """Results out of a file."""
    found = json.loads(path.read_text())
    results = Results(machine=found["machine"], generated=found.get("generated", []))
    for row in found["cases"]:
        rounds = row.pop("rounds")
        results.rounds[Case(**row)] = rounds
    for row in found["missing"]:
        why = row.pop("why")
        results.missing[Case(**row)] = why
    return results


class Runner:
    """Runs cases once, and keeps what they need: programs and compiled stacks.

    paths: where each trace lies; connections: for how many there has to be room in each.
    """

    def __init__(self, folder: Path, paths: dict[str, Path], connections: dict[str, int]) -> None:
        self.paths = paths
        self.connections = connections
        self._folder = folder
        self._programs: dict[str, Path] = {}
        self._stacks: dict[tuple[str, str, str], CompiledStack] = {}

    def prepare(self, case: Case) -> None:
        """Build what the case needs. Raises MissingError where that cannot be had."""
        if case.function == "search" and not has_header(HYPERSCAN):
            raise MissingError("search: there is no Hyperscan (Debian: libhyperscan-dev)")
        if case.program != SLUICE:
            if case.program not in self._programs:
                peer = next(peer for peer in PEERS if peer.name == case.program)
                self._programs[case.program] = build(peer, self._folder)
            return
        key = (case.stack, case.function, case.passes)
        if key not in self._stacks:
            self._stacks[key] = self._compiled(*key)

    def run(self, team: list[Case]) -> list[dict[str, Any]]:
        """One round of a team."""
        found = self._sluice(team) if team[0].program == SLUICE else [self._peer(*team)]
        return [{key: one[key] for key in KEPT if key in one} for one in found]

    def _compiled(self, stack: str, function: str, passes: str) -> CompiledStack:
        described = find_stack(str(HERE.parent / stack) if stack == PLAIN_GTP else stack)
        wanted = find_functions(self._functions(function))
        if wanted.track_only:
            for layer in described.layers.values():
                layer.prototype.buffer_data = False
        before = os.environ.get("SLUICE_CFLAGS")
        if function == "search":
            os.environ["SLUICE_CFLAGS"] = f"{before or ''} -I{HERE} -Wl,--no-as-needed -lhs"
        try:
            return compile_stack(described, tuple(wanted.c), passes=passes_of(passes))
        finally:
            if before is None:
                os.environ.pop("SLUICE_CFLAGS", None)
            else:
                os.environ["SLUICE_CFLAGS"] = before

    def _functions(self, name: str) -> list[str]:
        if name == "search":
            return [f"{HERE / 'search.c'}:{PATTERNS}"]
        return functions.wanted(name, self._folder) or [name]

    def _settings(self, case: Case) -> Settings:
        if not case.prefault:
            return Settings()
        most = self.connections[case.trace] if case.trace in MAIN else PREFAULTED_MOST
        return Settings(**PREFAULTED, max_instances=most)

    def _sluice(self, team: list[Case]) -> list[dict[str, Any]]:
        candidates = [
            Candidate(
                self._stacks[case.stack, case.function, case.passes],
                self._settings(case),
                find_functions(self._functions(case.function)).options,
            )
            for case in team
        ]
        alone = len(team) == 1
        measured = measure(candidates, str(self.paths[team[0].trace]), 1 if alone else TURNS, team[0].warm)
        found = [
            {**figures(candidate.compiled, one), **one.reports}
            for candidate, one in zip(candidates, measured, strict=True)
        ]
        if not alone:
            for figure, one in zip(found, measured, strict=True):
                turns = figure["turns"] = [round(ns / one.packets, 2) for ns in one.cpu_ns]
                figure["ns_per_packet_cpu"] = turns[0]  # as others, which have one run each
                del figure["peak_rss_bytes"]  # that of all of them
        return found

    def _peer(self, case: Case) -> dict[str, Any]:
        words = [str(self._programs[case.program]), str(self.paths[case.trace]), case.function]
        if case.program == "gopacket":
            words += ["--warm"] if case.warm else []
        else:
            words += ["--warm"] * case.warm + ["--connections", str(self.connections[case.trace])]
            words += ["--patterns", str(PATTERNS)] if case.function == "search" else []
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"bench: {case}: {done.stderr.strip()}")
        return json.loads(done.stdout)


def run(cases: list[Case], runner: Runner, rounds: int, seed: int, say: Callable[[str], None]) -> Results:
    """All cases, `rounds` times in random order; those for which something is missing are left out with the reason."""
    results = Results(machine=machine(rounds))
    ready: list[Case] = []
    for number, case in enumerate(cases, 1):
        say(f"preparing {number} of {len(cases)}: {case}")
        try:
            runner.prepare(case)
            ready.append(case)
            results.rounds[case] = []
        except MissingError as error:
            results.missing[case] = str(error)
    order = random.Random(seed)
    for number in range(1, rounds + 1):
        at = 0
        for team in in_order(ready, order):
            at += len(team)
            say(f"round {number} of {rounds}, {at} of {len(ready)}: {team[0]}{' ...' if len(team) > 1 else ''}")
            for case, found in zip(team, runner.run(team), strict=True):
                results.rounds[case].append(found)
    return results


def in_order(cases: list[Case], order: random.Random) -> list[list[Case]]:
    """The teams of a round: traces in random order, the teams of a trace one by one, and the cases of each team."""
    traces: dict[str, dict[tuple[object, ...], list[Case]]] = {}
    for case in order.sample(cases, len(cases)):
        traces.setdefault(case.trace, {}).setdefault(team_of(case), []).append(case)
    return [team for teams in traces.values() for team in teams.values()]


def machine(rounds: int) -> dict[str, str]:
    """Where it was measured."""
    said: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        said.setdefault(key.strip(), value.strip())
    caches = [
        f"L{(index / 'level').read_text().strip()} {(index / 'size').read_text().strip()}"
        for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"))
        if (index / "type").read_text().strip() != "Instruction"
    ]
    version = subprocess.run([*compiler(), "--version"], capture_output=True, text=True).stdout
    return {
        "processor": said.get("model name", platform.machine()),
        "cores": str(os.cpu_count()),
        "caches": ", ".join(caches),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "compiler": version.splitlines()[0] if version else "",
        "python": sys.version.split()[0],
        "rounds": str(rounds),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def disagreements(results: Results) -> list[str]:
    """Where others, or Sluice with other passes, delivered other bytes than Sluice did on the same trace."""
    ours = {
        (case.trace, case.function): results.figure(case, "delivered_bytes")
        for case in results.rounds
        if case.program == SLUICE and case.stack == "tcp_ip" and case.passes == "all"
    }
    said: dict[str, None] = {}
    for case in results.rounds:
        wanted = ours.get((case.trace, case.function))
        found = results.figure(case, "delivered_bytes")
        if case.program != SLUICE and wanted and found is not None and found != wanted:
            said[f"{case.program} delivers {found:,} of the {wanted:,} bytes of {case.trace}"] = None
        if case.program == SLUICE and wanted and found != wanted and case.stack == "tcp_ip":
            said[f"sluice with passes {case.passes} delivers {found:,} bytes of {case.trace}, with all {wanted:,}"] = (
                None
            )
    return list(said)
