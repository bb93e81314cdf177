"""sluice state dump|objects ...: show what functions store outside the box.

  sluice state objects -f nat                             what a function declares as shared
  sluice state dump valkey://10.0.0.9                     what a store holds of all functions, an object a line
  sluice state dump valkey+unix:///run/valkey.sock --json the same as JSON lines, sorted

An embedded store ends with its run: `sluice run --store embedded --state FILE` writes its final content.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any, cast

from sluice.cli.common.errors import UsageError
from sluice.cli.common.files import check_output, write_text
from sluice.cli.common.options import add_command, add_functions, add_store
from sluice.engine.functions import find_functions
from sluice.hooks.shared import Shared
from sluice.state.cluster import open_store
from sluice.state.library import check_version
from sluice.state.rows import store_rows


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(commands, "state", __doc__, _nothing)
    actions = parser.add_subparsers(dest="what", metavar="ACTION", required=True, title="actions")
    dump = add_command(actions, "dump", "sluice state dump STORE: print what a store holds of functions.", _dump)
    add_store(dump, "store")
    dump.add_argument("--function", metavar="NAME", help="only what this function stores")
    dump.add_argument("--json", action="store_true", help="JSON lines, as `sluice run --state` writes them")
    dump.add_argument("-o", metavar="FILE", dest="output", help="where to write them, in place of standard output")
    objects = add_command(
        actions, "objects", "sluice state objects -f FUNCTION: print what functions declare as shared.", _objects
    )
    add_functions(objects)
    objects.add_argument("--json", action="store_true", help="a JSON line for each object")


def _nothing(options: argparse.Namespace) -> int:
    raise UsageError("sluice state --help lists what it does")


def _dump(options: argparse.Namespace) -> int:
    if options.store.kind != "server":
        raise UsageError(
            f"{options.store.name} exists only while a run lasts: sluice run --state FILE writes its final content"
        )
    if options.output is not None:
        check_output(options.output)
    with open_store(options.store) as peer:
        check_version(peer)
        rows = store_rows(peer)
    if options.function is not None:
        rows = [row for row in rows if json.loads(row)["function"] == options.function]
    text = "".join(f"{line}\n" for line in (rows if options.json else map(_readable, rows)))
    if options.output is not None:
        write_text(options.output, text)
    else:
        print(text, end="")
    return 0


_SHOWN = 10
"""Items of a list, set or map that are shown."""


def _readable(row: str) -> str:
    """A row as a line: FUNCTION.OBJECT KEY: VALUE."""
    found = json.loads(row)
    value = found["value"]
    items = _items(value)
    if items is not None:
        shown = ", ".join(items[:_SHOWN])
        more = f", ... ({len(items):,} items)" if len(items) > _SHOWN else ""
        value = f"[{shown}{more}]"
    key = f" {found['key']}" if found["key"] else ""
    return f"{found['function']}.{found['object']}{key}: {value}"


def _items(value: Any) -> list[str] | None:
    """The items of a list, set or map; None for another value."""
    if isinstance(value, dict):
        return [f"{key}: {each}" for key, each in cast(dict[str, int], value).items()]
    return [str(each) for each in cast(list[int], value)] if isinstance(value, list) else None


def _objects(options: argparse.Namespace) -> int:
    if not options.functions:
        raise UsageError("give the functions by -f FUNCTION")
    rows = list(_declared(find_functions(options.functions).c))
    if options.json:
        for function, item in rows:
            print(
                json.dumps(
                    {
                        "function": function,
                        "object": item.name,
                        "type": item.type,
                        "scope": item.scope_text,
                        "access": item.access,
                        "loss": item.loss,
                        "help": item.help,
                    }
                )
            )
        return 0
    table = [("object", "type", "scope", "access", "loss", "what it is")]
    table += [
        (f"{function}.{item.name}", item.type, item.scope_text, item.access, item.loss, item.help)
        for function, item in rows
    ]
    widths = [max(len(row[column]) for row in table) for column in range(5)]
    for row in table:
        print("  ".join([*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[5]]).rstrip())
    return 0


def _declared(functions: list[Any]) -> Iterator[tuple[str, Shared]]:
    for function in functions:
        for item in function.shared:
            yield function.name, item
        if function.stored:
            yield function.name, function.stored.row
