"""sluice mos -o DIR [--run PROGRAM.c]: write libsluice_mos, with which programs for mOS run over a stack of Sluice's.

DIR gets the headers of the interface (mos_api.h, mtcp_api.h and those that programs include with them), the library
in C with its compiled stack, and a Makefile. `make -C DIR` builds lib/libsluice_mos.so and .a; then

    cc -IDIR/include program.c -LDIR/lib -Wl,-rpath,DIR/lib -lsluice_mos

compiles a program as it is. `make -C DIR install PREFIX=...` puts both where the compiler looks without options.

--run also builds the library, compiles a program to DIR/bin and runs it with the arguments that follow its name. -r and
-i replace the devices that the program's configuration file names, and -w where their packets go:

    sluice mos -o mos -i eth0 --run "midstat.c -f mos.conf"                      watch an interface
    sluice mos -o mos -i eth0 -w eth1 --run "nat.c -f mos.conf -e 203.0.113.1"   forward between two

docs/mos.md has the rest.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

from sluice.cli.common.errors import CommandError
from sluice.cli.common.generated import write_generated
from sluice.cli.common.options import add_command
from sluice.cli.common.template import fill
from sluice.cli.common.toolchain import makefile_defaults
from sluice.codegen.stack import generate
from sluice.compat.mos.stack import mos
from sluice.engine.c_function import read_c_function
from sluice.engine.compiler import RUNTIME, compiler
from sluice.hooks.function import Functions
from sluice.lower.build import build as lower
from sluice.passes.pipeline import run as run_passes

LIBRARY = Path(__file__).resolve().parent.parent / "compat" / "mos"
BOXED = "boxed.c"
"""The code that is compiled with the stack, as a function on its events."""
IPV6, TUNNELS = "#define MOS_IPV6 1\n", "#define MOS_TUNNELS 1\n"
"""The macros at its beginning, where the stack has these layers."""


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(commands, "mos", __doc__, action)
    parser.add_argument(
        "-o", required=True, metavar="DIR", dest="folder", help="where to write; made if it is not there"
    )
    parser.add_argument("--ipv6", action="store_true", help="flows of TCP over IPv6, too, for programs that know them")
    parser.add_argument("--tunnels", action="store_true", help="also flows within GRE, IP in IP, VXLAN, GTP, ...")
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")
    parser.add_argument("--run", metavar="PROGRAM.c", help="compile and run a program; its arguments in the same word")
    parser.add_argument("-r", action="append", default=[], metavar="FILE", dest="files", help="a capture that it reads")
    parser.add_argument("-i", action="append", default=[], metavar="INTERFACE", dest="files", help="an interface")
    parser.add_argument("-w", metavar="TO", dest="to", help="the capture or interface that packets are forwarded to")


def action(options: argparse.Namespace) -> int:
    """Run the command."""
    folder = Path(options.folder)
    written = write_generated(folder, files(options.ipv6, options.tunnels), once="")
    if options.json:
        print(json.dumps({"name": "sluice_mos", "folder": str(folder), "files": written}))
    else:
        print(f"{folder}: {len(written)} files; `make -C {folder}` builds lib/libsluice_mos.so and lib/libsluice_mos.a")
    if options.run is None:
        if options.files or options.to:
            raise CommandError("-r, -i and -w are for a program: add --run PROGRAM.c")
        return 0
    return run_program(folder.resolve(), shlex.split(options.run), options)


def run_program(folder: Path, program: list[str], options: argparse.Namespace) -> NoReturn:
    """Build the library and a program for it, which replaces this process."""
    source = Path(program[0] if program else "")
    if not source.is_file():
        raise CommandError(f"{source}: there is no such file; give a program in C, written for mOS")
    command = shlex.join(compiler())
    build(["make", "-s", "-j2", "-C", str(folder), f"CC={command}"], "the library")
    made, lib = folder / "bin" / source.stem, folder / "lib"
    made.parent.mkdir(exist_ok=True)
    words = [*compiler(), "-O2", "-g", f"-I{folder / 'include'}", str(source), f"-L{lib}", f"-Wl,-rpath,{lib}"]
    build([*words, "-lsluice_mos", "-pthread", "-o", str(made)], str(source))
    environment = dict(os.environ)
    if options.files:
        environment["SLUICE_MOS_READ"] = ",".join(options.files)
    if options.to:
        environment["SLUICE_MOS_WRITE"] = options.to
    sys.stdout.flush()
    os.execve(made, [str(made), *program[1:]], environment)


def build(command: list[str], what: str) -> None:
    """Run a compiler, or make; CommandError with its messages where it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        raise CommandError(f"there is no {command[0]}, which builds {what}: install it") from None
    if done.returncode:
        raise CommandError(f"{what} does not compile:\n{done.stderr.strip()}")


def files(ipv6: bool = False, tunnels: bool = False) -> dict[str, str]:
    """All files of the library, by their names in the folder; ipv6, tunnels: kinds of flows that its stack finds."""
    folders = (str(LIBRARY), str(LIBRARY / "include"))
    text = (IPV6 if ipv6 else "") + (TUNNELS if tunnels else "") + (LIBRARY / BOXED).read_text(encoding="utf-8")
    boxed = read_c_function("mos_boxed", text, BOXED, folders)
    functions = Functions((boxed,))
    generated = generate(run_passes(lower(mos(ipv6, tunnels), functions.hooks()), "all"), functions)
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
