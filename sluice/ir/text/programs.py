"""Parses whole programs of the text form."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

from sluice.ir.graph import EventShape, Graph, InstanceLayout, KeyPart, LayerProgram, Program, Rules, State
from sluice.ir.graph_kinds import KINDS, MAIN
from sluice.ir.text.graphs import read_graph
from sluice.ir.text.line import BLOCK, FLAGS, STRING, IrSyntaxError, Line, in_line
from sluice.ir.text.natives import read_function, read_module
from sluice.lang.errors import did_you_mean
from sluice.lang.sequence import POLICIES
from sluice.lang.where import NOWHERE

Lines = list[tuple[int, str]]
"""Lines of the text with their numbers."""

_GRAPH = re.compile(rf"(?:({'|'.join(KINDS)}) )?graph (?:{STRING}|{BLOCK}) \(")
_LAYER = re.compile(rf"layer (?:{STRING}|{BLOCK}) \(")


def parse_program(text: str) -> Program:
    """Parses the output of `print_program`. Raises IrSyntaxError with the number of the line.

    The parser checks only the syntax; the verifier checks the program.
    """
    numbered = [item for item in enumerate(text.split("\n"), start=1) if item[1].strip()]
    if not numbered:
        raise IrSyntaxError("line 1: an empty text: a program begins with 'program NAME (LINK TYPE -> LAYER)'")
    head, *layers = _parts(numbered, _LAYER)
    program = _program(head)
    for part in layers:
        layer = _layer(part)
        with in_line(part[0][0]):
            if layer.name in program.layers:
                raise IrSyntaxError(f"there is a layer '{layer.name}' already: give each one a name of its own")
        program.layers[layer.name] = layer
    _check_names(program, head, layers)
    return program


def _parts(lines: Lines, begins: re.Pattern[str]) -> list[Lines]:
    """The lines before the first part, then those of each part. A line that matches `begins` starts a part."""
    found: list[Lines] = [[]]
    for item in lines:
        if begins.match(item[1]):
            found.append([])
        found[-1].append(item)
    return found


def _program(lines: Lines) -> Program:
    """The program, without its layers."""
    if not lines:
        raise IrSyntaxError("line 1: a layer outside a program: begin with 'program NAME (LINK TYPE -> LAYER)'")
    number, text = lines[0]
    with in_line(number):
        line = Line(text)
        if not line.take("program"):
            raise IrSyntaxError(f"a program begins with 'program NAME (LINK TYPE -> LAYER)', not with '{text}'")
        name = line.name("the name of the program")
        line.expect("(")
        roots: list[tuple[int | None, str]] = []
        while not line.take(")"):
            kind = None if line.take("any") else line.number()
            line.words("-", ">")
            roots.append((kind, line.name("the name of a layer")))
            if not line.take(","):
                line.expect(")")
                break
        line.words(",", "at", "most")
        program = Program(name, {}, tuple(roots), (), line.number())
        line.expect("layers")
        if line.take("and"):
            program.records = line.number()
            line.expect("records")
        line.end()
    for number, text in lines[1:]:
        with in_line(number):
            line = Line(text)
            if text.startswith("    "):
                program.natives = read_function(program.natives, line)
            elif text.startswith(" ") and line.take("native"):
                program.natives = read_module(program.natives, line)
            elif text.startswith(" ") and line.take("slots") and not program.slots:
                line.expect("(")
                program.slots = tuple(line.registers(")"))
            elif text.startswith(" ") and line.take("prefetch"):
                program.prefetch = line.number()
                line.expect("bytes")
            elif text.startswith(" ") and line.take("pending"):
                line.expect("lazily")
                program.pending_lazily = True
            else:
                raise IrSyntaxError(
                    "expected one line 'slots (REGISTERS)', 'prefetch NUMBER bytes' or 'pending lazily', lines 'native "
                    "NAME of PATH', then layers, "
                    f"not '{text.strip()}'"
                )
            line.end()
    return program


def _check_names(program: Program, head: Lines, layers: list[Lines]) -> None:
    """Every layer that packets are sent to must exist."""
    known = program.layers

    def check(number: int, names: tuple[str, ...]) -> None:
        for name in names:
            if name not in known:
                raise IrSyntaxError(f"line {number}: there is no layer '{name}': {did_you_mean(name, known)}")

    check(head[0][0], tuple(name for _, name in program.roots))
    for part, layer in zip(layers, known.values(), strict=True):
        check(part[0][0], layer.above)


# --- layers -----------------------------------------------------------------------------------------------------


def _layer(lines: Lines) -> LayerProgram:
    head, *graphs = _parts(lines, _GRAPH)
    number, text = head[0]
    if not graphs:
        raise IrSyntaxError(f"line {number}: a layer without graphs: it needs 'graph NAME (PARAMETERS)' at least")
    found: dict[str, Graph] = {}
    with in_line(number):
        line = Line(text)
        line.expect("layer")
        name = line.block()
        line.words("(", "layer")
        title = line.name("the name of the layer in the stack")
        line.words(",", "parser")
        prototype = line.name("the name of the parser")
        line.words(",", "home")
        home = line.number()
        line.expect(")")
        line.end()
    for part in graphs:
        number, text = part[0]
        with in_line(number):
            match = _GRAPH.match(text)
            assert match is not None
            kind = match[1] or MAIN
            if kind in found:
                raise IrSyntaxError(f"layer '{name}' has a {kind} graph already: it has one of each kind")
        found[kind] = read_graph([(number, text[len(match[1]) + 1 :] if match[1] else text), *part[1:]])
    if MAIN not in found:
        raise IrSyntaxError(f"line {head[0][0]}: layer '{name}' has no main graph: one begins with 'graph NAME ('")
    layer = LayerProgram(name, title, prototype, found.pop(MAIN), found, home=home)
    for number, text in head[1:]:
        with in_line(number):
            _property(layer, text)
    return layer


def _property(layer: LayerProgram, text: str) -> None:
    """A line with a property of a layer, before its graphs."""
    line = Line(text)
    if text.startswith("    "):
        _field(layer, line)
        line.end()
        return
    word = line.next().text if text.startswith("  ") else text.strip()
    if word not in _PROPERTIES:
        known = did_you_mean(word, _PROPERTIES)
        raise IrSyntaxError(f"expected what the layer has, or its graph, not '{word}': {known}")
    _PROPERTIES[word](layer, line)
    where = line.end()
    if word == "event" and where is not NOWHERE:
        list(layer.events.values())[-1].where = str(where)


def _above(layer: LayerProgram, line: Line) -> None:
    line.expect("(")
    layer.above = line.names("the name of a layer", ")")


def _instance(layer: LayerProgram, line: Line) -> None:
    line.words("of", "table")
    table = line.name("the name of the table")
    line.words(",", "key")
    key = _key(line)
    oriented = line.take("both")
    if oriented:
        line.expect("ways")
    stored = not line.take("not")
    if not stored:
        line.expect("stored")
    line.expect(",")
    sides = line.number()
    line.expect("sequences")
    aliases, alias, more_keys, most = "", (), "", 0
    comma = line.take(",")
    if comma and line.take("at"):
        line.expect("most")
        most = line.number()
        comma = line.take(",")
    if comma and not line.take("more"):
        line.expect("aliases")
        aliases = line.name("the name of the table of further keys")
        alias = _key(line)
        comma = line.take(",")
        if comma:
            line.expect("more")
    if comma:
        line.expect("keys")
        more_keys = line.name("the name of the table of more keys")
    layer.instance = InstanceLayout(table, key, oriented, stored, (), sides, aliases, alias, more_keys, most)


def _key(line: Line) -> tuple[KeyPart, ...]:
    line.expect("(")
    key: list[KeyPart] = []
    while not line.take(")"):
        name = line.name("a part of the key")
        line.expect(":")
        bits = line.number()
        key.append(KeyPart(name, bits, line.name("the part of the other side") if line.take("/") else ""))
        if not line.take(","):
            line.expect(")")
            break
    return tuple(key)


def _field(layer: LayerProgram, line: Line) -> None:
    """A field of the layer's instance layout."""
    known = layer.instance
    if known is None:
        raise IrSyntaxError("a field without an instance: a line 'instance of table NAME, ...' comes first")
    register = line.register()
    line.expect("=")
    layer.instance = dataclasses.replace(known, fields=(*known.fields, (register, line.number())))


def _rules(layer: LayerProgram, line: Line) -> None:
    line.expect("of")
    width = line.number()
    line.words("bits", ",")
    kind = line.next().text
    if kind not in ("zero_based", "wrapping"):
        raise IrSyntaxError(f"a sequence is 'zero_based' or 'wrapping', not '{kind}'")
    line.words(",", "policy")
    policy = line.name("a policy")
    if policy not in POLICIES:
        raise IrSyntaxError(f"there is no policy '{policy}': {did_you_mean(policy, POLICIES)}")
    line.expect(",")
    whole = line.take("whole")
    if whole:
        line.expect(",")
    units = line.take("units")
    if units:
        line.expect(",")
    observed = line.take("observed")
    if observed:
        line.expect(",")
    accounts = line.take("accounts")
    if accounts:
        line.expect(",")
    bounded = line.take("bounded")
    if bounded:
        line.expect(",")
    buffer_data = not line.take("no")
    if not buffer_data:
        line.words("data", ",")
    line.expect("limit")
    limit = line.number()
    line.expect("bytes")
    pieces = line.number()
    line.expect("pieces")
    records = line.number()
    line.words("records", ",", "history")
    history = line.number()
    line.words(",", "record", "(")
    record = tuple(line.registers(")"))
    linear = kind == "zero_based"
    layer.rules = Rules(
        width,
        linear,
        policy,
        whole,
        buffer_data,
        limit,
        pieces,
        records,
        history,
        record,
        units,
        observed,
        accounts,
        bounded,
    )


def _states(layer: LayerProgram, line: Line) -> None:
    found: list[State] = []
    line.expect("(")
    while not line.take(")"):
        found.append(State(line.name("the name of a state"), line.take("accept"), line.take("closed")))
        if not line.take(","):
            line.expect(")")
            break
    layer.states = tuple(found)


def _timeouts(layer: LayerProgram, line: Line) -> None:
    line.expect("(")
    found: list[float] = []
    while not line.take(")"):
        found.append(line.seconds())
        if not line.take(","):
            line.expect(")")
            break
    layer.timeouts = tuple(found)


def _lifetime(layer: LayerProgram, line: Line) -> None:
    _timeouts(layer, line)
    layer.lifetime = True


def _messages(layer: LayerProgram, line: Line) -> None:
    line.expect("of")
    while True:
        name = line.name("what messages are cut of: 'streams', 'packets'")
        field = _SOURCES.get(name)
        if field is None:
            raise IrSyntaxError(f"messages are cut of 'streams', 'packets' or 'streams, packets', not of '{name}'")
        if getattr(layer, field):
            raise IrSyntaxError("what messages are cut of stands in one line, as 'messages of streams, packets'")
        setattr(layer, field, True)
        if not line.take(","):
            break


def _flag(name: str) -> Callable[[LayerProgram, Line], None]:
    return lambda layer, line: setattr(layer, name, True)


def _event(layer: LayerProgram, line: Line) -> None:
    name = line.name("the name of an event")
    if name in layer.events:
        raise IrSyntaxError(f"there is an event '{name}' already: the layer has one of each name")
    line.expect("(")
    fields = tuple((reg.name, reg.bits) for reg in line.registers(")"))
    callback = ""
    if line.take("of"):
        line.expect("layout")
        callback = line.name("the name of a layout")
    reasons: tuple[str, ...] = ()
    if line.take("reasons"):
        line.expect("(")
        reasons = line.names("a reason", ")")
    layer.events[name] = EventShape(name, fields, callback, reasons)


_SOURCES = {"streams": "of_streams", "packets": "of_packets"}
"""The sources of messages, with the field of LayerProgram for each."""

_PROPERTIES: dict[str, Callable[[LayerProgram, Line], None]] = {
    "above": _above,
    "instance": _instance,
    "sequence": _rules,
    "states": _states,
    "timeouts": _timeouts,
    "lifetime": _lifetime,
    "messages": _messages,
    **{name: _flag(name) for name in FLAGS},
    "event": _event,
}
"""The properties of a layer, by the first word of their line."""
