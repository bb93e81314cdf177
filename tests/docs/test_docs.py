"""The manual's examples run, its links lead somewhere, and its page of protocols is what the files say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from docs.make_protocols import page
from sluice.ir.build import build
from sluice.lang import Stack

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
EXAMPLES = [
    pytest.param(code, id=f"{page.stem}: {code.splitlines()[0].removeprefix('# example: ')}")
    for page in PAGES
    for code in re.findall(r"```python\n(# example.*?)```", page.read_text(), re.DOTALL)
]


@pytest.mark.parametrize("code", EXAMPLES)
def test_examples_run(code: str) -> None:
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(code, "example.py", "exec"), names)
    for value in names.values():
        if isinstance(value, Stack):
            build(value)


@pytest.mark.parametrize("path", [*PAGES, ROOT / "README.md"], ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text()):
        assert (path.parent / target).exists(), target


def test_the_page_of_protocols_is_up_to_date() -> None:
    assert (ROOT / "docs/protocols.md").read_text() == page(), "run python docs/make_protocols.py"
