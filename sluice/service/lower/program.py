"""A process to the C of a program: rules, their frames, and the tables that the platform reads."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.service.lang import tree
from sluice.service.lang.check.scope import Signature
from sluice.service.lang.errors import ServiceError
from sluice.service.lang.types import NOTHING, UNIT, ChannelOf, DictionaryOf
from sluice.service.load import Service
from sluice.service.lower.forwarding import forwarded
from sluice.service.lower.handlers import CLASSES, HandlerWriter
from sluice.service.lower.streams import changed_records, streams
from sluice.service.lower.values import Values
from sluice.service.lower.writer import ARENA, Port, States

RULES = 64


@dataclass(frozen=True)
class Lowered:
    """The C of a process, and which of its rules forward messages before they are complete."""

    source: str
    streamed: tuple[bool, ...]
    ports: tuple[tuple[frozenset[int], frozenset[int]], ...] = ()
    """Of each rule: the numbers of the channels that it receives from, and of those that it sends to."""


def lower(service: Service, process: Signature) -> Lowered:
    """Compile a process. Raises ServiceError for types without wire form, for a value that is too large, and for
    functions within expressions within functions that are too deep.
    """
    capacities: dict[str, int] = {}
    try:
        _lower(service, process, capacities)
        return _lower(service, process, capacities)  # now that the largest list of each type is known
    except RecursionError:
        raise ServiceError(
            process.declaration.place,
            f"expressions in functions that '{process.name}' calls are too deep",
            "call fewer functions inside functions, and use variables for parts of expressions.",
        ) from None


def _lower(service: Service, process: Signature, capacities: dict[str, int]) -> Lowered:
    declaration = process.declaration
    values = Values(service, capacities)
    values.written = changed_records(service.checked)
    states = States(values)
    for state in declaration.body.states:
        states.declare(state)
    ports = {
        each: Port(number, f"service_port(self, {number})", each.kind == "array")
        for number, each in enumerate(process.channels)
    }
    body = declaration.body.expression
    parts = body.items if isinstance(body, tree.Parallel) else [body]
    if len(parts) > RULES:
        raise ServiceError(
            declaration.place,
            f"the process has {len(parts)} rules",
            f"join some of them: at most {RULES} are possible.",
        )
    rules = [_rule(service, values, number, part, ports, states, declaration) for number, part in enumerate(parts)]
    starts = _starts(service, values, states, ports)
    out = [
        f"/* {declaration.name}, compiled from {declaration.place} */",
        '#include "send.h"',
        *(['#include "ring.h"'] if any(states.rings) else []),
        "",
        *values.text,
        *values.parsers(),
    ]
    if states.shared:
        out += ["struct shared {", *states.shared, "};", ""]
    for rule in rules:
        out += _frame(rule)
    if states.own:
        out += ["struct own {", *states.own, "};", ""]
    out += ["struct frame {", f"    uint32_t resume[{len(rules)}]; /* the platform reads it, frame.h */"]
    out += [f"    struct frame_{rule.number} rule_{rule.number};" for rule in rules]
    out += ["};", ""]
    for rule in rules:
        out += _function(rule)
    out += starts
    out += _tables(process, rules, states, service)
    return Lowered(
        "\n".join(out) + "\n",
        tuple(rule.streamed for rule in rules),
        tuple((frozenset(r.reads), frozenset(r.writes)) for r in rules),
    )


def _rule(
    service: Service,
    values: Values,
    number: int,
    node: tree.Expression,
    ports: dict[tree.Binding, Port],
    states: States,
    declaration: tree.Function | tree.Process,
) -> HandlerWriter:
    rule = HandlerWriter(service, values, number, ports, states)
    rule.kept.update(states.kept)
    sums = any("checksum" in unit.expressions for unit in service.units.values())
    if not sums:
        rule.forwarded = forwarded(service.checked)
        rule.streamed = not rule.forwarded.tested and streams(node, service.checked)
    handlers = declaration.body.handlers
    if handlers:
        rule.caught(tree.Body([], node, handlers), UNIT)
    else:
        rule.effect(node)
    return rule


def _starts(service: Service, values: Values, states: States, ports: dict[tree.Binding, Port]) -> list[str]:
    """The functions that give state its first values: that of an instance, and that of all instances."""
    out: list[str] = []
    for everywhere, name in ((False, "begin"), (True, "begin_shared")):
        writer = HandlerWriter(service, values, 0, {} if everywhere else ports, states)
        writer.slices = False
        writer.kept.update(states.kept)
        for state, shared in list(states.starts):
            if shared != everywhere or state.binding is None:
                continue
            kept = states.kept[state.binding]
            if isinstance(kept.type, DictionaryOf):
                size = f"sizeof({states.entry(kept.type, state.place)})"
                writer.put(f"service_dictionary_begin({kept.value}, {values.entries}, {size});")
            else:
                writer.set_state(kept, state.start, state.place)
        if writer.lines:
            extra = ["    uint32_t used;", f"    uint8_t arena[{ARENA}];"] if writer.arena else []
            body = [*writer.frame, *extra]
            frame = (
                [f"    struct {{ {' '.join(line.strip() for line in body)} }} start = {{0}}, *f = &start;"]
                if body
                else []
            )
            out += [
                f"static enum service_outcome {name}(struct service_instance *self)",
                "{",
                *frame,
                "",
                *writer.lines,
                "    return SERVICE_STEP;",
                "}",
                "",
            ]
    return out


def _frame(rule: HandlerWriter) -> list[str]:
    out = [f"struct frame_{rule.number} {{", "    bool did;", *rule.frame]
    if rule.arena:
        out += ["    uint32_t used;", f"    uint8_t arena[{ARENA}];"]
    return [*out, "};", ""]


def _function(rule: HandlerWriter) -> list[str]:
    """The rule's function: a jump to where it waited, its step, and the end of the step."""
    text = "\n".join(rule.lines)
    out = [
        f"static enum service_outcome rule_{rule.number}(struct service_instance *self)",
        "{",
        "    struct frame *all = self->frame;",
        f"    struct frame_{rule.number} *f = &all->rule_{rule.number};",
        f"    uint32_t *resume = &all->resume[{rule.number}];",
        "    enum service_outcome outcome = SERVICE_STEP;",
    ]
    if "over = " in text:
        out.append("    bool over;")
    out.append("")
    if rule.labels:
        out.append("    switch (*resume) {")
        for label in range(1, rule.labels + 1):
            out += [f"    case {label}:", f"        goto resume_{label};"]
        out += ["    default:", "        break;", "    }"]
    out.append("    f->did = false;")
    if rule.arena:
        out.append("    f->used = 0;")
    out += [f"    {site} = NULL;" for site in rule.sites]
    out += rule.lines
    for site in rule.sites:
        out += [f"    if ({site})", f"        service_release({site});"]
    out.append("    *resume = 0;")
    if not any("f->did = true" in line for line in rule.lines):
        out.append("    (void)outcome;")
    out += ["    if (f->did)", "        return SERVICE_STEP;"]
    for port in sorted(rule.reads):  # nothing was received or sent: wait for a change, unless none can come
        out += [
            f"    for (uint32_t i = 0; i < self->core->counts[{port}]; i++)",
            f"        if (!service_over(&service_port(self, {port})[i]))",
            "            return SERVICE_WAIT;",
        ]
    return [*out, "    return SERVICE_END;", "}", ""]


def _tables(process: Signature, rules: list[HandlerWriter], states: States, service: Service) -> list[str]:
    out = ["static const struct service_port ports[] = {"]
    for each in process.channels:
        type = each.type
        assert isinstance(type, ChannelOf)
        flags = [each.kind == "array", type.receives != NOTHING, type.sends != NOTHING]
        units = [service.units[str(side)] for side in (type.receives, type.sends) if str(side) in service.units]
        sent = service.units.get(str(type.sends))
        finish = sent.finish if sent is not None else None
        marks = "NULL" if finish is None else '"' + "".join(f"\\{byte:03o}" for byte in finish) + '"'
        sums = any("checksum" in unit.expressions for unit in units)
        got = service.units.get(str(type.receives))
        notes = str(got is not None and got.tail is not None and got.tail.framing == "http_response").lower()
        exact = str(flags[1] and sent is not None and "answered" in sent.expressions).lower()
        answered = sent.expressions.get("answered") if sent is not None and flags[1] else None
        web = str(got is not None and got.tail is not None and got.tail.framing == "http_request").lower()
        strict = str(answered is not None and answered.kind == "number" and answered.number != 0).lower()
        text = ", ".join(str(flag).lower() for flag in flags)
        out.append(
            f'    {{"{each.name}", {text}, {marks}, {len(finish or b"")}, {str(sums).lower()}, {notes}, {exact}, '
            f"{strict}, {web}}},"
        )
    out += ["};", "", "static const struct service_rule rules[] = {"]
    for rule in rules:
        reads, writes = (sum(1 << port for port in side) for side in (rule.reads, rule.writes))
        out.append(f"    {{rule_{rule.number}, {reads:#x}, {writes:#x}, {str(rule.shares).lower()}}},")
    own, shared = (any(everywhere == each for _, everywhere in states.starts) for each in (False, True))
    bodies = [each.declaration.body for each in (process, *service.checked.functions.values())]
    named = {handler.exception for body in bodies for handler in body.handlers}
    handles = sum(1 << number for number, name in enumerate(CLASSES) if name in named)
    out += [
        "};",
        "",
        "const struct service_program service_program = {",
        f'    .name = "{process.name}",',
        "    .ports = ports,",
        "    .rules = rules,",
        f"    .port_count = {len(process.channels)},",
        f"    .rule_count = {len(rules)},",
        "    .frame_size = sizeof(struct frame),",
        f"    .own_size = {'sizeof(struct own)' if states.own else '0'},",
        f"    .handles = {handles:#x},",
        f"    .rings = {{{', '.join(map(hex, states.rings))}}},",
        f"    .tallied = {str(states.tallied).lower()},",
        f"    .shared_size = {'sizeof(struct shared)' if states.shared else '0'},",
        f"    .begin = {'begin' if own else 'NULL'},",
        f"    .begin_shared = {'begin_shared' if shared else 'NULL'},",
        "};",
    ]
    return out
