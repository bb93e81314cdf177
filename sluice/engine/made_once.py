"""A file that is made once, and from then on taken from the cache."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from sluice.engine.cache import WORK, CacheError, cache_folder, trim, use
from sluice.engine.sealed_file import move, seal


def made_once(name: str, make: Callable[[Path], None], executable: bool = False) -> Path:
    """The file of this name in the cache. make: writes it, at a path in a working folder, if it is not there.

    Raises what `make` raises, and CacheError where there is no place for it.
    """
    folder = cache_folder()
    path = folder / name
    if use(path) is not None:
        return path
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=WORK) as work:
            made = Path(work, name)
            make(made)
            seal(made)
            if executable:
                os.chmod(made, 0o700)
            move(made, path)
    except OSError as error:
        raise CacheError(
            f"{error.filename or folder}: {error.strerror}; set SLUICE_CACHE to a folder in which compiled programs "
            "can be written"
        ) from error
    trim(folder)
    return path
