"""Cache files: each ends with its size and SHA-256, so that truncation and corruption are detected.

The trailer follows the contents, because linkers and loaders read an ELF file from its beginning. A file is written
under a temporary name, synchronised to disk, and then renamed, so it is either complete or absent, even after a crash
of the machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
import tempfile
from pathlib import Path

from sluice.engine.trust import UntrustedError, open_trusted

_TRAILER = struct.Struct("<8sQ32s")
_MAGIC = b"sluice-1"


def seal(path: Path) -> None:
    """Append the trailer to a file, and set its mode to 0600. Raises OSError."""
    with open(path, "r+b") as file:
        contents = file.read()
        file.write(_TRAILER.pack(_MAGIC, len(contents), hashlib.sha256(contents).digest()))
        file.flush()
        os.fchmod(file.fileno(), 0o600)
        os.fsync(file.fileno())


def move(sealed: Path, path: Path) -> None:
    """Rename a sealed file to its final name, replacing an existing file. Raises OSError."""
    os.replace(sealed, path)
    with contextlib.suppress(OSError):  # some file systems cannot synchronise a folder
        descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_sealed(path: Path, contents: bytes, prefix: str) -> None:
    """Write a cache file; its name begins with `prefix` until it is complete. Raises OSError."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=prefix, delete=False) as file:
        file.write(contents)
    seal(Path(file.name))
    move(Path(file.name), path)


def read_sealed(path: Path) -> bytes | None:
    """The contents of a cache file. None if it is missing, truncated, corrupt, a link, or other users can change it."""
    try:
        with open(open_trusted(path), "rb") as file:
            contents = file.read()
    except (OSError, UntrustedError):
        return None
    at = len(contents) - _TRAILER.size
    if at < 0:
        return None
    magic, size, digest = _TRAILER.unpack_from(contents, at)
    found = contents[:at]
    return found if magic == _MAGIC and size == at and digest == hashlib.sha256(found).digest() else None
