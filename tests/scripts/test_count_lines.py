"""The table of description lines is what the descriptions have, and within what the paper has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.count_lines import PAGE, ROOT, TABLE_2, Entries, Row, StaleEntryError, count, page, read_entries, rows

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


@pytest.fixture(scope="module")
def table() -> list[Row]:
    """Counted once: it takes seconds."""
    return rows()


def test_not_more_lines_than_the_paper(table: list[Row]) -> None:
    assert [row.name for row in table if row.total > row.paper.total] == []


def test_every_stack_that_is_there_is_in_the_table(table: list[Row]) -> None:
    assert {"tcp_ip", "gtp", "pptp"} <= {row.name for row in table} <= TABLE_2.keys()


def test_what_counts(write: Write) -> None:
    text = '"""Doc.\n\nMore."""\n\nimport os\nfrom a import (\n    b,\n)\n\nX = 1  # why\n"""Of X."""\n# comment\n\n\n'
    text += 'def f():\n    """What."""\n    return (\n        1\n    )\n'
    lines = count(write(text), {})
    assert (lines.base, lines.more) == (5, {})


@pytest.mark.parametrize(
    "text, entries, base, more",
    [
        ("a = 1\nb = 2\n", {(1, "a = 1"): "x"}, 1, {"x": 1}),
        ("a = 1  # why\nb = 2\n", {(1, "a = 1"): "x y"}, 1, {"x y": 1}),
        ("a = 1\nb = 2\na = 1\n", {(2, "a = 1"): "x"}, 2, {"x": 1}),
        ("class c:\n    a = 1\n\n    b = 2\nd = 1\n", {(1, "class c:"): "x"}, 1, {"x": 3}),
        ("class c:\n    a = 1\n    b = 2\n", {(1, "a = 1"): "x", (1, "b = 2"): "y"}, 1, {"x": 1, "y": 1}),
        ("if a:\n    b = 1\n    c = 2\n", {(1, "if a:"): "x", (1, "b = 1"): "y"}, 0, {"x": 3}),
        (
            "f(\n    a,\n    b=1,\n    c=g(\n        1,\n    ),\n)\n",
            {(1, "b=1,"): "x", (1, "c=g("): "y"},
            3,
            {"x": 1, "y": 3},
        ),
        ("def f(\n    a,\n    b=1,\n):\n    pass\n", {(1, "b=1,"): "x"}, 4, {"x": 1}),
        ("a = f(\n    1\n)\nb = 1\n", {(1, "a = f("): "x"}, 1, {"x": 3}),
        ("a = (\n    b\n    + c(\n        1\n    )\n)\n", {(1, "+ c("): "x"}, 3, {"x": 3}),
    ],
)
def test_entries(write: Write, text: str, entries: Entries, base: int, more: dict[str, int]) -> None:
    lines = count(write(text), entries)
    assert (lines.base, dict(lines.more)) == (base, more)


def test_an_entry_without_its_line_is_named(write: Write) -> None:
    with pytest.raises(StaleEntryError, match="has no line 2 of 'a = 1' any more"):
        count(write("a = 1\n"), {(2, "a = 1"): "x"})


def test_every_entry_has_its_line() -> None:
    for name, entries in read_entries().items():
        count(ROOT / name, entries)
