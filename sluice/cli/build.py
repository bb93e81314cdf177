"""sluice build STACK -o DIR: write the stack as C that any program can embed.

DIR gets the generated C and its header, a manifest of its events (NAME.json), the runtime, a Makefile, a
program that runs over a capture file without Python (NAME-run), and embed.c, an example to start from. For each
Callback of the stack the header has a struct and a function, NAME_EVENT; the one in the library is weak and
empty until your program defines its own. --event does the same for built-in events. All global names begin with
NAME_, so that one program can link several stacks.
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
from sluice.cli.common.symbols import symbols, symbols_header
from sluice.cli.common.template import fill
from sluice.cli.common.toolchain import makefile_defaults
from sluice.codegen.c.names import c_string, comment, data_member, identifier
from sluice.codegen.events.functions import callback_functions, embedded_functions, embedded_struct
from sluice.codegen.events.manifest import manifest
from sluice.codegen.stack import generate
from sluice.engine.compiler import RUNTIME, native_files, source_files
from sluice.engine.functions import Wanted, find_functions
from sluice.hooks.function import Functions
from sluice.hooks.includes import without_folder
from sluice.hooks.subscription import is_named
from sluice.ir.graph import EventShape, Program
from sluice.ir.hook import Hook
from sluice.lang.events import BUILT_IN
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
    parser.add_argument(
        "--event",
        action="append",
        default=[],
        dest="events",
        metavar="LAYER:EVENT",
        help="a built-in event that your program gets, as tcp:data or *:end; with commas, or several times",
    )
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")
    add_compile_options(parser)


def action(options: argparse.Namespace) -> int:
    """Run the command."""
    stack = stack_of(options.stack, options)
    wanted = _in_c_only(find_functions(options.functions))
    if wanted.track_only:
        for layer in stack.layers.values():
            layer.prototype.buffer_data = False
    functions = Functions(
        tuple(
            replace(function, path=Path(function.path).name, text=without_folder(function.text, function.path))
            for function in wanted.c
        ),
        embedded=_events_of(options.events),
    )
    program = run_passes(build(stack, functions.hooks(), checks_of(options), functions.kept), options.passes)
    warn(check_hooks(program, wanted))
    _check_events(program, functions)
    if not embedded_functions(program, functions):
        functions = replace(functions, embedded=None)
    _refuse_taken_names(program)
    generated = generate(program, functions, weak=True)
    folder = Path(options.folder)
    files = {
        f"{generated.name}.h": generated.header,
        f"{generated.name}.c": generated.source,
        f"{generated.name}.json": manifest(program).text(),
        **_filled_in(program, functions, generated.name, wanted, options.stack),
        **_runtime(),
        **{f"native/{path.name}": path.read_text(encoding="utf-8") for path in native_files(program.natives)},
        **{f"native/{path.name}": path.read_text(encoding="utf-8") for path in source_files(functions.sources)},
    }
    compiled = {
        name: text for name, text in files.items() if name.startswith(("runtime/driver/", "runtime/io/", "native/"))
    }
    files[f"{generated.name}_symbols.h"] = symbols_header(generated.name, symbols(compiled))
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


def _events_of(texts: list[str]) -> frozenset[Hook]:
    """The events of --event. Raises CommandError."""
    found: set[Hook] = set()
    for text in (part for item in texts for part in item.split(",")):
        layer, colon, event = text.partition(":")
        if not colon or not layer or event not in BUILT_IN:
            raise CommandError(
                f"--event {text}: write LAYER:EVENT with a built-in event, as tcp:data or *:end\n"
                f"    built-in events: {', '.join(BUILT_IN)}"
            )
        found.add(Hook(layer, event))
    return frozenset(found)


def _check_events(program: Program, functions: Functions) -> None:
    """Refuse an event of --event that no layer has."""
    for hook in functions.embedded or ():
        if not any(is_named(hook.layer, layer) and hook.event in layer.events for layer in program.layers.values()):
            raise CommandError(f"--event {hook.layer}:{hook.event}: no layer of that name has the event")


def _refuse_taken_names(program: Program) -> None:
    """Refuse an event whose function name is a C keyword, or would replace a function that other code calls."""
    own = {
        "main",
        *(
            f"{identifier(program.name)}_{name}"
            for name in (
                "open",
                "process",
                "tick",
                "worker",
                "finish",
                "finish_step",
                "close",
                "counters",
                "counter_count",
            )
        ),
    }
    system = ctypes.CDLL(None)  # the C library and everything else in this process: more than a program links
    for event, shape in callback_functions(program).items():
        name = f"{identifier(program.name)}_{event}"
        if name in own or event.startswith(("sl_", "on_")):
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


def _filled_in(program: Program, functions: Functions, name: str, wanted: Wanted, source: str) -> dict[str, str]:
    """The files that are created from templates."""
    values = {"NAME": name, "STACK": program.name, "SOURCE": comment(Path(source).name).replace("`", "'")}
    of_functions = Functions(tuple(wanted.c)).libraries
    libraries = dict.fromkeys((*(name for module in program.natives for name in module.libraries), *of_functions))
    options = [text for text in wanted.options if isinstance(text, str)]
    found = embedded_functions(program, functions)
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
        "embed.c": fill("build/embed.c", CALLBACKS="".join(_printing(name, *item) for item in found.items()), **values),
        "README.md": fill("build/README.md", EVENTS=_events(found, name), **values),
    }


def _printing(prefix: str, name: str, shape: EventShape) -> str:
    """An example of a user's event function, which prints its arguments."""
    formats: list[str] = ["packet %llu: "]
    values: list[str] = ["(unsigned long long)event->packet"]
    for field, bits in shape.fields:
        formats.append(f"{' ' if len(formats) > 1 else name + ': '}{field}{'=%llu' if bits else ': %llu bytes'}")
        member = f"data->{data_member(field)}"
        values.append(f"(unsigned long long){member}{'' if bits else '.length'}")
    arguments = "".join(f",\n           {value}" for value in values)
    if not shape.fields:
        formats.append(name)
    text = f'    printf("{"".join(formats)}\\n"{arguments});\n'
    if not shape.fields:
        text = f"    (void)data;\n{text}"
    head = "/* Takes the place of the weak function of the library. */"
    struct = embedded_struct(prefix, shape)
    return f"{head}\nvoid {name}(const struct sl_event_info *event, const {struct} *data)\n{{\n{text}}}\n\n"


def _events(found: dict[str, EventShape], name: str) -> str:
    if not found:
        return "The stack has no Callback, so there is no function for you to define; --event chooses built-in events."
    lines = ["Functions that the stack calls; define those that you want:", ""]
    lines += [
        f"    void {function}(const struct sl_event_info *event, const {embedded_struct(name, shape)} *data);"
        for function, shape in found.items()
    ]
    end = f"The structs are in `{name}.h` and, of built-in events, in `runtime/driver/built_in_events.h`."
    return "\n".join([*lines, "", end])


def _runtime() -> dict[str, str]:
    """The runtime's files, by their names in the folder."""
    paths = sorted(RUNTIME.rglob("*.[ch]"))
    return {str(Path("runtime") / path.relative_to(RUNTIME)): path.read_text(encoding="utf-8") for path in paths}
