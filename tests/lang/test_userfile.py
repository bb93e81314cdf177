"""Python files that users give: what they import from beside them is theirs."""

from __future__ import annotations

import os
import py_compile
import shutil
import sys
from pathlib import Path

import pytest

from sluice.lang.userfile import execute, executed


def folder(path: Path, value: int) -> Path:
    """A file that imports a module from beside it, and that module, which has the value."""
    path.mkdir()
    (path / "helper_of_users.py").write_text(f"value = {value}\n")
    (path / "mine.py").write_text("from helper_of_users import value\n")
    return path / "mine.py"


def test_each_folder_has_its_own_helper(tmp_path: Path) -> None:
    first, second = folder(tmp_path / "first", 1), folder(tmp_path / "second", 2)
    assert [execute(path).value for path in (first, second, first)] == [1, 2, 1]


def test_a_helper_in_a_package(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name / "parts").mkdir(parents=True)
        (tmp_path / name / "parts" / "__init__.py").write_text("")
        (tmp_path / name / "parts" / "one.py").write_text(f"value = {name!r}\n")
        (tmp_path / name / "mine.py").write_text("from parts.one import value\n")
        assert execute(tmp_path / name / "mine.py").value == name


def test_a_file_runs_once_where_that_is_enough(tmp_path: Path) -> None:
    path = folder(tmp_path / "first", 1)
    module = execute(path)
    assert executed(path) is module
    assert execute(path) is not module


def test_a_file_that_fails_leaves_nothing(tmp_path: Path) -> None:
    path = folder(tmp_path / "first", 1)
    path.write_text("import helper_of_users\nraise RuntimeError('mine')\n")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="mine"):
            executed(path)
    assert executed(folder(tmp_path / "second", 2)).value == 2


def test_files_are_read_as_they_are_now_and_nothing_is_left_with_them(tmp_path: Path) -> None:
    """Edited within the second and to the same size: what Python keeps in __pycache__ would be taken for it."""
    path = folder(tmp_path / "first", 1)
    (path.parent / "parts").mkdir()
    (path.parent / "parts" / "one.py").write_text("one = 1\n")
    path.write_text("from helper_of_users import value\nfrom parts.one import one\nmine = 1\n")
    files = [path, path.with_name("helper_of_users.py"), path.parent / "parts" / "one.py"]
    for file in files:
        py_compile.compile(str(file), doraise=True)
        times = file.stat().st_atime_ns, file.stat().st_mtime_ns
        file.write_text(file.read_text().replace("= 1", "= 2"))
        os.utime(file, ns=times)
    module = execute(path)
    assert (module.mine, module.value, module.one) == (2, 2, 2)
    for cache in path.parent.rglob("__pycache__"):
        shutil.rmtree(cache)
    files[1].write_text("value = 3\n")
    assert execute(path).value == 3
    assert not list(path.parent.rglob("__pycache__"))


def test_what_is_installed_below_the_folder_keeps_its_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a .venv in it: what lies there is not the user's."""
    path = folder(tmp_path / "first", 1)
    site = path.parent / ".venv" / "site-packages"
    (site / "installed_for_users").mkdir(parents=True)
    (site / "installed_for_users" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    path.write_text("import installed_for_users\n")
    execute(path)
    assert (site / "installed_for_users" / "__pycache__").is_dir()
    assert not (path.parent / "__pycache__").exists()


def test_import_is_as_before_afterwards(tmp_path: Path) -> None:
    hooks, path = list(sys.path_hooks), folder(tmp_path / "first", 1)
    execute(path)
    assert sys.path_hooks == hooks and str(path.parent) not in sys.path_importer_cache
