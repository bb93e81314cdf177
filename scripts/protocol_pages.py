"""The pages of the protocols in the manual: one for each file of sluice/protocols, out of the parsers that it makes.

`manual.py` writes them. A page begins with the file's own first words; the rest comes from the parsers
as they are built, as in `sluice show`.
"""

import importlib
import inspect
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from sluice.cli.common.describe import Data, describe, describe_layer
from sluice.cli.common.pictures import stack_picture
from sluice.cli.common.wording import words
from sluice.cli.show import sequence_words
from sluice.lang import Stack
from sluice.lang.choice import Choice
from sluice.lang.layout import AnyUntil, Field, HeaderFormat, LayoutType, VarintField
from sluice.lang.native import NativeFunction
from sluice.lang.prototype import Prototype
from sluice.stacks.find import DEFAULT, find_stack, stack_names

ROOT = Path(__file__).resolve().parents[1]

Maker = Callable[..., Prototype]
Table = list[list[str]]


def names() -> list[str]:
    """The protocols: the files of sluice/protocols."""
    return sorted(path.stem for path in (ROOT / "sluice" / "protocols").glob("*.py") if path.stem != "__init__")


def pages() -> dict[str, str]:
    """All files of docs/protocols by name: a page for each protocol, and the picture of its state machines."""
    found: dict[str, str] = {}
    for name in names():
        text, picture = page(name)
        found[f"{name}.md"] = text
        if picture:
            found[f"{name}.svg"] = picture
    return found


def index() -> str:
    """The table of all protocols."""
    rows = [[f"[{name}](protocols/{name}.md)", first_words(module_of(name))] for name in names()]
    return table(["protocol", "what it parses"], rows)


def first_words(module: ModuleType) -> str:
    """The first paragraph of a module's docstring, in one line."""
    return " ".join(inspect.cleandoc(module.__doc__ or "").split("\n\n")[0].split())


def module_of(name: str) -> ModuleType:
    return importlib.import_module(f"sluice.protocols.{name}")


def makers(name: str) -> dict[str, Maker]:
    """The functions of a protocol's file that make parsers, in the order of the file."""
    module = module_of(name)
    found = {
        key: value
        for key, value in vars(module).items()
        if key.endswith("_parser") and inspect.isfunction(value) and value.__module__ == module.__name__
    }
    return dict(sorted(found.items(), key=lambda item: item[1].__code__.co_firstlineno))


def made(maker: Maker) -> Prototype:
    """A parser with the settings that it has by default; another parser that it wants is made, too, by its name."""
    wanted = [p.name for p in inspect.signature(maker).parameters.values() if p.default is inspect.Parameter.empty]
    return maker(*(made(makers(name)[f"{name}_parser"]) for name in wanted))


# --- a page -------------------------------------------------------------------------------------------------


def page(name: str) -> tuple[str, str | None]:
    """The page of a protocol, and the picture that it shows, if it has one."""
    module = module_of(name)
    out = [
        f"# {name}",
        inspect.cleandoc(module.__doc__ or ""),
        f"Made by `scripts/manual.py` from [sluice/protocols/{name}.py](../../sluice/protocols/{name}.py); "
        "[all protocols](../protocols.md), [the language](../language.md).",
    ]
    alone = Stack(name)
    for key, maker in makers(name).items():
        setattr(alone, key.removesuffix("_parser"), made(maker))
    layers = [describe_layer(layer, alone) for layer in alone.layers.values()]
    machines = [layer for layer in layers if layer["machine"] is not None]
    picture = stack_picture({"layers": machines}, tree=False) if machines else None
    if picture:
        out.append(f"![State machine of {name}]({name}.svg)")
    for (key, maker), layer in zip(makers(name).items(), layers, strict=True):
        out.append(f"## {key}")
        out += parser_sections(name, maker, alone.layers[layer["name"]].prototype, layer)
    if native := functions(module):
        out += ["## Functions in C", native]
    return "\n\n".join(part for part in out if part) + "\n", picture


def functions(module: ModuleType) -> str:
    """The table of the functions in C that a module declares."""
    found = [item for item in vars(module).values() if isinstance(item, NativeFunction)]
    own = [item for item in found if item.module.where.file == module.__file__]
    rows = [[code(item.name), code(item.module.path.name), ", ".join(item.reasons)] for item in own]
    return table(["function", "in", "refuses for"], rows)


def parser_sections(name: str, maker: Maker, parser: Prototype, layer: Data) -> Iterator[str]:
    """What there is to say of one parser, part by part."""
    yield f"`from sluice.protocols.{name} import {maker.__name__}`"
    yield inspect.cleandoc(maker.__doc__ or "")
    settings = inspect.signature(maker).parameters.values()
    rows = [[f"`{p.name}`", "" if p.default is inspect.Parameter.empty else f"`{p.default!r}`"] for p in settings]
    yield from titled("Settings", table(["setting", "by default"], rows))
    if parser.format is not None:
        yield from titled("Header", "\n\n".join(header_parts(parser.format, "", parser)))
    else:
        yield "It reads no header."
    rows = [
        [item["reason"], code(item["condition"]), f"`--{item['option']}`" if item["option"] else ""]
        for item in layer["requires"]
    ]
    yield from titled("Well formed", table(["else malformed", "what must hold", "only with"], rows))
    rows = [[code(key), code(value)] for key, value in layer["offers"].items()]
    yield from titled("Offers", table(["name", "value"], rows))
    yield from titled("Needs", f"Of a layer below: {listed(layer['needs'])}." if layer["needs"] else "")
    yield from titled("Instances", "\n\n".join(instance_parts(layer)))
    yield from titled("Kept for a packet", f"With bits: {listed(layer['temp'])}." if layer["temp"] else "")
    if layer["message"] is not None:
        m = layer["message"]
        again = f"; the next begins where {code(m['resync'])}" if m["resync"] else ""
        yield from titled("Messages", f"Of {code(m['length'])} bytes, at most {m['limit']:,}{again}.")
    if layer["sequence"] is not None:
        s = layer["sequence"]
        only = f", only if {code(s['when'])}" if s["when"] else ""
        yield from titled("Sequence", f"{code(sequence_words(s))}{only}")
    yield from titled("What goes up", code(layer["sdu"]) if layer["sdu"] else "")
    if layer["machine"] is not None:
        yield from titled("States", "\n\n".join(machine_parts(layer["machine"])))
    yield from titled("Events", "\n\n".join(event_parts(layer["events"], layer["relations"])))
    yield from titled("Where it stands", stacks_part(maker))


def titled(title: str, text: str) -> Iterator[str]:
    """A part under its title, if there is something to say."""
    if text:
        yield f"### {title}"
        yield text


def header_parts(part: Any, when: str, own: Prototype) -> Iterator[str]:
    """The layouts of a header, each with when it is there and a table of its fields."""
    match part:
        case HeaderFormat():
            for item in part.parts:
                yield from header_parts(item, when, own)
        case LayoutType():
            yield f"`{part.__name__}`" + (f", {when}" if when else "")
            yield field_table(part, own)
        case AnyUntil():
            count = f", at most {code(words(part.count, own))} of them" if part.count is not None else ""
            end = f", up to byte {code(words(part.end, own))}" if part.end is not None else ""
            several = "any of the parts" if len(part.alternatives) > 1 else "again and again"
            condition = words(part.condition, own)
            while_ = "" if condition == "1" else f" while {code(condition)}"
            how = f"{several}{while_}{count}{end}"
            for item in part.alternatives:
                yield from header_parts(item, joined(when, how), own)
        case Choice():
            condition = words(part.condition, own)
            yield from header_parts(part.body, joined(when, f"if {code(condition)}"), own)
            if part.otherwise is not None:
                yield from header_parts(part.otherwise, joined(when, f"if not {code(condition)}"), own)
        case _:
            raise TypeError(part)


def joined(*conditions: str) -> str:
    return ", ".join(item for item in conditions if item)


def field_table(part: LayoutType, own: Prototype) -> str:
    """Fields with their widths, and what is special about them."""
    rows: Table = []
    for field in part.fields.values():
        special = [f"always {field.const}" if field.const is not None else ""]
        special.append("little-endian" if field.order == "little" else "")
        special.append("serial number" if field.serial else "")
        rows.append([code(field.name), width(field, own), joined(*special)])
    return table(["field", "bits", ""], rows)


def width(field: Field, own: Prototype) -> str:
    if isinstance(field, VarintField):
        return "8, 16, 32 or 64"
    return str(field.bits) if isinstance(field.bits, int) else code(words(field.bits, own))


def instance_parts(layer: Data) -> Iterator[str]:
    if layer["key"]:
        halves = " and ".join(listed(half) for half in layer["key"])
        sides = "The two sides" if len(layer["key"]) == 2 else "Key"
        yield f"{sides}: {halves}{only_if(layer['key_when'])}."
    if layer["creates"]:
        yield f"A packet makes one only if {code(layer['creates'])}."
    if layer["alias"]:
        lists = ", else by ".join(listed(key) for key in layer["alias"])
        yield f"Found also by {lists}{only_if(layer['alias_when'])}."
    if layer["timeout"] is not None:
        yield f"Ends after {layer['timeout']:g} s without a packet."
    if layer["perm"]:
        yield f"What an instance keeps, with bits: {listed(layer['perm'])}."


def only_if(condition: str | None) -> str:
    return f", only if {code(condition)}" if condition else ""


def machine_parts(machine: Data) -> Iterator[str]:
    rows = [
        [code(state["name"]), joined(*(mark for mark in ("start", "accept", "closed") if state[mark]))]
        for state in machine["states"]
    ]
    yield table(["state", ""], rows)
    rows = []
    for t in machine["transitions"]:
        more = joined(f"timeout {t['timeout']:g} s" if t["timeout"] else "", "restart" if t["restart"] else "")
        rows.append([code(t["name"]), code(t["from"]), code(t["to"]), code(t["when"]), more])
    yield table(["transition", "from", "to", "when", ""], rows)


def event_parts(events: list[Data], relations: list[str]) -> Iterator[str]:
    for event in events:
        yield f"`{event['name']}`: {code(event['action'])}"
        for data, fields in event["callbacks"].items():
            rows = [[code(field), "bytes" if bits is None else str(bits)] for field, bits in fields.items()]
            yield f"A function gets `{data}`:"
            yield table(["field", "bits"], rows)
    if relations:
        yield f"In this order, or with one another: {listed(relations)}."


def stacks_part(maker: Maker) -> str:
    """The stacks that the parser is in; of the default one, or else the first, the steps to and from it."""
    places = {name: found for name in ordered_stacks() if (found := layers_of(name, maker))}
    if not places:
        return "In no stack that comes with Sluice."
    first = next(iter(places))
    stack = stack_data(first)
    rows: Table = []
    for layer in places[first]:
        kinds = [str(root["link_type"]) for root in stack["roots"] if root["layer"] == layer]
        if kinds:
            rows.append(["a capture", code(layer), f"link type {', '.join(kinds)}"])
        for step in stack["steps"]:
            if layer in (step["lower"], step["upper"]):
                when = step["when"] if step["when"] != "1" else ""
                rows.append([code(step["lower"]), code(step["upper"]), code(when)])
    rows = [row for n, row in enumerate(rows) if row not in rows[:n]]
    others = f"; it is also in {listed(list(places)[1:])}" if len(places) > 1 else ""
    return f"In stack `{first}`{others}.\n\n{table(['from', 'to', 'when'], rows)}"


@cache
def ordered_stacks() -> list[str]:
    return [DEFAULT, *(name for name in stack_names() if name != DEFAULT)]


@cache
def stack_of(name: str) -> Stack:
    return find_stack(name)


@cache
def stack_data(name: str) -> Data:
    return describe(stack_of(name))


def layers_of(name: str, maker: Maker) -> list[str]:
    """The layers of a stack whose parsers a function makes, whatever its settings."""
    parser = made(maker)
    layers = stack_of(name).layers.values()
    return [at.name for at in layers if (at.prototype.where, at.prototype.name) == (parser.where, parser.name)]


# --- text ---------------------------------------------------------------------------------------------------


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def listed(items: list[str]) -> str:
    return ", ".join(code(item) for item in items)


def table(head: list[str], rows: Table) -> str:
    """A table of Markdown, without columns in which nothing stands; nothing where there are no rows."""
    if not rows:
        return ""
    filled = [n for n in range(len(head)) if any(row[n] for row in rows)]
    head, rows = [head[n] for n in filled], [[row[n] for n in filled] for row in rows]
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
