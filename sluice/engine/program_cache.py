"""The program cache: stores generated programs, so that the next run does not build, optimise and generate them.

The key is a hash of the description's content (the objects of the language that `build` reads, whichever file created
them), the functions, the options, and the state of Sluice's own files. The content is serialised with the `pickle`
module only to be hashed, and never loaded; the stored format is JSON (program_text.py).
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
"""Packages whose classes change only with the version of Python or Sluice, so that a class name identifies them."""


@dataclass(frozen=True)
class Made:
    """A generated program: the program with empty graphs, and its C."""

    program: Program
    generated: Generated


def outline(program: Program) -> Program:
    """A copy of a program with empty graphs, which is sufficient once its C is generated."""
    empty = Graph("", "", (), {"": Block("", [End("")])})
    layers = {
        name: layer.with_graphs(**{kind: empty for kind, _ in layer.graphs_by_kind()})
        for name, layer in program.layers.items()
    }
    return replace(program, layers=layers)


@contextlib.contextmanager
def recorded_warnings() -> Generator[list[warnings.WarningMessage]]:
    """Collect the warnings that are raised in the context into a list, and emit them again at the end."""
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
    """An object that pickle identifies only by name, where the name is defined by the user."""


class _Content(pickle.Pickler):
    """Serialises a description: layout classes by content, classes of known packages by name; refuses other classes."""

    def reducer_override(self, obj: object) -> Any:
        if isinstance(obj, LayoutType):
            return tuple, (), {"name": obj.__name__, "fields": obj.fields, "where": obj.where}
        if isinstance(obj, type) and obj.__module__.partition(".")[0] not in KNOWN:
            raise _UnknownContentError(obj)
        return NotImplemented


@cache
def _state_of_sluice() -> bytes:
    """A digest that changes with every version of Sluice, including uncommitted edits."""
    digest = hashlib.sha256(sys.version.encode())
    for folder, folders, names in os.walk(SLUICE):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            state = os.stat(os.path.join(folder, name))
            digest.update(f"{folder}/{name} {state.st_size} {state.st_mtime_ns}\n".encode())
    return digest.digest()


_state_of_sluice()  # computed at import, so that it matches the imported code even if files change before the first use


def content(stack: Stack, functions: Functions, passes: str | list[str], options: frozenset[str]) -> str | None:
    """A digest of a description and everything compiled with it; None if a part of it cannot be hashed."""
    hooks = [
        sorted((hook.layer, hook.event) for hook in hooked)
        for hooked in (functions.python, functions.many, *functions.demanded)
    ]
    # the iteration order of a set of strings differs between processes
    in_c = [
        (replace(function, needs=frozenset(), fields=frozenset()), sorted(function.needs), sorted(function.fields))
        for function in functions.c
    ]
    stream = io.BytesIO()
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(max(limit, 20000))  # expressions nest deeply, and refer to layers
        _Content(stream, pickle.HIGHEST_PROTOCOL).dump((stack, in_c, hooks, functions.decides, passes, sorted(options)))
    except (_UnknownContentError, pickle.PicklingError, AttributeError, TypeError, RecursionError):
        return None
    finally:
        sys.setrecursionlimit(limit)
    return hashlib.sha256(_state_of_sluice() + stream.getbuffer()).hexdigest()[:32]


def recall(folder: Path, name: str, found: str) -> Made | None:
    """The program stored under a digest; None if it is missing or unreadable."""
    contents = use(_path(folder, name, found))
    if contents is None:
        return None
    with contextlib.suppress(NotStorableError, UnicodeDecodeError, ValueError):
        program, generated = from_json(contents.decode())
        if isinstance(program, Program) and isinstance(generated, Generated):
            return Made(program, generated)
    return None


def store(folder: Path, name: str, found: str, made: Made) -> None:
    """Store a program. Failure is ignored; the next run then generates the program again."""
    with contextlib.suppress(OSError, NotStorableError):
        write_sealed(_path(folder, name, found), to_json((made.program, made.generated)).encode(), WORK)
        trim(folder)


def _path(folder: Path, name: str, found: str) -> Path:
    """The path of a stored program. The user's stack name is reduced to letters, digits and underscores."""
    return folder / f"{identifier(name)[:64]}-{found}{PROGRAM}"
