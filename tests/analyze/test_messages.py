"""What cannot be analysed is refused with a sentence that says what to do."""

from __future__ import annotations

import subprocess
from pathlib import Path

from sluice.analyze.toolchain import CLANG
from tests.analyze.conftest import SUBJECTS, to_bitcode
from tests.cli.conftest import Command


def compiled(folder: Path, text: str, *options: str, suffix: str = ".c") -> Path:
    source = folder / f"program{suffix}"
    source.write_text(text, encoding="utf-8")
    module = folder / "program.bc"
    subprocess.run([CLANG, "-c", "-emit-llvm", *options, "-o", str(module), str(source)], check=True, timeout=300)
    return module


def refused(sluice: Command, *arguments: object) -> str:
    done = sluice("analyze", *arguments)
    assert done.status == 1 and "Traceback" not in done.err
    return done.err


def test_without_debug_info(sluice: Command, tmp_path: Path) -> None:
    module = compiled(tmp_path, "int main(void) { return 0; }")
    assert "has no debug info, without which variables have no names; compile with -g" in refused(
        sluice, "report", module
    )


def test_debug_info_in_part_is_said(sluice: Command, tmp_path: Path) -> None:
    text = "int state; __attribute__((nodebug)) void f(void) { state++; } int main(void) { f(); return 0; }"
    done = sluice("analyze", "report", compiled(tmp_path, text, "-g"))
    assert "compiled without debug info, so that variables are missing: f" in done.out


def test_exceptions_of_cpp(sluice: Command, tmp_path: Path) -> None:
    text = "void f(); int main() { try { f(); } catch (int) { return 1; } return 0; }"
    err = refused(sluice, "report", compiled(tmp_path, text, "-g", suffix=".cpp"))
    assert "uses C++ exceptions (main, " in err and "program.cpp:1)" in err and "-fno-exceptions" in err


def test_no_receive_call(sluice: Command, tmp_path: Path) -> None:
    module = compiled(tmp_path, "int state; int main(void) { return state; }", "-g")
    done = sluice("analyze", "report", module)
    assert done.status == 1
    assert "has no receive call" in done.err and "--models" in done.err
    assert "top-level variables that packet processing may update: 0" in done.out
    assert "state" in done.out  # it persists all the same


def test_what_is_no_bitcode(sluice: Command, tmp_path: Path) -> None:
    text = tmp_path / "text.bc"
    text.write_text("not bitcode")
    assert "is not LLVM bitcode" in refused(sluice, "report", text)
    assert "is a compiled program, not bitcode; record its build" in refused(sluice, "report", "/bin/true")
    assert "there is no such file" in refused(sluice, "report", tmp_path / "missing.bc")
    empty = tmp_path / "empty.bc"
    empty.write_bytes(b"")
    assert "is not LLVM bitcode" in refused(sluice, "report", empty)


def test_damaged_bitcode(sluice: Command, tmp_path: Path) -> None:
    whole = to_bitcode(SUBJECTS / "flows.c", tmp_path / "flows.bc").read_bytes()
    damaged = tmp_path / "damaged.bc"
    for length in (4, 100, len(whole) // 2):
        damaged.write_bytes(whole[: length - length % 4])
        assert "is not LLVM bitcode" in refused(sluice, "report", damaged)


def test_a_description_with_a_mistake_names_its_line(sluice: Command, tmp_path: Path) -> None:
    module = to_bitcode(SUBJECTS / "flows.c", tmp_path / "flows.bc")
    models = tmp_path / "mine.yaml"
    models.write_text("externals:\n  - functions: [f]\n    returns: [argument1]\n")
    err = refused(sluice, "report", "--models", models, module)
    assert f"{models}:3: expected argN" in err
    models.write_text("external:\n  - functions: [f]\n")
    assert f"{models}:1: unknown key 'external'" in refused(sluice, "report", "--models", models, module)


def test_a_broken_build(sluice: Command, tmp_path: Path) -> None:
    (tmp_path / "broken.c").write_text("int main(void) { return missing; }\n")
    (tmp_path / "Makefile").write_text("all:\n\t$(CC) -o program broken.c\n")
    err = refused(sluice, "build", "--", "make", "-C", tmp_path)
    assert "the build failed: `make -C " in err
    assert "the first compiler call that failed is that of broken.c" in err
    assert "use of undeclared identifier 'missing'" in err
    assert "there is no" not in err
    assert "No such file" in refused(sluice, "build", "--", tmp_path / "no-such-command")


def test_a_build_that_does_nothing(sluice: Command, tmp_path: Path) -> None:
    assert "linked no program and called no compiler" in refused(sluice, "build", "--", "true")
    (tmp_path / "part.c").write_text("int part;\n")
    err = refused(sluice, "build", "--", "cc", "-c", "-o", tmp_path / "part.o", tmp_path / "part.c")
    assert "linked no program: it compiled 1 files" in err
