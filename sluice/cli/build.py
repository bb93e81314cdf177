"""sluice build STACK -o DIR: write the stack as C that any program can embed.

DIR gets the generated C and its header, the runtime, a Makefile, a program that runs over a capture file
without Python (NAME-run), and embed.c, an example to start from. For each Callback of the stack the header
has a struct and a function of the event's name; the one in the library is weak and empty until your program
defines its own.
"""

from __future__ import annotations

import argparse
import ctypes
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from sluice.cli.common.check_hooks import check_hooks
from sluice.cli.common.errors import CommandError
from sluice.cli.common.generated import write_generated
from sluice.cli.common.options import add_command, add_compile_options, add_functions, add_stack
from sluice.cli.common.running import checks_of, stack_of, warn
from sluice.cli.common.template import fill
from sluice.cli.common.toolchain import makefile_defaults
from sluice.codegen.c.names import c_string, comment, data_member, identifier
from sluice.codegen.events.functions import callback_functions, event_struct
from sluice.codegen.stack import generate
from sluice.engine.compiler import RUNTIME, native_files, source_files
from sluice.engine.functions import Wanted, find_functions
from sluice.hooks.c_words import C_WORDS
from sluice.hooks.function import Functions
from sluice.ir.graph import EventShape, Program
from sluice.lower.build import build
from sluice.passes.pipeline import run as run_passes

OURS_ONCE = "embed.c"
"""A file that is written only if it is missing; from then on it belongs to the user."""


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(commands, "build", __doc__, action)
    add_stack(parser)
    parser.add_argument(
        "-o", required=True, metavar="DIR", dest="folder", help="where to write; made if it is not there"
    )
    add_functions(parser, "function to compile in: a ready one by its name, or a C file")
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")
    add_compile_options(parser)


def action(options: argparse.Namespace) -> int:
    """Run the command."""
    stack = stack_of(options.stack, options)
    wanted = _in_c_only(find_functions(options.functions))
    if wanted.track_only:
        for layer in stack.layers.values():
            layer.prototype.buffer_data = False
    functions = Functions(tuple(replace(function, path=Path(function.path).name) for function in wanted.c))
    program = run_passes(build(stack, functions.hooks(), checks_of(options), functions.kept), options.passes)
    warn(check_hooks(program, wanted))
    _refuse_taken_names(program)
    generated = generate(program, functions, weak=True)
    folder = Path(options.folder)
    files = {
        f"{generated.name}.h": generated.header,
        f"{generated.name}.c": generated.source,
        **_filled_in(program, generated.name, wanted, options.stack),
        **_runtime(),
        **{f"native/{path.name}": path.read_text(encoding="utf-8") for path in native_files(program.natives)},
        **{f"native/{path.name}": path.read_text(encoding="utf-8") for path in source_files(functions.sources)},
    }
    written = write_generated(folder, files, once=OURS_ONCE)
    if options.json:
        print(json.dumps({"name": generated.name, "folder": str(folder), "files": written}))
    else:
        made = f"lib{generated.name}.a and {generated.name}-run"
        print(f"{folder}: {len(written)} files; `make -C {folder}` builds {made}")
    return 0


def _in_c_only(wanted: Wanted) -> Wanted:
    if wanted.python:
        name = wanted.python[0].name
        raise CommandError(f"{name}.py: a program without Python has no functions in Python; write it in C")
    return wanted


def _refuse_taken_names(program: Program) -> None:
    """Refuse an event whose function name is a C keyword, or would replace a function that other code calls."""
    own = {
        "main",
        *(
            f"{identifier(program.name)}_{name}"
            for name in ("open", "process", "tick", "worker", "finish", "finish_step", "close")
        ),
    }
    system = ctypes.CDLL(None)  # the C library and everything else in this process: more than a program links
    for name, shape in callback_functions(program).items():
        if name in C_WORDS:
            what = "a word of C"
        elif name in own or name.startswith("sl_"):
            what = "one that the program has already"
        elif hasattr(system, name):
            what = "one of the C library's, whose place the function would take"
        else:
            continue
        raise CommandError(
            f"{shape.where}: event '{shape.name}' becomes the function {name}, which is {what}\n"
            "    give the event another name."
        )


def _sources(program: Program, wanted: Wanted) -> list[str]:
    """The C files that are compiled separately: native modules, and files that functions are linked with."""
    of_functions = Functions(tuple(wanted.c)).sources
    return [*(module.name for module in program.natives), *(Path(source).stem for source in of_functions)]


def _filled_in(program: Program, name: str, wanted: Wanted, source: str) -> dict[str, str]:
    """The files that are created from templates."""
    values = {"NAME": name, "STACK": program.name, "SOURCE": comment(Path(source).name).replace("`", "'")}
    of_functions = Functions(tuple(wanted.c)).libraries
    libraries = dict.fromkeys((*(name for module in program.natives for name in module.libraries), *of_functions))
    options = [text for text in wanted.options if isinstance(text, str)]
    found = callback_functions(program)
    return {
        "Makefile": fill(
            "build/Makefile",
            DEFAULTS=makefile_defaults(),
            NATIVE_SOURCES="".join(f"native/{name}.c " for name in _sources(program, wanted)),
            NATIVE_LIBRARIES="".join(f"-l{library} " for library in libraries),
            **values,
        ),
        "main.c": fill(
            "build/main.c",
            FUNCTION_NAMES="".join(f"{c_string(function.name)}, " for function in wanted.c),
            FUNCTION_OPTIONS="".join(f"{c_string(text)}, " for text in options),
            NATIVE_NAMES="".join(f"{c_string(module.option)}, " for module in program.natives),
            NATIVE_OPTIONS='"", ' * len(program.natives),
            NATIVE_USAGE="".join(f" [--{module.option} TEXT]" for module in program.natives if module.option),
            **values,
        ),
        "embed.c": fill("build/embed.c", CALLBACKS="".join(_printing(*item) for item in found.items()), **values),
        "README.md": fill("build/README.md", EVENTS=_events(found, name), **values),
    }


def _printing(name: str, shape: EventShape) -> str:
    """An example of a user's event function, which prints its arguments."""
    formats: list[str] = []
    values: list[str] = []
    for field, bits in shape.fields:
        formats.append(f"{field}=%llu" if bits else f"{field}: %llu bytes")
        member = f"data->{data_member(field)}"
        values.append(f"(unsigned long long){member}{'' if bits else '.length'}")
    arguments = "".join(f",\n           {value}" for value in values)
    text = f'    printf("{name}: {" ".join(formats)}\\n"{arguments});\n'
    if not values:
        text = f'    (void)data;\n    puts("{name}");\n'
    head = "/* Takes the place of the weak function of the library. */"
    return f"{head}\nvoid {name}({event_struct(shape)} *data)\n{{\n{text}}}\n\n"


def _events(found: dict[str, EventShape], name: str) -> str:
    if not found:
        return "The stack has no Callback, so there is no function for you to define."
    lines = ["Functions that the stack calls; define those that you want:", ""]
    lines += [f"    void {function}({event_struct(shape)} *data);" for function, shape in found.items()]
    return "\n".join([*lines, "", f"The structs are in `{name}.h`."])


def _runtime() -> dict[str, str]:
    """The runtime's files, by their names in the folder."""
    paths = sorted(RUNTIME.rglob("*.[ch]"))
    return {str(Path("runtime") / path.relative_to(RUNTIME)): path.read_text(encoding="utf-8") for path in paths}
