"""Functions of the tests as files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Put = Callable[[str, str], str]
"""Writes a file and returns its path; of a function in C without the line of its include."""


@pytest.fixture
def put(tmp_path: Path) -> Put:
    def write(name: str, text: str) -> str:
        path = tmp_path / name
        path.write_text(f'#include "sluice.h"\n{text}' if name.endswith(".c") else text)
        return str(path)

    return write
