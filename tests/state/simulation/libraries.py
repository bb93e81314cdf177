"""Copies of libraries: the processes of a chain are threads here, and each has static data of its own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from sluice.state.client import Client, client_library

_folders: list[Path] = []
"""The folders for copies; the last one is used."""


@contextmanager
def folder_of_copies() -> Generator[Path]:
    """A folder for the copies that are made within this context, inside that of an outer context."""
    outer = _folders[-1] if _folders else None
    with tempfile.TemporaryDirectory(dir=outer) as made:
        _folders.append(Path(made))
        try:
            yield _folders[-1]
        finally:
            _folders.pop()


def copied(path: Path) -> Path:
    """A copy of a library, which is loaded beside the original."""
    found = _folders[-1] / f"{len(list(_folders[-1].glob('*.so')))}.so"
    shutil.copyfile(path, found)
    return found


class OwnClient(Client):
    """A client of the store with static data of its own."""

    def _path(self) -> Path:
        return copied(client_library())
