"""The transfer functions of the analyses, each of which can be removed to see that a test fails.

`python -m tests.analyze.removals --folder FOLDER [NAME ...]` removes one after the other, and prints those that no test
misses.

The tool is built once with all of them; the environment chooses which of them it leaves out (SLUICE_REMOVED).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sluice.analyze.toolchain import SOURCES, tool, tool_at

ROOT = Path(__file__).parents[2]
VARIABLE = "SLUICE_REMOVED"
SECONDS = 300.0
PASSED, FAILED = 0, 1
"""The status of pytest if all tests pass, and if one fails."""
HANGS = "hangs"
PRELUDE = f"""
#include <cstdlib>
#include <cstring>
static inline bool is_removed(const char *name) {{
  static const char *const chosen = std::getenv("{VARIABLE}");
  return chosen && std::strcmp(chosen, name) == 0;
}}
"""


@dataclass(frozen=True)
class Removal:
    """A transfer function: lines of a file, and what is in their place."""

    name: str
    file: str
    tests: tuple[str, ...]
    """Files of which a test fails without it."""
    hangs: bool
    """Whether the analysis may not end without it, so that a test that lasts too long fails."""
    before: tuple[str, ...]
    """Lines that precede those that are removed, and follow them, so that the place is the only one."""
    old: tuple[str, ...]
    new: tuple[str, ...]
    after: tuple[str, ...]

    def place_in(self, lines: list[str]) -> int:
        """The number of the first line that is removed. Raises ValueError where it is not there once."""
        wanted = [line.strip() for line in (*self.before, *self.old)]
        known = [line.strip() for line in lines]
        found: list[int] = []
        for start in range(len(lines)):
            end = start + len(wanted)
            following = zip(self.after, known[end:], strict=False)
            if known[start:end] == wanted and all(line.startswith(text.strip()) for text, line in following):
                found.append(start + len(self.before))
        if len(found) != 1:
            raise ValueError(f"{self.name}: its place is {len(found)} times in {self.file}")
        return found[0]

    def text(self) -> str:
        """What is in the place of the lines, of which the environment chooses."""
        chosen = f'is_removed("{self.name}")'
        if self.new:
            return "".join(self.new).replace("REMOVED", chosen)
        return f"{{ if (!{chosen}) {{\n{''.join(self.old)}}} }}\n"


def read_removals() -> list[Removal]:
    """Those of removals.txt: a line with a name, a file and tests, and perhaps `hangs`; then lines of the file that are
    removed (-), with some around them, and perhaps lines in their place (+), where REMOVED is whether they are removed.
    """
    found: list[Removal] = []
    for text in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").strip().split("\n\n"):
        head, *lines = text.splitlines()
        name, file, *words = head.split()
        tests = tuple(word for word in words if word != HANGS)
        first = next(number for number, line in enumerate(lines) if line[0] == "-")
        changed = {sign: tuple(f"{line[1:]}\n" for line in lines if line[0] == sign) for sign in "-+"}
        before = tuple(line[1:] for line in lines[:first])
        after = tuple(line[1:] for line in lines[first:] if line[0] == " ")
        found.append(Removal(name, file, tests, HANGS in words, before, changed["-"], changed["+"], after))
    return found


def sources_with(removals: list[Removal], folder: Path) -> Path:
    """A copy of the tool's sources from which the environment may remove one of these. Raises ValueError."""
    shutil.copytree(SOURCES, folder)
    for file in {one.file for one in removals}:
        path = folder / file
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        places = {one.place_in(lines): one for one in removals if one.file == file}
        for place in sorted(places, reverse=True):
            one = places[place]
            lines[place : place + len(one.old)] = [one.text()]
        path.write_text("".join(lines), encoding="utf-8")
    with open(folder / "pch.h", "a", encoding="utf-8") as header:
        header.write(PRELUDE)
    return folder


def build(removals: list[Removal], folder: Path) -> dict[str, str]:
    """Builds the tool with these, and returns the environment in which the commands use it. Raises AnalyzeError."""
    program = tool(sources_with(removals, folder / "tool"))
    place = tool_at(folder / "cache")
    place.parent.mkdir(parents=True, mode=0o700)
    place.symlink_to(program)
    return {**os.environ, "SLUICE_CACHE": str(folder / "cache"), "PYTHONPATH": str(ROOT)}


def fails(name: str, tests: Iterable[str], environment: dict[str, str]) -> bool:
    """Whether a test of these files fails without what has this name, or, if it is empty, with nothing removed.
    Raises RuntimeError if the tests do not run, and TimeoutExpired if they last more than SECONDS.
    """
    files = [f"tests/analyze/{one}.py" for one in tests]
    options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-p", "no:rerunfailures", "--no-header", "--tb=no"]
    command = [sys.executable, "-m", "pytest", *options, *files]
    done = subprocess.run(
        command, cwd=ROOT, env={**environment, VARIABLE: name}, capture_output=True, text=True, timeout=SECONDS
    )
    if done.returncode not in (PASSED, FAILED):
        raise RuntimeError(f"{' '.join(command)} ends with status {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.returncode == FAILED


def is_missed(removal: Removal, environment: dict[str, str]) -> bool:
    """Whether a test fails without it. Raises what `fails` raises, except that one that hangs may last too long."""
    try:
        return fails(removal.name, removal.tests, environment)
    except subprocess.TimeoutExpired:
        if not removal.hangs:
            raise
        return True


def files_of(removals: Iterable[Removal]) -> list[str]:
    """The files with the tests of these, each once."""
    return sorted({test for one in removals for test in one.tests})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="those to remove; all unless given")
    parser.add_argument("--folder", type=Path, required=True, help="for the tool; must not exist")
    options = parser.parse_args()
    removals = read_removals()
    environment = build(removals, options.folder.resolve())
    chosen = [one for one in removals if not options.names or one.name in options.names]
    if broken := [file for file in files_of(chosen) if fails("", [file], environment)]:
        print(f"a test fails with nothing removed: {', '.join(broken)}", file=sys.stderr)
        return 2
    failed = False
    for one in chosen:
        if not is_missed(one, environment):
            failed = True
            print(one.name, flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
