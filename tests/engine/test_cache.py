"""Where compiled stacks are kept: a folder is found or asked for, what is old goes, what is in use stays."""

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sluice.engine import cache
from sluice.engine.cache import CacheError, cache_folder, trim, use
from sluice.engine.sealed_file import seal

ROOT = Path(__file__).resolve().parents[2]
TOUCH = """import sys; from pathlib import Path
from sluice.engine.cache import use; print(use(Path(sys.argv[1])) is not None)"""


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which nothing can be made (root may write everywhere, but not below a file); the temporary folder."""
    (tmp_path / "file").write_text("")
    monkeypatch.delenv("SLUICE_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    return tmp_path / "tmp"


def test_a_home_that_cannot_be_written_is_replaced_by_a_private_folder(nowhere: Path) -> None:
    folder = cache_folder()
    assert folder.parent == nowhere and stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert cache_folder() == folder


def test_a_temporary_folder_of_somebody_elses_is_not_trusted(nowhere: Path) -> None:
    made = cache_folder()
    made.chmod(0o777)
    with pytest.raises(CacheError, match="set SLUICE_CACHE"):
        cache_folder()
    made.rmdir()
    made.symlink_to(nowhere)
    with pytest.raises(CacheError, match="set SLUICE_CACHE"):
        cache_folder()


def test_a_folder_that_was_asked_for_is_taken_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path / "a" / "b"))
    assert cache_folder() == tmp_path / "a" / "b" and cache_folder().is_dir()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path / "file" / "b"))
    with pytest.raises(CacheError, match=r"SLUICE_CACHE=.*file/b: Not a directory"):
        cache_folder()


def library(folder: Path, name: str, age: int, size: int = 1000) -> Path:
    path = folder / name
    path.write_bytes(bytes(size - 48))
    seal(path)
    assert path.stat().st_size == size
    os.utime(path, (10**9 - age, 10**9 - age))
    return path


def test_what_was_not_used_for_the_longest_goes_first(tmp_path: Path) -> None:
    for age, kind in enumerate([".so", ".o", ".stack", ".so", ".o", ".stack"]):
        library(tmp_path, f"{age}{kind}", age)
    trim(tmp_path, 3000)
    assert {path.name for path in tmp_path.glob("[0-9]*")} == {"0.so", "1.o", "2.stack"}
    trim(tmp_path, 3000)
    assert len(list(tmp_path.glob("[0-9]*"))) == 3


def test_what_is_in_use_stays_here_and_in_other_processes(tmp_path: Path) -> None:
    mine, other, dead = (library(tmp_path, f"{name}.so", 100) for name in ("mine", "other", "dead"))
    assert use(mine) is not None
    for path, ending in ((dead, "os._exit(0)"), (other, "sys.stdin.read()")):
        code = f"{TOUCH}; import os; sys.stdout.flush(); {ending}"
        child = subprocess.Popen(
            [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
        )
        assert child.stdout is not None and child.stdin is not None
        assert child.stdout.readline() == b"True\n"
        if path is dead:  # without a chance to put away its list
            child.wait()
            child.stdin.close()
            child.stdout.close()
        else:
            for _ in range(2):
                trim(tmp_path, 0)
                assert {path.name for path in tmp_path.glob("*.so")} == {"mine.so", "other.so"}
            child.communicate()
    trim(tmp_path, 0)
    assert {path.name for path in tmp_path.glob("*.so")} == {"mine.so"}
    assert len(list(tmp_path.glob(".user-*"))) == 1


def test_being_asked_for_makes_it_young(tmp_path: Path) -> None:
    old = library(tmp_path, "old.so", 100)
    assert use(old) is not None and use(tmp_path / "missing.so") is None
    assert old.stat().st_mtime > 10**9


def test_what_a_killed_compiler_left_goes(tmp_path: Path) -> None:
    for name, age in ((".compiling-old", 10**9), (".compiling-new", 0)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.c").write_text("")
        when = (tmp_path / name).stat().st_mtime - age
        os.utime(tmp_path / name, (when, when))
    trim(tmp_path)
    assert [path.name for path in tmp_path.glob(".compiling-*")] == [".compiling-new"]


def test_the_tests_do_not_fill_the_users_cache() -> None:
    assert cache.cache_folder() != Path.home() / ".cache" / "sluice"
