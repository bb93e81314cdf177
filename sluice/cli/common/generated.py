"""Writes generated files into a folder that may contain files of the user. Only files that Sluice wrote are replaced.

A list in the folder has the name and SHA-256 of every file that Sluice wrote. A file that is not listed, or whose
contents do not match the list, belongs to the user.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from sluice.cli.common.errors import CommandError
from sluice.cli.common.output_folder import OutputFolder

LIST = ".sluice-files"


def write_generated(path: Path, files: dict[str, str], once: str) -> list[str]:
    """Write the files, except `once` if it exists. Returns the names of the files written.

    Raises CommandError before anything is written if a file of the user would be replaced, and if a write fails.
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
        # write the list first, including the old digests, so that an interrupted run can be repeated
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
    """Whether a file exists under a name, and was not written by Sluice, and differs from the new file."""
    if not folder.exists(name):
        return False
    found = folder.read(name)
    return found is None or (found != contents and _digest(found) not in ours.get(name, ()))


def _digest(contents: bytes) -> str:
    return hashlib.sha256(contents).hexdigest()


def _list(digests: dict[str, set[str]]) -> bytes:
    return "".join(f"{digest} {name}\n" for name in sorted(digests) for digest in sorted(digests[name])).encode()


def _listed(folder: OutputFolder) -> dict[str, set[str]]:
    """The digests of the files that Sluice wrote before. A list that another user could have written is ignored."""
    found: dict[str, set[str]] = {}
    for line in (folder.read(LIST, of_this_user=True) or b"").decode(errors="replace").splitlines():
        digest, _, name = line.partition(" ")
        found.setdefault(name, set()).add(digest)
    return found
