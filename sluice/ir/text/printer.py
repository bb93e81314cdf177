"""Prints programs as text. Every part is printed completely, so that sluice.ir.text can parse the output."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from sluice.ir.expression import NAME, Expr, Reg, quote, show
from sluice.ir.graph import (
    PREFETCH_MOST,
    EventShape,
    Graph,
    InstanceLayout,
    KeyPart,
    LayerProgram,
    NativeModule,
    NativeShape,
    Program,
    Rules,
    State,
)
from sluice.ir.graph_kinds import MAIN
from sluice.ir.instruction import Instruction
from sluice.ir.text.line import BLOCK, FLAGS


def _block_name(name: str) -> str:
    return name if re.fullmatch(BLOCK, name) and name.isprintable() else quote(name)


def _type(reg: Reg) -> str:
    return f"{show(reg)}:{'bytes' if reg.is_bytes else f'u{reg.bits}'}"


def print_instruction(instruction: Instruction) -> str:
    """One line, without the line of the description."""
    arguments: list[str] = []
    targets: list[str] = []
    for operand in instruction.SHAPE.operands:
        value: object = getattr(instruction, operand.name)
        match operand.role:
            case "write":
                if operand.many:
                    arguments.append(f"#{len(cast(tuple[Reg, ...], value))}")
            case "read":
                arguments.append(_shown(value))
            case "block":
                targets.append(f"{operand.name}: {_block_name(str(value))}")
            case "plain":
                arguments.append(quote(value) if isinstance(value, str) else str(value))
    line = f"{instruction.__class__.__name__}({', '.join(arguments)})"
    written = instruction.written()
    if written:
        line = f"{', '.join(map(_type, written))} = {line}"
    if targets:
        line += " " + ", ".join(targets)
    return line


def _shown(value: object) -> str:
    """The text of an operand: an expression, or a list of expressions in brackets."""
    if isinstance(value, tuple):
        return "[" + ", ".join(map(show, cast(tuple[Expr, ...], value))) + "]"
    return show(cast(Expr, value))


def print_graph(graph: Graph, lines: bool = True) -> str:
    """A graph as text. With `lines`, each instruction is followed by the line of the description that it came from."""
    known = {reg.name for i in graph.instructions() for reg in i.written()}
    known.update(reg.name for reg in graph.parameters)
    outside = sorted((reg for name, reg in graph.registers().items() if name not in known), key=lambda reg: reg.name)
    header = f"graph {_block_name(graph.name)} ({', '.join(map(_type, graph.parameters))})"
    if outside:
        header += f" uses ({', '.join(map(_type, outside))})"
    out = [header]
    order = graph.order()
    for name in order + [name for name in graph.blocks if name not in order]:
        out.append(f"{_block_name(name)}:")
        for instruction in graph.blocks[name].instructions:
            text = "  " + print_instruction(instruction)
            if lines and instruction.where.line:
                text = f"{text:<90}  ; {_one_line(instruction.where.short)}"
            out.append(text)
    return "\n".join(out) + "\n"


def _one_line(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def print_layer(layer: LayerProgram, lines: bool = True) -> str:
    """A layer: its instance layout, its sequence, its state machine, its events and its graphs."""
    titles = f"layer {quote(layer.layer)}, parser {quote(layer.prototype)}, home {layer.home}"
    out = [f"layer {_block_name(layer.name)} ({titles})"]
    if layer.above:
        out.append(f"  above ({_names(layer.above)})")
    if layer.instance is not None:
        out += _instance(layer.instance)
    if layer.rules is not None:
        out.append(_rules(layer.rules))
    if layer.states:
        out.append(f"  states ({', '.join(map(_state, layer.states))})")
    if layer.timeouts or layer.lifetime:
        kind = "lifetime" if layer.lifetime else "timeouts"
        out.append(f"  {kind} ({', '.join(map(repr, layer.timeouts))})")
    if layer.of_streams or layer.of_packets:
        sources = (["streams"] if layer.of_streams else []) + (["packets"] if layer.of_packets else [])
        out.append(f"  messages of {', '.join(sources)}")
    out += [f"  {flag}" for flag in FLAGS if getattr(layer, flag)]
    out += [_event(shape, lines) for shape in layer.events.values()]
    graphs = [
        ("" if kind == MAIN else f"{kind} ") + print_graph(graph, lines) for kind, graph in layer.graphs_by_kind()
    ]
    return "\n".join(out) + "\n" + "\n".join(graphs)


def _instance(layout: InstanceLayout) -> list[str]:
    line = f"  instance of table {_name(layout.table)}, key {_key(layout.key)}"
    line += f"{' both ways' if layout.oriented else ''}{'' if layout.stored else ' not stored'}"
    line += f", {layout.sides} sequences{f', at most {layout.most}' if layout.most else ''}"
    if layout.aliases or layout.alias:
        line += f", aliases {_name(layout.aliases)} {_key(layout.alias)}"
    if layout.more_keys:
        line += f", more keys {_name(layout.more_keys)}"
    return [line, *(f"    {_type(reg)} = {init}" for reg, init in layout.fields)]


def _key(parts: tuple[KeyPart, ...]) -> str:
    return f"({', '.join(map(_key_part, parts))})"


def _key_part(part: KeyPart) -> str:
    return f"{_name(part.name)}:{part.bits}" + (f"/{_name(part.other)}" if part.other else "")


def _rules(rules: Rules) -> str:
    return (
        f"  sequence of {rules.width} bits, {'zero_based' if rules.linear else 'wrapping'}, policy {rules.policy}, "
        f"{'whole, ' if rules.whole else ''}{'units, ' if rules.units else ''}"
        f"{'observed, ' if rules.observed else ''}"
        f"{'accounts, ' if rules.accounts else ''}{'bounded, ' if rules.bounded else ''}"
        f"{'' if rules.buffer_data else 'no data, '}"
        f"limit {rules.limit} bytes {rules.limit_pieces} pieces {rules.limit_records} records, "
        f"history {rules.history}, record ({', '.join(map(_type, rules.record))})"
    )


def _state(state: State) -> str:
    return _name(state.name) + (" accept" if state.accept else "") + (" closed" if state.closed else "")


def _event(shape: EventShape, lines: bool) -> str:
    fields = ", ".join(_type(Reg(name, bits)) for name, bits in shape.fields)
    text = f"  event {_name(shape.name)} ({fields})"
    if shape.callback:
        text += f" of layout {_name(shape.callback)}"
    if shape.reasons:
        text += f" reasons ({_names(shape.reasons)})"
    return f"{text:<90}  ; {_one_line(Path(shape.where).name)}" if lines and shape.where else text


def _name(name: str) -> str:
    return name if NAME.fullmatch(name) else quote(name)


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(_name, names))


def _native(module: NativeModule) -> list[str]:
    line = f"  native {_name(module.name)} of {quote(module.path)}"
    if module.libraries:
        line += f", libraries ({_names(module.libraries)})"
    if module.option:
        line += f", option {_name(module.option)}"
    return [line, *(f"    {_name(name)} {_native_shape(shape)}" for name, shape in module.functions)]


def _native_shape(shape: NativeShape) -> str:
    inputs = ", ".join("bytes" if is_bytes else "number" for is_bytes in shape.inputs)
    limit = f"{shape.outputs} numbers, {shape.limit} bytes"
    return f"({inputs}) gives {limit}, reasons ({_names(shape.reasons)})"


def print_program(program: Program, lines: bool = True) -> str:
    """A whole program."""
    roots = ", ".join(f"{'any' if kind is None else kind} -> {_name(name)}" for kind, name in program.roots)
    head = f"program {_name(program.name)} ({roots}), at most {program.depth} layers"
    head += f" and {program.records} records\n" if program.records else "\n"
    if program.slots:
        head += f"  slots ({', '.join(map(_type, program.slots))})\n"
    if program.prefetch != PREFETCH_MOST:
        head += f"  prefetch {program.prefetch} bytes\n"
    if program.pending_lazily:
        head += "  pending lazily\n"
    head += "".join(f"{line}\n" for module in program.natives for line in _native(module))
    return head + "\n" + "\n".join(print_layer(layer, lines) for layer in program.layers.values())
