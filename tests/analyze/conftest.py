"""What the tests of `analyze` share: programs in C, compiled as `sluice analyze build` compiles, and their analysis."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sluice.analyze.record.wrapper import RECORD
from sluice.analyze.report.model import Analysis
from sluice.analyze.run import analyze
from sluice.analyze.toolchain import CLANG, missing_programs
from tests.cli.conftest import sluice as sluice  # the fixture that runs a command

SUBJECTS = Path(__file__).resolve().parent / "subjects"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder run the tool."""
    missing = missing_programs()
    skip = pytest.mark.skip(reason=f"no {', '.join(missing)}: run scripts/setup.sh --analyze")
    for item in items:
        if missing and Path(__file__).parent in item.path.parents:
            item.add_marker(skip)


def to_bitcode(source: Path, module: Path, *options: str) -> Path:
    """Compile a file to a module, as recording a build does."""
    flags = [flag for flag in RECORD if "bitcode" not in flag]
    command = [CLANG, *flags, "-w", "-c", "-emit-llvm", *options, "-o", str(module), str(source)]
    subprocess.run(command, check=True, timeout=300)
    return module


Analyses = Callable[..., Analysis]


@pytest.fixture(scope="session")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Analyses:
    """The analysis of a program of `subjects`, by its name, with options of `analyze`; each is made once."""
    folder = tmp_path_factory.mktemp("subjects")
    done: dict[str, Analysis] = {}

    def analysis(name: str, **options: object) -> Analysis:
        module = folder / f"{name}.bc"
        if not module.exists():
            to_bitcode(SUBJECTS / f"{name}.c", module)
        key = f"{name} {options}"
        if key not in done:
            done[key] = analyze(str(module), **options)  # type: ignore[arg-type]
        return done[key]

    return analysis


def analysis_of(text: str, folder: Path, **options: object) -> Analysis:
    """The analysis of a program that is given as text, after `box.h`."""
    source = folder / "program.c"
    source.write_text(f'#include "box.h"\n{text}', encoding="utf-8")
    module = to_bitcode(source, folder / "program.bc", f"-I{SUBJECTS}")
    return analyze(str(module), **options)  # type: ignore[arg-type]


@pytest.fixture
def program(tmp_path: Path) -> Analyses:
    """The analysis of a program that a test gives as text, after `box.h`."""
    return lambda text, **options: analysis_of(text, tmp_path, **options)
