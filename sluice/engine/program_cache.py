"""The program cache: generated programs, so that the next run need not build, optimise and generate one again.

A program is found by the content of its description, that is by the objects of the language that `build` reads,
whichever file made them; together with the functions, the options, and the state of Sluice's own files. The content is
written with the `pickle` module to be hashed, and is never read: what is stored is JSON (program_text.py).
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import pickle
import sys
import warnings
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from sluice.codegen.c.names import identifier
from sluice.codegen.stack import Generated
from sluice.engine.cache import PROGRAM, WORK, trim, use
from sluice.engine.program_text import NotStorableError, from_json, to_json
from sluice.engine.sealed_file import write_sealed
from sluice.hooks.function import Functions
from sluice.ir.graph import Block, Graph, Program
from sluice.ir.instruction import End
from sluice.lang.layout import LayoutType
from sluice.lang.stack import Stack

SLUICE = Path(__file__).resolve().parent.parent
KNOWN = sys.stdlib_module_names | {"sluice"}
"""Packages whose classes stay what they are while Python and Sluice do."""


@dataclass(frozen=True)
class Made:
    """A generated program: its C, and the program with empty graphs."""

    program: Program
    generated: Generated


def outline(program: Program) -> Program:
    """A program whose graphs are empty: nothing else is needed of one whose C is cached."""
    empty = Graph("", "", (), {"": Block("", [End("")])})
    layers = {
        name: replace(layer, **{kind: empty for kind, _ in layer.graphs_by_kind()})
        for name, layer in program.layers.items()
    }
    return replace(program, layers=layers)


@contextlib.contextmanager
def noted_warnings() -> Generator[list[warnings.WarningMessage]]:
    """The warnings that are given meanwhile, in a list as well."""
    found: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as recorded:
            warnings.simplefilter("always")
            found = recorded
            yield recorded
    finally:
        for item in found:
            warnings.warn_explicit(item.message, item.category, item.filename, item.lineno)


class _UnknownContentError(Exception):
    """An object that says by its name only what it is, and the name is the user's."""


class _Content(pickle.Pickler):
    """Writes a description: classes that users made by what is in them, others by their names."""

    def reducer_override(self, obj: object) -> Any:
        if isinstance(obj, LayoutType):
            return tuple, (), {"name": obj.__name__, "fields": obj.fields, "where": obj.where}
        if isinstance(obj, type) and obj.__module__.partition(".")[0] not in KNOWN:
            raise _UnknownContentError(obj)
        return NotImplemented


@cache
def _state_of_sluice() -> bytes:
    """A digest by which versions of Sluice differ, also while it is being changed."""
    digest = hashlib.sha256(sys.version.encode())
    for folder, folders, names in os.walk(SLUICE):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            state = os.stat(os.path.join(folder, name))
            digest.update(f"{folder}/{name} {state.st_size} {state.st_mtime_ns}\n".encode())
    return digest.digest()


_state_of_sluice()  # now, as what is imported is what counts, and not what files have become by the first use


def content(stack: Stack, functions: Functions, passes: str | list[str], options: frozenset[str]) -> str | None:
    """A digest of this description with all that is compiled with it; None where it has parts that cannot be hashed."""
    hooks = [
        sorted((hook.layer, hook.event) for hook in hooked)
        for hooked in (functions.python, functions.many, *functions.demanded)
    ]
    # the order of a set of texts differs from process to process
    in_c = [(replace(function, needs=frozenset()), sorted(function.needs)) for function in functions.c]
    stream = io.BytesIO()
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(max(limit, 20000))  # expressions are nested, and so are the layers that offer them
        _Content(stream, pickle.HIGHEST_PROTOCOL).dump((stack, in_c, hooks, passes, sorted(options)))
    except (_UnknownContentError, pickle.PicklingError, AttributeError, TypeError, RecursionError):
        return None
    finally:
        sys.setrecursionlimit(limit)
    return hashlib.sha256(_state_of_sluice() + stream.getbuffer()).hexdigest()[:32]


def recall(folder: Path, name: str, found: str) -> Made | None:
    """The program stored under a content; None where there is none, or none that can be read."""
    contents = use(_path(folder, name, found))
    if contents is None:
        return None
    with contextlib.suppress(NotStorableError, UnicodeDecodeError, ValueError):
        program, generated = from_json(contents.decode())
        if isinstance(program, Program) and isinstance(generated, Generated):
            return Made(program, generated)
    return None


def store(folder: Path, name: str, found: str, made: Made) -> None:
    """Store it; where that is not possible, the next run takes as long as this one."""
    with contextlib.suppress(OSError, NotStorableError):
        write_sealed(_path(folder, name, found), to_json((made.program, made.generated)).encode(), WORK)
        trim(folder)


def _path(folder: Path, name: str, found: str) -> Path:
    """A stack's name is the user's: of it only letters, digits and underscores are in the name of the file."""
    return folder / f"{identifier(name)[:64]}-{found}{PROGRAM}"
