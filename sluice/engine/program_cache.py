"""What a description came to, kept so that the next run need not build, optimise and generate it again.

It is found by the content of the description itself, whatever file or program made it: the objects of the language that
`build` reads. Beside them count the functions, the options, and the state of Sluice's own files.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import pickle
import sys
import tempfile
import warnings
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from sluice.codegen.stack import Generated
from sluice.engine.cache import KEPT, WORK, kept, trim
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
    """What a description came to: C, and the program with empty graphs."""

    program: Program
    generated: Generated


def outline(program: Program) -> Program:
    """A program whose graphs are empty: what is asked of one whose C is there."""
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
    """What tells one version of Sluice from another, also while somebody works on it."""
    digest = hashlib.sha256(sys.version.encode())
    for folder, folders, names in os.walk(SLUICE):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            state = os.stat(os.path.join(folder, name))
            digest.update(f"{folder}/{name} {state.st_size} {state.st_mtime_ns}\n".encode())
    return digest.digest()


_state_of_sluice()  # now, as what is imported is what counts, and not what files have become by the first use


def content(stack: Stack, functions: Functions, passes: str | list[str], options: frozenset[str]) -> str | None:
    """What tells this description, with all that is compiled with it, from others; None when that cannot be said."""
    hooks = [
        sorted((hook.layer, hook.event) for hook in hooked)
        for hooked in (functions.python, functions.many, *functions.demanded)
    ]
    stream = io.BytesIO()
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(max(limit, 20000))  # expressions are nested, and so are the layers that offer them
        _Content(stream, pickle.HIGHEST_PROTOCOL).dump((stack, functions.c, hooks, passes, sorted(options)))
    except (_UnknownContentError, pickle.PicklingError, AttributeError, TypeError, RecursionError):
        return None
    finally:
        sys.setrecursionlimit(limit)
    return hashlib.sha256(_state_of_sluice() + stream.getbuffer()).hexdigest()[:32]


def recall(folder: Path, name: str, found: str) -> Made | None:
    """What was kept under a content; None where nothing was, or nothing that can be read."""
    path = folder / f"{name}-{found}{KEPT}"
    if not kept(path):
        return None
    with contextlib.suppress(Exception):  # whatever a file that is cut or from elsewhere makes of itself
        made = pickle.loads(path.read_bytes())
        if isinstance(made, Made):
            return made
    return None


def keep(folder: Path, name: str, found: str, made: Made) -> None:
    """Keep it; where that is not possible the next run takes as long as this one."""
    with contextlib.suppress(OSError):
        with tempfile.NamedTemporaryFile(dir=folder, prefix=WORK, delete=False) as file:
            file.write(pickle.dumps(made, pickle.HIGHEST_PROTOCOL))
        os.replace(file.name, folder / f"{name}-{found}{KEPT}")
        trim(folder)
