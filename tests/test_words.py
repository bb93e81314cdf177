"""Words that the field does not use for what they were used for here (CONTRIBUTING, "Rules"): none of them comes
back in code or manual.
"""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent
BANNED = re.compile(r"\b(keeps? book|owes? a turn|in hand|foreseen|foresees?|whoever|comes? apart)\b", re.IGNORECASE)
FOLDERS = ("lang", "ir", "lower", "passes", "hooks", "codegen", "runtime", "protocols", "stacks", "functions")
FOLDERS += ("chain", "service", "analyze", "isolate")
"""Folders of `sluice` without these words. `compat`, `cli` and `engine` follow when their text is rewritten."""


def test_no_banned_word() -> None:
    words = ["git", "ls-files", *(f"sluice/{name}" for name in FOLDERS)]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = [
        f"{name}:{number}: {match[0]}"
        for name in listed.split()
        if name.endswith((".py", ".c", ".h", ".cpp"))
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), 1)
        for match in BANNED.finditer(line)
    ]
    assert found == []
