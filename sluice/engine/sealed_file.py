"""Files of the cache: each ends with its size and its SHA-256, by which one that was cut or damaged is recognised.

The trailer follows the contents, because linkers and loaders find all of an ELF file from its beginning. A file is
written under another name, synchronised to the disk, and then renamed: it is there as a whole or not at all, also
after a crash of the machine.
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
    """Append the trailer to a file of this user's, and take the rights of others. Raises OSError."""
    with open(path, "r+b") as file:
        contents = file.read()
        file.write(_TRAILER.pack(_MAGIC, len(contents), hashlib.sha256(contents).digest()))
        file.flush()
        os.fchmod(file.fileno(), 0o600)
        os.fsync(file.fileno())


def move(sealed: Path, path: Path) -> None:
    """Give a sealed file its name, in place of what has that name. Raises OSError."""
    os.replace(sealed, path)
    with contextlib.suppress(OSError):  # some file systems cannot synchronise a folder
        descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_sealed(path: Path, contents: bytes, prefix: str) -> None:
    """Write a file of the cache; its name begins with `prefix` until it is complete. Raises OSError."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=prefix, delete=False) as file:
        file.write(contents)
    seal(Path(file.name))
    move(Path(file.name), path)


def read_sealed(path: Path) -> bytes | None:
    """The contents of a file of the cache; None where it is missing, cut, damaged, a link, or not this user's alone."""
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
