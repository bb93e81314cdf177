"""scripts/setup.sh: what it refuses, it refuses before it changes anything; the locks of its two steps agree."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """All that setup.sh reads, and an environment that an earlier run left."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "setup.sh", tmp_path / "scripts")
    for path in (ROOT / "pyproject.toml", *ROOT.glob("requirements-*")):
        shutil.copy(path, tmp_path)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(shutil.which("python3") or "/usr/bin/python3")
    (tmp_path / ".venv" / "setup.stamp").write_text("of another key")
    return tmp_path


def setup(checkout: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [checkout / "scripts" / "setup.sh", *arguments]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("option", [[], ["--tools"], ["--sanitizers=try"], ["--tshark"], ["--bench"]])
def test_a_cc_that_does_not_work_is_refused_before_anything_is_changed(checkout: Path, option: list[str]) -> None:
    done = setup(checkout, *option, CC="nonsense")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("setup: CC='nonsense' does not compile") and len(done.stderr.splitlines()) == 1
    assert sorted(path.name for path in (checkout / ".venv").iterdir()) == ["bin", "setup.stamp"]


def test_unknown_options_are_wrong_usage(checkout: Path) -> None:
    done = setup(checkout, "--everything")
    assert done.returncode == 2 and done.stderr.startswith("usage: ")


def test_both_locks_name_one_setuptools() -> None:
    """So that the tools, which are installed into the same environment, change nothing that is there."""
    found = {
        name: re.search(r"^setuptools==\S+( \\\n    --hash=\S+)+", (ROOT / name).read_text(), re.MULTILINE)
        for name in ("requirements-build.lock", "requirements-dev.lock")
    }
    first, second = (match and match[0] for match in found.values())
    assert first is not None and first == second
