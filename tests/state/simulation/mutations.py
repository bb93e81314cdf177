"""Faults of the protocol that are made on purpose, each by one change to a copy of the sources: some schedule fails.

`python -m tests.state.simulation.mutations [--seeds 0:60] [NAME ...]` prints for each the first seed that fails.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
SECONDS = 900.0


@dataclass(frozen=True)
class Mutation:
    """A change of one place of a file. seeds: schedules among which one fails, where the first ones do not."""

    name: str
    file: str
    old: str
    new: str
    seeds: str = ""


def read_mutations() -> list[Mutation]:
    """Those of mutations.txt: a line with a name, a file and perhaps seeds, lines to find there (-), and lines in their
    place (+).
    """
    found: list[Mutation] = []
    for text in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").strip().split("\n\n"):
        head, *lines = text.splitlines()
        name, file, *seeds = head.split()
        old, new = ("\n".join(line[1:] for line in lines if line[0] == sign) for sign in "-+")
        found.append(Mutation(name, file, old, new, *seeds))
    return found


def copied(mutation: Mutation, folder: Path) -> Path:
    """A copy of the sources with a change. Raises ValueError where its place is not there once."""
    ignore = shutil.ignore_patterns("__pycache__", "golden", "corpus", "*.pcap", "*.pcapng")
    for name in ("sluice", "tests/state", "tests/support"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignore)
    shutil.copy(ROOT / "tests" / "__init__.py", folder / "tests")
    path = folder / mutation.file
    text = path.read_text(encoding="utf-8")
    if text.count(mutation.old) != 1:
        raise ValueError(f"{mutation.name}: its place is {text.count(mutation.old)} times in {mutation.file}")
    path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    return folder


def first_failure(mutation: Mutation, seeds: str) -> str | None:
    """What the first schedule says that finds a mutation; None if none of the seeds does."""
    with tempfile.TemporaryDirectory(prefix="sluice-mutation-") as folder:
        root = copied(mutation, Path(folder))
        command = [sys.executable, "-m", "tests.state.simulation.schedule", "--seeds", seeds, "--first"]
        environment = os.environ | {"PYTHONPATH": str(root)}
        done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, timeout=SECONDS)
        if done.returncode == 0:
            return None
        found = next((line for line in done.stdout.splitlines() if line.startswith("seed ")), "")
        if not found:
            raise ValueError(f"{mutation.name}: {done.stdout[-1000:]}{done.stderr[-1000:]}")
        return found


def main() -> int:
    """Prints what finds each mutation."""
    parser = argparse.ArgumentParser(description="Faults that the simulation must find.")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seeds", default="0:60", help="FIRST:LAST (0:60)")
    options = parser.parse_args()
    missed = 0
    for mutation in read_mutations():
        if options.names and mutation.name not in options.names:
            continue
        found = first_failure(mutation, mutation.seeds or options.seeds)
        missed += found is None
        print(f"{mutation.name}: {(found or 'not found')[:200]}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
