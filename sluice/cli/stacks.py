"""sluice stacks: list the stacks that come with Sluice, with one line each.

`sluice show STACK` describes one; a stack of your own is given by the name of its file (sluice help language).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import sluice.stacks
from sluice.cli.common.options import add_command
from sluice.cli.functions import stack_summary
from sluice.stacks.find import stack_names


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(commands, "stacks", __doc__, action)
    parser.add_argument("--json", action="store_true", help="print the same as JSON")


def action(options: argparse.Namespace) -> int:
    """Run the command."""
    folder = Path(sluice.stacks.__path__[0])
    found = {name: stack_summary(folder / f"{name}.py") for name in stack_names()}
    if options.json:
        print(json.dumps([{"name": name, "description": text} for name, text in found.items()]))
        return 0
    width = max(map(len, found)) + 2
    print("\n".join(f"{name:<{width}}{text}" for name, text in found.items()))
    return 0
