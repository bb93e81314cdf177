"""The C compiler that is taken, and what makes a kept library another one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.codegen.stack import generate
from sluice.engine import compiler as engine
from sluice.engine.compiler import CompilerError, compile_library, compiler
from sluice.hooks.function import Functions
from sluice.lower.build import build
from sluice.stacks.find import find_stack

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("given", "told"),
    [("nonsense", "there is no program nonsense"), ("false", "does not compile"), ("cc '", "No closing quotation")],
)
def test_a_compiler_that_was_asked_for_is_not_replaced(monkeypatch: pytest.MonkeyPatch, given: str, told: str) -> None:
    monkeypatch.setenv("CC", given)
    with pytest.raises(CompilerError, match=told):
        compiler()


def test_and_that_is_told_in_a_line() -> None:
    capture = "examples/first/capture.pcap"
    command = [sys.executable, "-m", "sluice", "run", "examples/first/hello.py", "-r", capture]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "CC": "nonsense"})
    assert done.returncode == 1 and done.stderr.startswith("sluice: CC='nonsense': there is no program nonsense")
    assert len(done.stderr.splitlines()) == 1


@pytest.fixture
def small_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries with two of the runtime's files, which are not loaded."""
    monkeypatch.setattr(engine, "RUNTIME_SOURCES", engine.RUNTIME_SOURCES[:2])


@pytest.mark.usefixtures("small_runtime")
def test_another_processor_has_libraries_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path))
    monkeypatch.setenv("SLUICE_CFLAGS", "-O0")
    generated = generate(build(find_stack(str(ROOT / "examples" / "first" / "hello.py"))), Functions())
    first = compile_library(generated)
    assert (
        first.seconds > 0 and compile_library(generated).seconds == 0 and compile_library(generated).path == first.path
    )
    monkeypatch.setattr(engine, "processor", lambda: "another one")
    second = compile_library(generated)
    assert second.seconds > 0 and second.path != first.path


@pytest.mark.usefixtures("small_runtime")
def test_what_the_runtime_comes_to_is_kept_for_all_stacks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path))
    monkeypatch.setenv("SLUICE_CFLAGS", "-O0")

    hello, other = ROOT / "examples" / "first" / "hello.py", tmp_path / "other.py"
    other.write_text("\n" + hello.read_text())

    def compile_it(stack: Path, fresh: bool = False) -> dict[str, int]:
        assert compile_library(generate(build(find_stack(str(stack))), Functions()), fresh).seconds > 0
        return {path.name: path.stat().st_ino for path in tmp_path.glob("*.o")}

    first = compile_it(hello)
    assert sorted(name.split("-")[0] for name in first) == sorted(path.stem for path in engine.RUNTIME_SOURCES)
    assert compile_it(other) == first
    again = compile_it(hello, fresh=True)
    assert again.keys() == first.keys() and again != first
    monkeypatch.setenv("SLUICE_CFLAGS", "-O1")
    assert compile_it(hello).keys() > again.keys()


def test_a_folder_that_cannot_be_written_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    command = [sys.executable, "-m", "sluice", "run", "examples/first/hello.py", "-r", "examples/first/capture.pcap"]
    environment = {**os.environ, "SLUICE_CACHE": str(tmp_path / "file" / "x")}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 1 and done.stderr.startswith("sluice: SLUICE_CACHE=") and "Traceback" not in done.stderr
