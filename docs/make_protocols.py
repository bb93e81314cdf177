"""Writes docs/protocols.md from the docstrings of the parsers: python docs/make_protocols.py."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def page() -> str:
    """The text of the page."""
    out = ["# Protocols", "", "Made from the files in `sluice/protocols` by `docs/make_protocols.py`.", ""]
    for path in sorted((ROOT / "sluice/protocols").glob("*.py")):
        if path.stem == "__init__":
            continue
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        out += [f"## {path.stem}", "", text, ""]
    return "\n".join(out)


if __name__ == "__main__":
    (ROOT / "docs/protocols.md").write_text(page())
