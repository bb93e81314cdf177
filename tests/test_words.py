"""Words that the field does not use for what they were used for here (CONTRIBUTING, "Rules"): none of them comes
back in code or manual.
"""

import io
import re
import subprocess
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BANNED = re.compile(r"\b(keeps? book|owes? a turn|in hand|foreseen|foresees?|whoever|comes? apart)\b", re.IGNORECASE)
FOLDERS = ("lang", "ir", "lower", "passes", "hooks", "codegen", "runtime", "protocols", "stacks", "functions")
FOLDERS += ("chain", "service", "analyze", "isolate", "state", "ends", "report", "compat", "cli", "engine")
"""Folders of `sluice` without these words."""
OF_PERSONS_AND_PLACES = re.compile(r"\b(behind|anew|nobody|somebody|listens|hears?)\b", re.IGNORECASE)
"""In the compiler and the runtime: "after" (of time and order), "again", "no one", "is notified", "subscribes"."""
OF_THE_COMPILER = ("lang", "ir", "lower", "passes", "hooks", "codegen", "runtime", "engine")


MANUAL = ("docs", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "bench", "examples")


def found_in(banned: re.Pattern[str], places: tuple[str, ...], endings: tuple[str, ...]) -> list[str]:
    """Each line of the project's files with these endings that has a banned word."""
    listed = subprocess.run(["git", "ls-files", *places], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [
        f"{name}:{number}: {match[0]}"
        for name in listed.split()
        if name.endswith(endings)
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), 1)
        for match in banned.finditer(line)
    ]


@pytest.mark.parametrize("banned, folders", [(BANNED, FOLDERS), (OF_PERSONS_AND_PLACES, OF_THE_COMPILER)])
def test_no_banned_word_in_code(banned: re.Pattern[str], folders: tuple[str, ...]) -> None:
    assert found_in(banned, tuple(f"sluice/{name}" for name in folders), (".py", ".c", ".h", ".cpp")) == []


@pytest.mark.parametrize("banned", [BANNED, re.compile(r"\b(behind|anew|nobody|somebody|hears?)\b", re.IGNORECASE)])
def test_no_banned_word_in_the_manual(banned: re.Pattern[str]) -> None:
    """A server may listen there."""
    assert found_in(banned, MANUAL, (".md",)) == []


RENAMED = {"turn", "turns", "ahead", "foresee", "foreseen", "way", "ways", "anew"}
RENAMED |= {"behind", "told", "untold", "heard", "owed", "owes", "noted", "led", "late", "who", "nobody", "listener"}
"""Words that are no part of a name: the field says stage 2 or deferred, lookahead, predicted, path, rebase; after,
determined, acknowledged, stored, entered, subscriber.
"""
WITHOUT_THEM = ("sluice/ir", "sluice/passes", "sluice/codegen", "sluice/lower", "sluice/runtime/core")
WITHOUT_THEM += ("sluice/lang", "sluice/hooks", "sluice/engine", "sluice/report", "sluice/cli", "sluice/state")
WITHOUT_THEM += ("sluice/analyze", "sluice/chain")


def names(path: Path) -> set[str]:
    """The names in a source file, without comments and texts."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        return {token.string for token in tokens if token.type == tokenize.NAME}
    return set(re.findall(r"[A-Za-z_]\w*", re.sub(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\]|\\.)*"', "", text, flags=re.DOTALL)))


def test_no_renamed_word_in_a_name() -> None:
    listed = subprocess.run(
        ["git", "ls-files", *WITHOUT_THEM], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    found = {
        f"{file}: {name}"
        for file in listed.split()
        if file.endswith((".py", ".c", ".h"))
        for name in {Path(file).stem, *names(ROOT / file)}
        if RENAMED.intersection(name.lower().split("_"))
    }
    assert not found
