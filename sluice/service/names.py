"""Backends that change while services run: those of a name that is resolved again, and of a file that is watched."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

from sluice.service.serve import Address, AddressError, Backend, read_address, read_backend, split_scheme

MOST = 4096
"""Backends of a channel; runtime/options.c has the same number."""
FILE_MOST = 1 << 20
"""Bytes of a file of backends."""

Signature = tuple[int, int, int]


class Names:
    """The current and the last used meaning of the texts of backends. Of one that has no meaning any
    more, since a name is unknown for a while or a file is gone or wrong, the last one counts, and `warn` is given why.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._known: dict[str, list[Backend]] = {}
        self._used: dict[str, list[Backend]] = {}
        self._files: dict[str, Signature | None] = {}
        self._failed: dict[str, str] = {}

    def use(self, text: str) -> list[Backend]:
        """The backends of a text: an address, also after tls://, h2:// or h2c://; a folder; dns://HOST:PORT, all
        addresses of a name; or @FILE, whose lines are such texts. Raises AddressError if it never had any.
        """
        self._used[text] = self._now(text)
        return self._used[text]

    def draft(self) -> Names:
        """The same, of which nothing is used yet."""
        made = Names(self._warn)
        made._known, made._files, made._failed = self._known, self._files, self._failed
        return made

    def adopt(self, draft: Names) -> None:
        """Only the entries used in a draft are used from now on."""
        self._used = draft._used

    def changed(self, names: bool) -> dict[str, list[Backend]]:
        """The texts whose backends are others than those that were used last, with them. With `names` they are all
        resolved again; else only files are looked at that have changed.
        """
        found: dict[str, list[Backend]] = {}
        for text, used in list(self._used.items()):
            if names or (text.startswith("@") and _signature(text[1:]) != self._files.get(text)):
                self._now(text)
            if self._known[text] != used:
                found[text] = self._known[text]
        return found

    def _now(self, text: str) -> list[Backend]:
        before = self._known.get(text, [])
        if text.startswith("@"):
            self._files[text] = _signature(text[1:])
        try:
            found = _file(text[1:], before) if text.startswith("@") else _backends(text, before)
        except AddressError as error:
            if not before:
                raise
            if self._failed.get(text) != str(error):
                self._warn(f"{error}; its backends stay as they were")
            self._failed[text] = str(error)
            return before
        self._failed.pop(text, None)
        self._known[text] = found
        return found


def _signature(path: str) -> Signature | None:
    """The value that changes with the file; None without a file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _file(path: str, before: list[Backend]) -> list[Backend]:
    """The backends of a file: one in each line; `#` begins a comment."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(FILE_MOST + 1)
        lines = data.decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise AddressError(f"'@{path}': {error}; give a file with a backend in each line") from error
    if len(data) > FILE_MOST:
        raise AddressError(f"'@{path}' has more than {FILE_MOST:,} bytes; give a file with a backend in each line")
    found: list[Backend] = []
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        try:
            if text.startswith("@"):
                raise AddressError("a file cannot name another one: write its lines here")
            found += [each for each in _backends(text, before) if each not in found] if text else []
        except AddressError as error:
            raise AddressError(f"{path}, line {number}: {error}") from error
        if len(found) > MOST:
            raise AddressError(f"{path}, line {number}: more than {MOST:,} backends")
    if not found:
        raise AddressError(f"'@{path}' has no backend; write one in each line, such as 10.0.0.1:80")
    return found


def _backends(text: str, before: list[Backend]) -> list[Backend]:
    """The backends of a text that is no file. One address of a name stays as long as the name has it."""
    if text.startswith("dns://"):
        return [Backend(*each) for each in sorted(_addresses(text.removeprefix("dns://"), text))][:MOST]
    found = read_backend(text)
    if found.port == 0 or not before:
        return [found]
    now = _addresses(split_scheme(text)[1], text)
    return [next((each for each in before if each[2:] == found[2:] and each[:2] in now), found)]


def _addresses(place: str, text: str) -> set[Address]:
    """All addresses of HOST:PORT."""
    port = read_address(place)[1]
    host = place.rpartition(":")[0].removeprefix("[").removesuffix("]")
    try:
        found = socket.getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise AddressError(f"'{text}': {error.strerror or error}") from error
    return {(str(each[4][0]), int(each[4][1])) for each in found}
