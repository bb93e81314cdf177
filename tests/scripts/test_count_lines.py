"""The table of description lines is what the descriptions have, and within what the paper has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.count_lines import PAGE, TABLE_2, Row, count, page, rows

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def put(text: str) -> Path:
        path = tmp_path / "described.py"
        path.write_text(text)
        return path

    return put


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run scripts/count_lines.py"


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.name)
def test_not_more_lines_than_the_paper(row: Row) -> None:
    assert row.total <= row.paper.total


def test_every_stack_that_is_there_is_in_the_table() -> None:
    assert {"tcp_ip", "gtp", "pptp"} <= {row.name for row in rows()} <= TABLE_2.keys()


def test_what_counts(write: Write) -> None:
    text = '"""Doc.\n\nMore."""\n\nimport os\nfrom a import (\n    b,\n)\n\nX = 1  # why\n"""Of X."""\n# comment\n\n\n'
    text += 'def f():\n    """What."""\n    return (\n        1\n    )\n'
    lines = count(write(text))
    assert (lines.base, lines.more) == (5, {})


@pytest.mark.parametrize(
    "text, base, more",
    [
        ("a = 1  # more: x\nb = 2\n", 1, {"x": 1}),
        ("a = 1  # why; more: x y\nb = 2\n", 1, {"x y": 1}),
        ("class c:  # more: x\n    a = 1\n\n    b = 2\nd = 1\n", 1, {"x": 3}),
        ("class c:\n    a = 1  # more: x\n    b = 2  # more: y\n", 1, {"x": 1, "y": 1}),
        ("if a:  # more: x\n    b = 1  # more: y\n    c = 2\n", 0, {"x": 3}),
        ("f(\n    a,\n    b=1,  # more: x\n    c=g(  # more: y\n        1,\n    ),\n)\n", 3, {"x": 1, "y": 3}),
        ("def f(\n    a,\n    b=1,  # more: x\n):\n    pass\n", 4, {"x": 1}),
        ("a = f(\n    1\n)  # more: x\nb = 1\n", 1, {"x": 3}),
        ("a = (  # more: x\n    b\n    + c\n)\n", 0, {"x": 4}),
        ("a = (\n    b\n    + c(  # more: x\n        1\n    )\n)\n", 3, {"x": 3}),
    ],
)
def test_marks(write: Write, text: str, base: int, more: dict[str, int]) -> None:
    lines = count(write(text))
    assert (lines.base, dict(lines.more)) == (base, more)
