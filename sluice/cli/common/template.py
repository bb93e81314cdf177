"""Fills in the templates in templates/, from which commands write files."""

from __future__ import annotations

import re
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent / "templates"
_MARK = re.compile(r"@([A-Z_]+)@")


def fill(name: str, **values: str) -> str:
    """The text of the template `name`, with every @NAME@ replaced by the value of that name."""
    text = (_FOLDER / f"{name}.in").read_text(encoding="utf-8")
    return _MARK.sub(lambda mark: values[mark[1]], text)
