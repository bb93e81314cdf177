"""Recording a build: what the module contains, and what is said of the rest."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sluice.analyze.record import wrapper
from sluice.analyze.run import analyze
from tests.cli.conftest import Command

MAIN = "#include <unistd.h>\nint helper(int); static char buffer[64];\n" \
       "int main(void) { while (read(0, buffer, 64) > 0) helper(buffer[0]); return 0; }\n"  # fmt: skip
HELPER = "static int total; int helper(int n) { return total += n; }\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "main.c").write_text(MAIN)
    (tmp_path / "helper.c").write_text(HELPER)
    return tmp_path


def build(sluice: Command, makefile: str, *options: str) -> list[dict[str, Any]]:
    Path("Makefile").write_text(makefile.replace("    ", "\t"))
    done = sluice("analyze", "build", "--json", *options, "--", "make")
    assert done.status == 0, done.err
    return json.loads(done.out)


def state_of(module: str) -> set[str]:
    return {one.name for one in analyze(module).top_level}


def test_objects_archives_and_flags_of_all_kinds(sluice: Command, folder: Path) -> None:
    makefile = """
box: main.o libhelper.a
    gcc -s -O3 -flto -o $@ main.o -L. -lhelper
libhelper.a: helper.o
    ar rcs $@ $<
%.o: %.c
    gcc -O2 -g0 -flto -Werror -Wall -D_FORTIFY_SOURCE=2 -c -o $@ $<
"""
    (one,) = build(sluice, makefile)
    assert (one["module"], one["units"], one["left_out"], one["missing_functions"]) == ("box.bc", 2, [], [])
    assert state_of("box.bc") == {"buffer", "total"}


def test_sources_and_link_in_one_call_and_compilers_by_any_name(sluice: Command, folder: Path) -> None:
    for name in ("cc", "gcc", "clang", "$(CC)"):
        (one,) = build(sluice, f"all:\n    {name} -o box main.c helper.c\n")
        assert one["units"] == 2


def test_members_of_an_archive_that_the_linker_does_not_need_are_no_part(sluice: Command, folder: Path) -> None:
    (folder / "other.c").write_text("int other;\n")
    makefile = (
        "all:\n    cc -c main.c helper.c other.c\n    ar rcs lib.a helper.o other.o\n    cc -o box main.o lib.a\n"
    )
    (one,) = build(sluice, makefile)
    assert one["units"] == 2


def test_a_shared_library_of_the_same_build_is_included(sluice: Command, folder: Path) -> None:
    makefile = "all:\n    cc -shared -fPIC -o libhelper.so helper.c\n    cc -o box main.c -L. -lhelper\n"
    (one,) = build(sluice, makefile)
    assert [os.path.basename(path) for path in one["libraries"]] == ["libhelper.so"]
    assert "total" in state_of("box.bc")


def test_assembly_is_said_to_be_left_out(sluice: Command, folder: Path) -> None:
    (folder / "helper.S").write_text(
        ".globl helper\n.type helper, @function\nhelper: xor %eax, %eax\nret\n.size helper, .-helper\n"
        '.section .note.GNU-stack,"",@progbits\n'
    )
    (one,) = build(sluice, "all:\n    cc -o box main.c helper.S\n")
    assert one["left_out"] == [{"source": "helper.S", "reason": "assembly has no bitcode"}]
    assert one["missing_functions"] == ["helper"]
    assert analyze("box.bc").missing == ["helper"]  # a report on the module says so, too


def test_what_clang_does_not_compile_is_compiled_by_the_builds_own_compiler_and_said(
    sluice: Command, folder: Path
) -> None:
    nested = "int helper(int n) { int inner(int k) { return n + k; } return inner(1); }\n"  # an extension of gcc
    (folder / "helper.c").write_text(nested)
    (one,) = build(sluice, "all:\n    gcc -c main.c\n    gcc -c helper.c\n    gcc -o box main.o helper.o\n")
    assert [left["source"] for left in one["left_out"]] == ["helper.c"]
    assert "function definition is not allowed here" in one["left_out"][0]["reason"]
    assert "helper" in one["missing_functions"]


def test_an_object_that_was_there_before_is_found_by_its_functions(sluice: Command, folder: Path) -> None:
    os.system("gcc -c -o helper.o helper.c")
    (one,) = build(sluice, "all:\n    cc -o box main.c helper.o\n")
    assert (one["missing_functions"], one["missing_variables"]) == (["helper"], ["total"])


def test_inline_functions_that_the_program_has_nowhere_else_have_a_body(sluice: Command, folder: Path) -> None:
    (folder / "helper.c").write_text("")
    (folder / "main.c").write_text("static int total; inline int helper(int n) { return n + 1; }\n" + MAIN)
    (one,) = build(sluice, "box: main.o\n    cc -o box main.o\n")  # at -O2, gcc would inline it
    assert one["missing_functions"] == []
    assert not analyze("box.bc").unknown_functions


def test_a_function_that_is_missing_is_a_failure_of_the_build(sluice: Command, folder: Path) -> None:
    Path("Makefile").write_text("box: main.o\n\tcc -o box main.o\n")
    done = sluice("analyze", "build", "--", "make")
    assert done.status == 1 and "does not link: there is no helper" in done.err


def test_of_several_programs_each_has_a_module(sluice: Command, folder: Path) -> None:
    makefile = "all:\n    cc -o one main.c helper.c\n    cc -o two main.c helper.c\n"
    assert [one["module"] for one in build(sluice, makefile)] == ["one.bc", "two.bc"]
    assert [one["module"] for one in build(sluice, makefile, "--program", "two", "-o", "x.bc")] == ["x.bc"]
    done = sluice("analyze", "build", "-o", "x.bc", "--", "make")
    assert done.status == 1 and "2 programs (one, two): select one by --program NAME" in done.err


@pytest.mark.parametrize(
    ("arguments", "kind", "output", "sources"),
    [
        (["-c", "-o", "a.o", "a.c"], "compile", "a.o", ["a.c"]),
        (["-c", "-oa.o", "-I", "x.c", "a.c"], "compile", "a.o", ["a.c"]),
        (["a.o", "-lm", "-o", "prog"], "link", "prog", []),
        (["-E", "a.c"], "other", None, ["a.c"]),
        (["-MM", "a.c"], "other", None, ["a.c"]),
        (["--version"], "other", None, []),
        (["-MD", "-MF", "a.d", "-c", "a.c"], "compile", None, ["a.c"]),
    ],
)
def test_how_a_call_is_read(arguments: list[str], kind: str, output: str | None, sources: list[str]) -> None:
    found = wrapper.read(arguments)
    assert (found["kind"], found["output"], found["sources"]) == (kind, output, sources)


def test_functions_of_a_section_that_only_the_linker_names_are_in_the_module(sluice: Command, folder: Path) -> None:
    (folder / "helper.c").write_text(
        "static int total; static int add(int n) { return total += n; }\n"
        'static int (*const entry)(int) __attribute__((used, section("handlers"))) = add;\n'
    )
    (folder / "main.c").write_text(
        "#include <unistd.h>\nstatic char buffer[8];\nextern int (*const __start_handlers[])(int), (*const "
        "__stop_handlers[])(int);\nint main(void) {\n  while (read(0, buffer, 8) > 0)\n"
        "    for (int (*const *at)(int) = __start_handlers; at < __stop_handlers; at++) (*at)(buffer[0]);\n"
        "  return 0;\n}\n"
    )
    (one,) = build(sluice, "all:\n    cc -o box main.c helper.c\n")
    assert one["missing_functions"] == [] and one["missing_variables"] == []
    assert {"total", "buffer"} <= state_of("box.bc")
