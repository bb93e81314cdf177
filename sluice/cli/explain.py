"""sluice explain STACK: print the IR after each pass, or the generated C.

Without more, the program as it was built and, after each pass, the layers that the pass changed. The text
form of the IR is described in docs/ir.md; every line ends with the line of the description that it came
from.

Of a service (PROGRAM.fk, or the name of a ready one): the generated C, as of `sluice serve --print-c`, which also
takes grammars.
"""

from __future__ import annotations

import argparse
import difflib
import itertools
import json
import re
import sys
from typing import Any

from sluice.cli.common.analyses import analyses
from sluice.cli.common.check_hooks import check_hooks
from sluice.cli.common.errors import CommandError, UsageError
from sluice.cli.common.files import check_output, write_text
from sluice.cli.common.graph_picture import graph_picture
from sluice.cli.common.options import add_command, add_compile_options, add_functions, add_stack, check_pass
from sluice.cli.common.running import checks_of, stack_of, warn
from sluice.codegen.stack import generate
from sluice.engine.functions import find_functions
from sluice.hooks.function import Functions
from sluice.ir.graph import LayerProgram, Program
from sluice.ir.text import print_layer, print_program
from sluice.lang.errors import did_you_mean
from sluice.lower.build import build
from sluice.passes.pipeline import run as run_passes
from sluice.service.load import load_file, ready_services
from sluice.service.lower.program import lower

BUILT = "built"
"""The name of the program before all passes."""


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(commands, "explain", __doc__, action)
    add_stack(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--pass", metavar="NAME", dest="only", help="only what this pass changed, as a difference")
    which.add_argument("--after", metavar="NAME", help=f"the whole program after this pass ('{BUILT}': before all)")
    which.add_argument("--c", action="store_true", help="the generated C")
    which.add_argument("--analyses", action="store_true", help="what the analyses of the last program decide for its C")
    parser.add_argument("--layer", metavar="L", help="only this layer, by its name in the stack or in the program")
    parser.add_argument(
        "--svg", metavar="FILE", help="draw a graph of --layer after the last pass, or after --after: the main one"
    )
    parser.add_argument("--graph", metavar="KIND", help="which graph --svg draws: main, end, drain, ...")
    parser.add_argument("--json", action="store_true", help="print the same as JSON")
    add_functions(parser, "function to compile with the stack, so that its events show")
    add_compile_options(parser)


def action(options: argparse.Namespace) -> int:
    """Run the command."""
    _check_usage(options)
    if options.stack.endswith(".fk") or options.stack in ready_services():
        return _explain_service(options)
    stack = stack_of(options.stack, options)
    wanted = find_functions(options.functions)
    hooked = Functions(tuple(wanted.c), wanted.python_hooks())
    built = build(stack, hooked.hooks(), checks_of(options), hooked.kept)
    stages: list[tuple[str, Program]] = [(BUILT, built)]
    last = run_passes(built, options.passes, observer=lambda name, program: stages.append((name, program)))
    warn(check_hooks(last, wanted))
    _check_layer(last, options.layer)
    if options.svg:
        _draw(stages, options)
        return 0
    if options.c:
        source = generate(last, hooked).source
        _print("c", _c_of(source, last, options.layer), options.json)
    elif options.analyses:
        rows = list(analyses(last, options.layer))
        print(json.dumps(dict(rows)) if options.json else "\n".join(f"{name}: {value}" for name, value in rows))
    elif options.after is not None:
        _print(options.after, _text(_stage(stages, options.after), options.layer), options.json)
    elif options.only is not None:
        at = [name for name, _ in stages].index(_known(stages, options.only))
        before, after = (_text(program, options.layer) for _, program in stages[at - 1 : at + 1])
        change = difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "after", "", "", 3, "")
        _print(options.only, "\n".join(change) or f"pass {options.only} changed nothing", options.json)
    elif options.json:
        rows = [{"after": name, "ir": _text(program, options.layer)} for name, program in stages]
        print(json.dumps({"stages": rows}))
    else:
        print("\n".join(_story(stages, options.layer)))
    return 0


def _explain_service(options: argparse.Namespace) -> int:
    if options.only is not None or options.after is not None or options.analyses or options.svg or options.layer:
        raise UsageError("a service has no passes and layers: omit these options; its task graph: sluice show")
    service = load_file(options.stack)
    _print("c", lower(service, service.process()).source.rstrip("\n"), options.json)
    return 0


def _check_usage(options: argparse.Namespace) -> None:
    """Raise UsageError for options that exclude each other, and for unknown passes."""
    for name in (options.only, options.after):
        if name is not None and name != BUILT:
            check_pass(name)
    if not options.svg:
        return
    if options.layer is None:
        raise UsageError("--svg draws the graphs of one layer: add --layer NAME (for the parse tree: sluice show)")
    if options.c or options.analyses or options.only is not None:
        raise UsageError("--svg draws the program after a pass: give --after, not --c, --analyses or --pass")


def _known(stages: list[tuple[str, Program]], name: str) -> str:
    if name not in [stage for stage, _ in stages] or (name == BUILT):
        raise CommandError(f"pass '{name}' was not run; leave --passes out, or name it there")
    return name


def _stage(stages: list[tuple[str, Program]], name: str) -> Program:
    if name != BUILT:
        _known(stages, name)
    return dict(stages)[name]


def _layers(program: Program, name: str | None) -> list[LayerProgram]:
    return [layer for layer in program.layers.values() if name is None or name in (layer.name, layer.layer)]


def _check_layer(program: Program, name: str | None) -> None:
    if not _layers(program, name):
        known = sorted({known for layer in program.layers.values() for known in (layer.name, layer.layer)})
        raise CommandError(f"the program has no layer '{name}': {did_you_mean(str(name), known)}")


def _text(program: Program, layer: str | None) -> str:
    return print_program(program) if layer is None else "\n".join(print_layer(x) for x in _layers(program, layer))


def _print(after: str, text: str, as_json: bool) -> None:
    print(json.dumps({"after": after, "text": text}) if as_json else text.rstrip("\n"))


def _story(stages: list[tuple[str, Program]], layer: str | None) -> list[str]:
    """The program as built, then, for each pass, the layers that it changed."""
    out = [f"=== {BUILT} ===", "", _text(stages[0][1], layer)]
    for (_, before), (name, after) in itertools.pairwise(stages):
        out += [f"=== after {name} ===", ""]
        same: list[str] = []
        for item in _layers(after, layer):
            text = print_layer(item)
            if item.name in before.layers and text == print_layer(before.layers[item.name]):
                same.append(item.name)
            else:
                out.append(text)
        if same:
            out += [f"unchanged: {', '.join(same)}", ""]
    return out


_LAYER_HEAD = re.compile(r"^/\* --- layer (\S+) \(parser .*\) --- \*/$", re.MULTILINE)
_PART_HEAD = re.compile(r"^/\* --- ", re.MULTILINE)


def _c_of(source: str, program: Program, layer: str | None) -> str:
    """The generated C; with `layer`, only the code of that layer."""
    if layer is None:
        return source
    names = {item.name for item in _layers(program, layer)}
    out: list[str] = []
    for head in _LAYER_HEAD.finditer(source):
        if head[1] in names:
            end = _PART_HEAD.search(source, head.end())
            out.append(source[head.start() : end.start() if end else len(source)])
    return "".join(out)


def _draw(stages: list[tuple[str, Program]], options: argparse.Namespace) -> None:
    """Write the picture of one graph, and report its omissions."""
    name = options.after or stages[-1][0]
    layers = _layers(_stage(stages, name), options.layer)
    graphs = {f"{layer.name}.{kind}": item for layer in layers for kind, item in layer.graphs_by_kind()}
    main = f"{layers[0].name}.main"
    chosen = main if options.graph is None else next((one for one in graphs if _is_graph(one, options.graph)), None)
    if chosen is None:
        kinds = {one.rpartition(".")[2] for one in graphs}
        raise CommandError(f"the layer has no graph '{options.graph}': {did_you_mean(str(options.graph), kinds)}")
    check_output(options.svg, options.stack)
    picture = graph_picture("built" if name == BUILT else f"after {name}", graphs[chosen])
    write_text(options.svg, picture.svg)
    others = [one for one in graphs if one != chosen]
    if options.json:
        row = {
            "after": name,
            "svg": options.svg,
            "graph": chosen,
            "blocks": picture.blocks,
            "left_out": picture.left_out,
        }
        print(json.dumps({**row, "other_graphs": others}))
        return
    if picture.note:
        print(f"sluice: note: {options.svg}: {picture.note}", file=sys.stderr)
    if others and options.graph is None:
        print(f"sluice: note: {options.svg}: shows {chosen}; --graph draws {', '.join(others)}", file=sys.stderr)


def _is_graph(full: str, name: str) -> bool:
    return name in (full, full.rpartition(".")[2])
