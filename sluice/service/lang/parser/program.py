"""Reads a program from a file, with the files that it includes."""

from __future__ import annotations

from pathlib import Path

from sluice.service.lang import tree
from sluice.service.lang.errors import Place, ServiceError, Warned
from sluice.service.lang.parser.declarations import DeclarationParser

LARGEST = 1 << 20
"""Bytes of a source file."""


def parse_program(path: str) -> tuple[tree.Program, list[Warned]]:
    """The program in a file, and its warnings. Raises ServiceError."""
    program, warnings = tree.Program(path), list[Warned]()
    _read(Path(path), program, warnings, [], None)
    return program, warnings


def parse_source(source: str, file: str = "program.fk") -> tuple[tree.Program, list[Warned]]:
    """The same of a text; it includes files relative to the current folder."""
    program, warnings = tree.Program(file), list[Warned]()
    _parse(source, Path(file), program, warnings, [])
    return program, warnings


def _read(path: Path, program: tree.Program, warnings: list[Warned], within: list[Path], place: Place | None) -> None:
    where = place or Place(str(path), 1)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ServiceError(where, f"{path}: {error.strerror}", "name a file that can be read.") from error
    if len(data) > LARGEST:
        raise ServiceError(where, f"{path} has more than {LARGEST} bytes", "a program is smaller than that.")
    try:
        source = data.decode()
    except UnicodeDecodeError as error:
        raise ServiceError(where, f"{path} is not text in UTF-8", "name a FLICK program.") from error
    _parse(source, path, program, warnings, within)


def _parse(source: str, path: Path, program: tree.Program, warnings: list[Warned], within: list[Path]) -> None:
    def include(place: Place, name: str) -> None:
        target = path.parent / name
        if target.resolve() in {each.resolve() for each in [*within, path]}:
            raise ServiceError(place, f"'{name}' includes itself", "remove this line.")
        _read(target, program, warnings, [*within, path], place)

    parser = DeclarationParser(source, str(path))
    parser.file(program, include)
    warnings += parser.warnings
