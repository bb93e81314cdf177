"""sluice mos -o DIR: write libsluice_mos, with which programs for mOS run over a stack of Sluice's.

DIR gets the headers of the interface (mos_api.h, mtcp_api.h and those that programs include beside them), the library
in C with its compiled stack, and a Makefile. `make -C DIR` builds lib/libsluice_mos.so and .a; then

    cc -IDIR/include program.c -LDIR/lib -Wl,-rpath,DIR/lib -lsluice_mos

compiles a program as it is. `make -C DIR install PREFIX=...` puts both where the compiler looks without
options. A device of the configuration file is a capture file; docs/mos.md has the rest.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from sluice.cli.common.generated import write_generated
from sluice.cli.common.options import add_command
from sluice.cli.common.template import fill
from sluice.cli.common.toolchain import makefile_defaults
from sluice.codegen.stack import generate
from sluice.compat.mos.stack import mos
from sluice.engine.c_function import read_c_function
from sluice.engine.compiler import RUNTIME
from sluice.hooks.function import Functions
from sluice.lower.build import build
from sluice.passes.pipeline import run as run_passes

LIBRARY = Path(__file__).resolve().parent.parent / "compat" / "mos"
BOXED = "boxed.c"
"""The source that is compiled with the stack, as a function on its events."""


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(commands, "mos", __doc__, action)
    parser.add_argument(
        "-o", required=True, metavar="DIR", dest="folder", help="where to write; made if it is not there"
    )
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")


def action(options: argparse.Namespace) -> int:
    """Run the command."""
    folder = Path(options.folder)
    written = write_generated(folder, files(), once="")
    if options.json:
        print(json.dumps({"name": "sluice_mos", "folder": str(folder), "files": written}))
    else:
        print(f"{folder}: {len(written)} files; `make -C {folder}` builds lib/libsluice_mos.so and lib/libsluice_mos.a")
    return 0


def files() -> dict[str, str]:
    """The library's files, by their names in the folder."""
    folders = (str(LIBRARY), str(LIBRARY / "include"))
    boxed = read_c_function("mos_boxed", (LIBRARY / BOXED).read_text(encoding="utf-8"), BOXED, folders)
    functions = Functions((boxed,))
    generated = generate(run_passes(build(mos(), functions.hooks()), "all"), functions)
    found = {
        "Makefile": fill("mos/Makefile", DEFAULTS=makefile_defaults()),
        "README.md": fill("mos/README.md"),
        f"src/{generated.name}.h": generated.header,
        f"src/{generated.name}.c": generated.source,
    }
    for path in sorted(LIBRARY.glob("*.[ch]")):
        if path.name != BOXED:
            found[f"src/{path.name}"] = path.read_text(encoding="utf-8")
    for path in sorted((LIBRARY / "include").glob("*.h")):
        found[f"include/{path.name}"] = path.read_text(encoding="utf-8")
    for path in sorted(RUNTIME.rglob("*.[ch]")):
        found[f"src/runtime/{path.relative_to(RUNTIME)}"] = path.read_text(encoding="utf-8")
    return found
