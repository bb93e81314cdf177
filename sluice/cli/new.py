"""sluice new NAME: write a starting point for a protocol of your own.

Makes a folder with a protocol over UDP (datagrams) or TCP (messages in a stream), its stack with a function in
Python, a capture, a test and a README, all of which run at once; change them from there.
"""

from __future__ import annotations

import argparse
import json
import keyword
import re
import shlex
from pathlib import Path
from typing import Any

from sluice.cli.common.errors import CommandError
from sluice.cli.common.options import add_command
from sluice.cli.common.output_folder import OutputFolder
from sluice.cli.common.starting_point import starting_point
from sluice.cli.common.template import fill

_TAKEN = ("eth", "ip", "udp", "tcp", "stack", "name", "depth", "layers", "branches", "where", "goodbye")
"""Names that the written stack, or every stack, already uses."""


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(commands, "new", __doc__, action)
    parser.add_argument("name", metavar="NAME", help="of the protocol: small letters, digits and underscores")
    parser.add_argument("-o", metavar="DIR", dest="folder", help="where to write (default: a folder called NAME)")
    parser.add_argument(
        "--over", choices=("udp", "tcp"), default="udp", help="a protocol of datagrams, or of messages in a stream"
    )
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")


def action(options: argparse.Namespace) -> int:
    """Run the command."""
    name: str = options.name
    if keyword.iskeyword(name):
        raise CommandError(f"'{name}' cannot name a protocol: it is a word of Python; choose another name")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise CommandError(
            f"'{name}' cannot name a protocol: take small letters, digits and underscores, as in my_protocol"
        )
    if name in _TAKEN:
        raise CommandError(f"'{name}' is used for something else in a stack: choose another name")
    folder = Path(options.folder or name)
    start = starting_point(options.over, name)
    values = {**start.values, "FOLDER": shlex.quote(str(folder))}
    files = {
        f"{name}_protocol.py": fill(f"new/{options.over}_protocol.py", **values).encode(),
        "stack.py": fill("new/stack.py", **values).encode(),
        f"test_{name}.py": fill("new/test.py", **values).encode(),
        "README.md": fill("new/README.md", **values).encode(),
        "capture.pcap": start.capture,
    }
    _write(folder, files)
    stack, capture = (shlex.quote(str(folder / name)) for name in ("stack.py", "capture.pcap"))
    run = f"sluice run {stack} -r {capture} -f {stack}"
    if options.json:
        print(json.dumps({"name": name, "folder": str(folder), "files": list(files), "run": run}))
    else:
        print(f"{folder}: {', '.join(files)}\nrun it with\n    {run}")
    return 0


def _write(folder: Path, files: dict[str, bytes]) -> None:
    """Write all files into an empty or new folder."""
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise CommandError(f"{folder}: is there already; give another name, or another folder with -o")
    except OSError as error:
        raise CommandError(f"{error.filename or folder}: {error.strerror}") from error
    with OutputFolder(folder) as output:
        for name, data in files.items():
            output.write(name, data)
