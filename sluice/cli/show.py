"""sluice show STACK: say what a stack consists of.

Its parse tree (which layer follows which, and when), then layer by layer: header, key of instances, what
they keep, sequence, state machine, events, timeouts. --svg draws parse tree and state machines into one
file. Of a file that describes a chain of functions: its arrangement, what each function subscribes to, publishes and
decides; --svg draws that. Of a service (PROGRAM.fk, or the name of a ready one): its task graph.
"""

from __future__ import annotations

import argparse
import json
import textwrap
from pathlib import Path
from typing import Any

from sluice.chain.find import describes_chain
from sluice.cli.chain import show_chain
from sluice.cli.common.describe import Data, describe
from sluice.cli.common.errors import CommandError
from sluice.cli.common.files import check_output, write_text
from sluice.cli.common.layer_tree import layer_tree
from sluice.cli.common.options import add_command, add_stack, count_from_1
from sluice.cli.common.pictures import stack_picture
from sluice.cli.common.task_graph import task_graph, task_picture, task_text
from sluice.lang.errors import did_you_mean
from sluice.lower.build import build
from sluice.service.load import load_file, ready_services
from sluice.stacks.find import find_stack

_WIDTH = 110
_INDENT = 13


def add(commands: Any) -> None:
    """Add the command to the command line."""
    parser = add_command(commands, "show", __doc__, action)
    add_stack(parser)
    parser.add_argument("--layer", metavar="L", help="only this layer")
    parser.add_argument(
        "--depth",
        type=count_from_1("layers"),
        metavar="N",
        help="only the parse tree, so many layers from the link types",
    )
    parser.add_argument("--svg", metavar="FILE", help="draw parse tree and state machines")
    parser.add_argument("--json", action="store_true", help="print all of it as JSON")


def action(options: argparse.Namespace) -> int:
    """Run the command."""
    if describes_chain(Path(options.stack)):
        return show_chain(options)
    if options.stack.endswith(".fk") or options.stack in ready_services():
        return _show_service(options)
    stack = find_stack(options.stack)
    build(stack)  # validates the description; errors have the line
    data = describe(stack)
    if options.layer is not None:
        names = [layer["name"] for layer in data["layers"]]
        if options.layer not in names:
            raise CommandError(f"the stack has no layer '{options.layer}': {did_you_mean(options.layer, names)}")
        data["layers"] = [layer for layer in data["layers"] if layer["name"] == options.layer]
    if options.svg:
        check_output(options.svg, options.stack)
        write_text(options.svg, stack_picture(data, tree=options.layer is None))
    if options.json:
        print(json.dumps(data))
    elif not options.svg:
        print(text_of(data, options.layer is None, options.depth))
    return 0


def _show_service(options: argparse.Namespace) -> int:
    service = load_file(options.stack)
    data = task_graph(service, service.process())
    if options.svg:
        check_output(options.svg, options.stack)
        write_text(options.svg, task_picture(data))
    if options.json:
        print(json.dumps(data))
    elif not options.svg:
        print(task_text(data))
    return 0


def text_of(data: Data, tree: bool = True, depth: int | None = None) -> str:
    """A description as text. Without `tree`, only its layers; `depth` limits the levels of the tree."""
    out: list[str] = []
    if tree:
        records = f", and {data['records']} records" if data["records"] else ""
        name = data["stack"] or "(without a name)"
        out += [f"stack {name}: a packet passes at most {data['depth']} layers{records}", ""]
        out += ["parse tree", *_tree(data, depth), ""]
    if depth is not None:
        return "\n".join(out).rstrip()
    for layer in data["layers"]:
        out += [*_layer(layer), ""]
    return "\n".join(out).rstrip()


def _tree(data: Data, depth: int | None) -> list[str]:
    """The layer tree (layer_tree.py). Below its other predecessors, a layer is listed by name only.

    depth: the number of levels; None for all.
    """
    tree = layer_tree(data)
    steps: dict[str, list[Data]] = {}
    for step in data["steps"]:
        steps.setdefault(step["lower"], []).append(step)
    rows: list[tuple[str, str]] = []
    printed: set[str] = set()

    def grow(name: str, when: str, level: int, own: bool) -> None:
        below = tree.below(name) if own and name not in printed else 0
        left_out = depth is not None and level >= depth and below
        note = f" ({below} below)" if left_out else "" if own and name not in printed else " (see " + name + ")"
        rows.append(("  " * level + name + (note if name in steps else ""), when))
        if not own or name in printed or (depth is not None and level >= depth):
            return
        printed.add(name)
        for step in steps.get(name, []):
            grow(step["upper"], step["when"], level + 1, step["upper"] in tree.children[name])

    for name, kinds in tree.roots.items():
        grow(name, f"link type {', '.join(kinds)}" if kinds else "any link type", 1, True)
    width = max(len(name) for name, _ in rows) + 2
    return [f"{name:<{width}}{when}".rstrip() for name, when in rows]


def _layer(layer: Data) -> list[str]:
    parser = "" if layer["parser"] == layer["name"] else f", parser {layer['parser']}"
    out = [f"layer {layer['name']} ({layer['where']}{parser})"]
    for line in layer["header"]:
        out += _row("header" if line is layer["header"][0] else "", line)
    for item in layer["requires"]:
        option = f", only with --{item['option']}" if item["option"] else ""
        out += _row("requires", f"{item['condition']}   (else malformed: {item['reason']}{option})")
    if layer["needs"]:
        out += _row("needs", f"{', '.join(layer['needs'])}   (of a layer below)")
    if layer["offers"]:
        out += _row("offers", ", ".join(f"{name} = {value}" for name, value in layer["offers"].items()))
    if layer["changes"]:
        out += _row("changes", ", ".join(f"{name} = {value}" for name, value in layer["changes"].items()))
    if layer["key"]:
        halves = " and ".join("[" + ", ".join(half) + "]" for half in layer["key"])
        out += _row("key", halves + (f"   (only if {layer['key_when']})" if layer["key_when"] else ""))
    if layer["creates"]:
        out += _row("creates", f"only if {layer['creates']}")
    if layer["alias"]:
        only = f"   (only if {layer['alias_when']})" if layer["alias_when"] else ""
        out += _row("alias", "; else ".join(", ".join(key) for key in layer["alias"]) + only)
    for group in ("perm", "temp"):
        if layer[group]:
            out += _row(group, ", ".join(layer[group]))
    for index, item in enumerate(layer["prep"]):
        out += _row("" if index else "prep", item)
    if layer["message"] is not None:
        m = layer["message"]
        again = f"; the next begins where {m['resync']}" if m["resync"] else ""
        out += _row("message", f"{m['length']} bytes, at most {m['limit']:,}{again}")
    if layer["sequence"] is not None:
        out += _sequence(layer["sequence"])
    if layer["sdu"] is not None:
        out += _row("sdu", layer["sdu"])
    if layer["timeout"] is not None:
        out += _row("timeout", f"{layer['timeout']:g} s")
    if layer["lifetime"] is not None:
        out += _row("lifetime", f"{layer['lifetime']:g} s")
    if layer["max_instances"] is not None:
        out += _row("instances", f"at most {layer['max_instances']:,} at once")
    if layer["machine"] is not None:
        out += _machine(layer["machine"])
    for event in layer["events"]:
        out += _row("event", f"{event['name']}: {event['action']}   ({event['where']})")
    for relation in layer["relations"]:
        out += _row("relation", relation)
    return out


def _sequence(s: Data) -> list[str]:
    out = _row("sequence", sequence_words(s))
    return out + (_row("", f"only if {s['when']}") if s["when"] else [])


def sequence_words(s: Data) -> str:
    """The units of a sequence and their order, as one sentence without its condition."""
    parts = [f"{s['data']} at {s['meta']}"]
    if s["data_len"]:
        parts.append(f"taking {s['data_len']}")
    parts.append("from 0" if s["zero_based"] else "wrapping")
    if s["start"]:
        parts.append(f"begun again when {s['start']}")
    if s["window"]:
        parts.append(f"window [{s['window'][0]}, {s['window'][1]}){'' if s['enforce'] else ' not enforced'}")
    parts.append(f"policy {s['policy']}")
    if s["units"]:
        parts.append("in units" + (f" with {s['head']} bytes of head" if s["head"] else ""))
    if s["whole"]:
        parts.append("whole or nothing")
    limit = f"{s['limit']:,} bytes" if s["limit"] else "what --hold and the receiver's window allow"
    parts.append(f"holds {limit}, {s['limit_pieces']:,} pieces, {s['limit_records']:,} records")
    if s["history"]:
        parts.append(f"keeps the last {s['history']:,} bytes")
    if not s["buffer_data"]:
        parts.append("without the bytes")
    return "; ".join(parts)


def _machine(machine: Data) -> list[str]:
    def state(item: Data) -> str:
        marks = [mark for mark in ("start", "accept", "closed") if item[mark]]
        return item["name"] + (f" ({', '.join(marks)})" if marks else "")

    out = _row("states", ", ".join(state(item) for item in machine["states"]))
    for t in machine["transitions"]:
        more = (f", timeout {t['timeout']:g} s" if t["timeout"] else "") + (", restart" if t["restart"] else "")
        out += _row("transition", f"{t['name']}: {t['from']} -> {t['to']} when {t['when']}{more}")
    return out


def _row(name: str, text: str) -> list[str]:
    """A name and its text, which is wrapped in the second column; the indentation of header lines is preserved."""
    indent = _INDENT + len(text) - len(text.lstrip())
    return textwrap.wrap(
        text.strip(),
        _WIDTH,
        initial_indent=f"  {name:<{indent - 2}}",
        subsequent_indent=" " * (indent + 2),
        break_long_words=False,
        break_on_hyphens=False,
    )
