"""Compiles a new version of a function for a running box, from the box's description of itself (engine/reload.py)."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sluice.cli.common.errors import CommandError
from sluice.cli.common.running import compile_for, stack_of
from sluice.engine.c_function import declared_types, read_c_function
from sluice.engine.compiled_stack import CompiledStack
from sluice.engine.functions import find_functions, load_c
from sluice.engine.reload import layout, reload_of
from sluice.hooks.function import CFunction, Reload

_SAME = (
    "timers",
    "on_demand",
    "shared",
    "operations",
    "controlled",
    "published",
    "kept",
    "inline",
    "needs",
    "libraries",
)
"""Declarations that must be equal in two versions of a function, as the rest of the box was compiled for them."""


@dataclass(frozen=True)
class NewVersion:
    """The data for a box: the request's members, and the note on state."""

    request: dict[str, Any]
    said: list[str]


def compile_version(
    about: dict[str, Any],
    name: str,
    path: str | None,
    parameters: str | None,
    parse: Callable[[list[str]], argparse.Namespace],
) -> NewVersion:
    """Compile the new version. about: the box's description. name: of the function. path: its file, if it is not that
    of the old version. parse: reads a command line. Raises CommandError.
    """
    rows = {row["name"]: row for row in about["functions"]}
    if name not in rows:
        raise CommandError(f"the box has no function '{name}' in C: it has {', '.join(rows) or 'none'}")
    arguments: list[str] = about["arguments"]
    if arguments[:1] != ["run"]:
        raise CommandError(
            f"a box of `sluice {' '.join(arguments[:1])}` takes no new version: start it by `sluice run`"
        )
    place = str(Path(path).resolve()) if path is not None else str(Path(about["folder"], rows[name]["path"]))
    if not Path(place).is_file():
        raise CommandError(f"{place}: no such file")
    with _within(about["folder"]):
        options = parse(arguments)
        wanted = find_functions(options.functions)
        old = {each: _version(row) for each, row in rows.items()}
        new = load_c(Path(place), name)
        reload, said = _reload(rows[name], old[name], new, parameters is not None)
        wanted.c = [replace(new, reload=reload) if each == name else old[each] for each in rows]
        wanted.options = [""] * len(wanted.c)
        compiled = compile_for(stack_of(options.stack, options), wanted, options)
    if layout(compiled.generated) != about["layout"]:
        raise CommandError(
            f"{place}: it subscribes to events, or needs bytes, for which the box was not made: start the box again"
        )
    return NewVersion(_request(compiled, name, parameters), said)


@contextlib.contextmanager
def _within(folder: str) -> Generator[None]:
    """In the folder in which the box was started, as its command line is relative to it."""
    before = os.getcwd()
    try:
        os.chdir(folder)
    except OSError as error:
        raise CommandError(f"{folder}: {error.strerror}: the box was started there") from error
    try:
        yield
    finally:
        os.chdir(before)


def _version(row: dict[str, Any]) -> CFunction:
    """A version that the box has."""
    given = row["reload"]
    function = read_c_function(row["name"], row["text"], row["path"])
    return function if given is None else replace(function, reload=reload_of(given))


def _reload(row: dict[str, Any], old: CFunction, new: CFunction, sets: bool) -> tuple[Reload, list[str]]:
    """The request with the new version, and the note on it. sets: parameters are given. Raises CommandError."""
    for item in _SAME:
        if getattr(old, item) != getattr(new, item):
            raise CommandError(
                f"{new.path}: {item.replace('_', ' ')}: other than those that the box began with: start the box again"
            )
    if old.arrives != new.arrives:
        raise CommandError(
            f"{new.path}: SLUICE_ARRIVAL: connections of the box have the ends that packets have with the old version,"
            " and only one of the two translates them: start the box again"
        )
    before, after = declared_types(old), declared_types(new)
    if before.get("common") != after.get("common"):
        raise CommandError(f"{new.path}: SLUICE_COMMON has another type: start the box again")
    places = {hook.layer for hook in old.hooks} == {hook.layer for hook in new.hooks}
    was = old.reload or Reload()
    fresh: list[str] = []
    said: list[str] = []
    former, tables, beside = was.former, was.tables, was.beside
    if before.get("state") != after.get("state") or (new.state and not places):
        fresh.append("state")
        if old.state and not was.beside:
            former, tables = row["size"], tuple(row["tables"])
        beside = new.state
        why = "its type is another one" if before.get("state") != after.get("state") else "it is of other layers"
        said.append(f"state of flows starts anew: {why}" if new.state else "state of flows is given up")
    elif new.state:
        said.append("state of flows is kept")
    if before.get("worker") != after.get("worker"):
        fresh.append("workers")
        said.append("state of the worker starts anew: its type is another one")
    elif new.worker:
        said.append("state of the worker is kept")
    if old.parameters != new.parameters or sets:
        fresh.append("parameters")
    if [name for name, _ in old.counters] != [name for name, _ in new.counters]:
        fresh.append("function_counters")
        said.append("counters start anew: others are declared")
    # an empty tuple means that the box has the version
    return Reload(former, tables, beside, (*fresh, "text")), said


def _request(compiled: CompiledStack, name: str, parameters: str | None) -> dict[str, Any]:
    new = next(function for function in compiled.functions.c if function.name == name)
    assert new.reload is not None
    return {
        "do": "reload",
        "function": name,
        "text": new.text,
        "path": new.path,
        "counters": [list(item) for item in new.counters],
        "hooks": [[hook.layer, hook.event] for hook in new.hooks],
        "state": new.state,
        "reload": asdict(new.reload),
        "library": str(compiled.compiled.path),
        "options": parameters,
    }
