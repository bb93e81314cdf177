"""sluice functions [NAME ...]: list the ready functions that -f takes, with one line each, or describe some.

A name is followed by its description, its parameters and what it counts, as `sluice run -f NAME --help` lists them.
Functions of your own are given by the name of their file: FILE.c or FILE.py (sluice help functions).
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from sluice.cli.common.options import add_command, function_help
from sluice.engine.functions import NONE, function_path, ready_functions
from sluice.report.logs import schema_of

_NONE = "No function: connections are tracked without storing their bytes."


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(commands, "functions", __doc__, action)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a ready function")
    parser.add_argument("--json", action="store_true", help="print the same as JSON")


def action(options: argparse.Namespace) -> int:
    """Run the command."""
    names: list[str] = options.names or ready_functions()
    if options.json:
        print(json.dumps([_facts(name) for name in names]))
    elif options.names:
        print("\n\n".join(f"{name}: {_description(name)}\n\n{function_help(name)}" for name in names))
    else:
        width = max(map(len, names)) + 2
        print("\n".join(f"{name:<{width}}{first_sentence(_description(name))}" for name in names))
    return 0


def _facts(name: str) -> dict[str, Any]:
    schema = schema_of(name)
    return {
        "name": name,
        "description": _description(name),
        "log": schema.log if schema else None,
        "columns": list(schema.columns) if schema else [],
    }


def _description(name: str) -> str:
    """The comment at the beginning of a function's file, as one text. Raises FunctionError for an unknown name."""
    if name == NONE:
        return _NONE
    text = function_path(name).read_text(encoding="utf-8")
    return _comment(text) if function_path(name).suffix == ".c" else _docstring(text)


def _comment(text: str) -> str:
    found = re.match(r"\s*/\*(.*?)\*/", text, re.DOTALL)
    paragraphs = re.split(r"\n[ *]*\n", found[1]) if found else [""]
    return "\n\n".join(" ".join(re.sub(r"^[ *]+", "", line) for line in one.splitlines()).strip() for one in paragraphs)


def _docstring(text: str) -> str:
    found = re.match(r'\s*"""(.*?)"""', text, re.DOTALL)
    return found[1].strip() if found else ""


def first_sentence(text: str) -> str:
    """The first sentence of a text, in one line."""
    return re.split(r"(?<=[^.][.])\s", " ".join(text.split("\n\n")[0].split()), maxsplit=1)[0]


def stack_summary(path: Path) -> str:
    """The first sentence of the docstring of a stack's file."""
    return first_sentence(_docstring(path.read_text(encoding="utf-8")))
