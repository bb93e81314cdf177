"""Python files that users give: what they import from beside them is theirs."""

from __future__ import annotations

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
