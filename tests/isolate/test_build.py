"""Compiling on demand: cached by content, with errors that say what to install."""

import shutil
from pathlib import Path

import pytest

from sluice.isolate import build
from sluice.isolate.build import COMPILERS, compiled, compiled_gaps
from sluice.isolate.errors import IsolateError

needs_clang = pytest.mark.skipif(
    not any(map(shutil.which, COMPILERS)) or not Path("/usr/include/bpf/bpf_helpers.h").exists(),
    reason="there is no clang, or no headers of libbpf (scripts/setup.sh --isolate)",
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path))
    return tmp_path


@needs_clang
def test_the_programs_are_compiled_once_until_a_header_changes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = folder / "sources" / "bpf"
    shutil.copytree(Path(build.__file__).parent / "bpf", sources)
    monkeypatch.setattr(build, "_PROGRAMS", sources / "account.bpf.c")
    first = compiled()
    assert first.parent == folder
    stamp = first.stat().st_mtime_ns
    assert compiled() == first
    assert first.stat().st_mtime_ns == stamp
    assert [path.name for path in folder.iterdir() if path.is_file()] == [first.name]
    (sources / "state.h").write_text((sources / "state.h").read_text() + "/* changed */\n")
    assert compiled() != first


@needs_clang
def test_an_error_of_the_compiler_is_shown_and_leaves_nothing(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "bpf" / "gaps.c"
    source.parent.mkdir()
    source.write_text("int main(void) { return nothing; }\n")
    monkeypatch.setattr(build, "_GAPS", source)
    with pytest.raises(IsolateError, match=r"(?s)could not compile .*nothing.*libbpf-dev"):
        compiled_gaps()
    assert not [path for path in folder.iterdir() if path.is_file()]


def test_without_clang_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_BPF_CC", "no-such-compiler")
    with pytest.raises(IsolateError, match=r"no-such-compiler[^$]*setup.sh --isolate"):
        compiled()


def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_BPF_CC", "true")
    tmp_path.chmod(0o777)
    with pytest.raises(IsolateError, match="SLUICE_CACHE"):
        compiled()


def test_a_machine_for_which_there_are_no_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "m68k")
    with pytest.raises(IsolateError, match="m68k"):
        compiled()
