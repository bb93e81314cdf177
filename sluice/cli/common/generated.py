"""Writes files into a folder that may contain others of the user's: only what Sluice wrote itself is ever replaced.

A list in the folder has the name and the SHA-256 of every file that Sluice wrote. A file that is not in it, or whose
contents are not those in it, is the user's.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from sluice.cli.common.errors import CommandError
from sluice.cli.common.output_folder import OutputFolder

LIST = ".sluice-files"


def write_generated(path: Path, files: dict[str, str], once: str) -> list[str]:
    """Write the files, but not `once` where it is there; the names of those written.

    Raises CommandError, before anything is written, where a file that is not Sluice's would be replaced, and where
    something cannot be written.
    """
    with OutputFolder(path) as folder:
        ours = _listed(folder)
        wanted = {name: text.encode() for name, text in files.items() if name != once or not folder.exists(name)}
        foreign = [name for name, contents in wanted.items() if _is_foreign(folder, name, contents, ours)]
        if foreign:
            names = ", ".join(foreign[:4]) + (f" and {len(foreign) - 4} more" if len(foreign) > 4 else "")
            raise CommandError(
                f"{path}: {names} would be replaced, and {'was' if len(foreign) == 1 else 'were'} not written by "
                "Sluice, or changed since\n    give another folder with -o, or remove what you do not need."
            )
        # the list first, with the old digests too: what is interrupted can be continued the next time
        digests = {name: {_digest(contents)} for name, contents in wanted.items() if name != once}
        for name, known in ours.items():
            digests.setdefault(name, set()).update(known)
        folder.write(LIST, _list(digests))
        for name, contents in wanted.items():
            if folder.read(name, of_this_user=True) != contents:  # else its time stays, and make has nothing to do
                folder.write(name, contents)
        folder.write(
            LIST, _list({name: {_digest(wanted[name])} if name in wanted else digests[name] for name in digests})
        )
    return [*wanted, LIST]


def _is_foreign(folder: OutputFolder, name: str, contents: bytes, ours: dict[str, set[str]]) -> bool:
    """Whether the user has something else under a name than Sluice would write or wrote there."""
    if not folder.exists(name):
        return False
    found = folder.read(name)
    return found is None or (found != contents and _digest(found) not in ours.get(name, ()))


def _digest(contents: bytes) -> str:
    return hashlib.sha256(contents).hexdigest()


def _list(digests: dict[str, set[str]]) -> bytes:
    return "".join(f"{digest} {name}\n" for name in sorted(digests) for digest in sorted(digests[name])).encode()


def _listed(folder: OutputFolder) -> dict[str, set[str]]:
    """What Sluice wrote there before. A list that another user could have planted does not count."""
    found: dict[str, set[str]] = {}
    for line in (folder.read(LIST, of_this_user=True) or b"").decode(errors="replace").splitlines():
        digest, _, name = line.partition(" ")
        found.setdefault(name, set()).add(digest)
    return found
