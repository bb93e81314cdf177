"""Builds dist/*.tar.gz and dist/*.whl (make dist). Needs nothing but setuptools.

The archive is made of what git tracks, and of the parsers of others that scripts/setup.sh downloads; the wheel is made
of the unpacked archive, so that an archive that lacks a file is noticed.

    python scripts/dist.py [FOLDER]
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENDOR = Path("sluice/functions/vendor")
BACKEND = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"


def main(out: Path) -> None:
    """Write both to a folder."""
    if not (ROOT / VENDOR).is_dir():
        sys.exit(f"dist: {VENDOR} is missing: run scripts/setup.sh")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sluice-dist-") as folder:
        tree = Path(folder, "tree")
        export(tree)
        archive = build(tree, "build_sdist", out)
        with tarfile.open(out / archive) as packed:
            packed.extractall(folder, filter="data")
        wheel = build(Path(folder, archive.removesuffix(".tar.gz")), "build_wheel", out)
    print(f"{out / archive}\n{out / wheel}")


def export(tree: Path) -> None:
    """Copy the files that the archive is made of; links are followed."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    names = [Path(os.fsdecode(name)) for name in listed.split(b"\0") if name]
    names += [path.relative_to(ROOT) for path in (ROOT / VENDOR).rglob("*") if path.is_file()]
    for name in names:
        source, target = ROOT / name, tree / name
        if name.parts[0] in ("tests", "bench", "fuzz") or not source.exists():
            continue
        if source.is_dir():  # a link to a folder: the manual
            shutil.copytree(source, target)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)


def build(tree: Path, what: str, out: Path) -> str:
    """Run the build backend in a tree. Returns the name of the file."""
    command = [sys.executable, "-c", BACKEND, what, str(out.resolve())]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"dist: {what} failed:\n{done.stdout}{done.stderr}")
    return done.stdout.strip().splitlines()[-1]


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist")
