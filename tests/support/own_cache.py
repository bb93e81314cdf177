"""Caches of single tests, in which the runtime is compiled already: that takes longer than a small stack."""

from __future__ import annotations

import shutil
from pathlib import Path

from sluice.engine.cache import OBJECT, cache_folder
from sluice.engine.compiler import RUNTIME_SOURCES


def own_cache(folder: Path) -> Path:
    """A new cache, which has only what the runtime's sources were compiled into in the current one."""
    folder.mkdir(mode=0o700)
    names = {path.stem for path in RUNTIME_SOURCES}
    for path in cache_folder().glob(f"*{OBJECT}"):
        if path.name.removeprefix("quick_").rpartition("-")[0] in names:
            shutil.copy2(path, folder)
    return folder
