"""Stacks are found by name or in a user's file, and what is wrong is said with what to do."""

from pathlib import Path

import pytest

from sluice.lang import DescriptionError
from sluice.stacks.find import UnknownStackError, find_stack, stack_names

HEAD = "from sluice.lang import Stack, Connectionless\n"


def test_by_name() -> None:
    assert "tcp_ip" in stack_names() and "find" not in stack_names()
    assert find_stack("tcp_ip").name == "tcp_ip"


def test_unknown_name() -> None:
    with pytest.raises(UnknownStackError, match="did you mean 'tcp_ip'"):
        find_stack("tcpip")


def test_file_name_without_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(HEAD + "a = Stack('a')\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownStackError, match=r"\./mine\.py"):
        find_stack("mine")
    assert find_stack("mine.py").name == "a"
    assert find_stack("./mine.py").name == "a"


@pytest.mark.parametrize(
    "source, name",
    [
        ("any_name = Stack('one')\n", "one"),
        ("any_name = also = Stack('one')\n", "one"),
        ("a = Stack('a')\nstack = Stack('meant')\n", "meant"),
        ("from beside import other\n", "other"),
    ],
)
def test_file(tmp_path: Path, source: str, name: str) -> None:
    (tmp_path / "beside.py").write_text(HEAD + "other = Stack('other')\n")
    (tmp_path / "mine.py").write_text(HEAD + source)
    assert find_stack(str(tmp_path / "mine.py")).name == name


@pytest.mark.parametrize(
    "source, message",
    [
        ("", "no variable is a Stack"),
        ("stack = 1\n", "no variable is a Stack"),
        ("a = Stack()\nb = Stack()\n", r"several variables are stacks \(a, b\)"),
    ],
)
def test_file_without_a_stack(tmp_path: Path, source: str, message: str) -> None:
    (tmp_path / "mine.py").write_text(HEAD + source)
    with pytest.raises(UnknownStackError, match=message):
        find_stack(str(tmp_path / "mine.py"))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(UnknownStackError, match="no such file"):
        find_stack(str(tmp_path / "none.py"))


def test_error_in_the_file_keeps_its_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(HEAD + "stack = Stack()\nstack.a = 1\n")
    with pytest.raises(DescriptionError) as caught:
        find_stack(str(path))
    assert (caught.value.where.file, caught.value.where.line) == (str(path), 3)
