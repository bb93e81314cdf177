"""A process to the C of a program: rules, their frames, and the tables that the platform reads."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.service.lang import tree
from sluice.service.lang.check.scope import Signature
from sluice.service.lang.types import ADDRESS, BOOLEAN, INTEGER, NOTHING, ChannelOf
from sluice.service.load import Service
from sluice.service.lower.channels import StatementWriter
from sluice.service.lower.expressions import ARENA
from sluice.service.lower.streams import changed_records, streams
from sluice.service.lower.values import Values, not_yet
from sluice.service.lower.writer import Port

RULES = 64


@dataclass(frozen=True)
class Lowered:
    """The C of a process, and which of its rules forward messages as they come."""

    source: str
    streamed: tuple[bool, ...]


def lower(service: Service, process: Signature) -> Lowered:
    """Compile a process. Raises ServiceError for what has no form on the wire, or is not compiled yet."""
    capacities: dict[str, int] = {}
    _lower(service, process, capacities)
    return _lower(service, process, capacities)  # now that the largest list of each type is known


def _lower(service: Service, process: Signature, capacities: dict[str, int]) -> Lowered:
    declaration = process.declaration
    if declaration.body.handlers:
        raise not_yet(declaration.body.handlers[0].place, "'except'")
    if process.values:
        raise not_yet(process.values[0].place, f"the parameter '{process.values[0].name}' of a process")
    values = Values(service, capacities)
    values.written = changed_records(service.checked)
    ports = {
        each: Port(number, f"service_port(self, {number})", each.kind == "array")
        for number, each in enumerate(process.channels)
    }
    body = declaration.body.expression
    parts = body.items if isinstance(body, tree.Parallel) else [body]
    if len(parts) > RULES:
        raise not_yet(declaration.place, f"a process of more than {RULES} rules")
    states = _States(service, values, process)
    rules = [_rule(service, values, number, part, ports, states) for number, part in enumerate(parts)]
    out = [
        f"/* {declaration.name}, compiled from {declaration.place} */",
        '#include "message.h"',
        "",
        *values.text,
        *values.parsers(),
        *states.text,
    ]
    for rule in rules:
        out += _frame(rule)
    out += ["struct frame {", *([] if not states.fields else ["    struct states states;"])]
    out += [f"    struct frame_{rule.number} rule_{rule.number};" for rule in rules]
    out += ["};", ""]
    for rule in rules:
        out += _function(rule)
    out += _tables(process, rules, states)
    return Lowered("\n".join(out) + "\n", tuple(rule.streamed for rule in rules))


class _States:
    """State of the process's instances."""

    def __init__(self, service: Service, values: Values, process: Signature) -> None:
        self.fields: dict[tree.Binding, str] = {}
        self.text: list[str] = []
        self.starts: list[str] = []
        for state in process.declaration.body.states:
            binding = state.binding
            assert binding is not None
            if state.everywhere:
                raise not_yet(state.place, "global state")
            if binding.type not in (INTEGER, BOOLEAN, ADDRESS):
                raise not_yet(state.place, f"state of type {binding.type}")
            writer = StatementWriter(service, values, 0, {})
            self.fields[binding] = f"s_{state.name}"
            start = writer.value(state.start)
            if writer.lines:
                raise not_yet(state.place, "a first value that is calculated")
            self.starts.append(f"    ((struct frame *)self->frame)->states.s_{state.name} = {start};")
        if self.fields:
            self.text = ["struct states {"]
            self.text += [f"    {values.c_type(each.type, each.place)} {name};" for each, name in self.fields.items()]
            self.text += ["};", ""]


def _rule(
    service: Service,
    values: Values,
    number: int,
    node: tree.Expression,
    ports: dict[tree.Binding, Port],
    states: _States,
) -> StatementWriter:
    rule = StatementWriter(service, values, number, ports)
    rule.names.update({each: f"all->states.{name}" for each, name in states.fields.items()})
    rule.streamed = streams(node, service.checked)
    rule.effect(node)
    return rule


def _frame(rule: StatementWriter) -> list[str]:
    out = [f"struct frame_{rule.number} {{", "    uint32_t resume;", "    bool did;", *rule.frame]
    if rule.arena:
        out += ["    uint32_t used;", f"    uint8_t arena[{ARENA}];"]
    return [*out, "};", ""]


def _function(rule: StatementWriter) -> list[str]:
    """The rule's function: a jump to where it waited, its step, and the end of the step."""
    text = "\n".join(rule.lines)
    out = [
        f"static enum service_outcome rule_{rule.number}(struct service_instance *self)",
        "{",
        "    struct frame *all = self->frame;",
        f"    struct frame_{rule.number} *f = &all->rule_{rule.number};",
        "    enum service_outcome outcome = SERVICE_STEP;",
    ]
    if "over = " in text:
        out.append("    bool over;")
    out.append("")
    if rule.labels:
        out.append("    switch (f->resume) {")
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
    out.append("    f->resume = 0;")
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


def _tables(process: Signature, rules: list[StatementWriter], states: _States) -> list[str]:
    out: list[str] = []
    if states.starts:
        out += ["static void begin(struct service_instance *self)", "{", *states.starts, "}", ""]
    out.append("static const struct service_port ports[] = {")
    for each in process.channels:
        type = each.type
        assert isinstance(type, ChannelOf)
        flags = [each.kind == "array", type.receives != NOTHING, type.sends != NOTHING]
        out.append(f'    {{"{each.name}", {", ".join(str(flag).lower() for flag in flags)}}},')
    out += ["};", "", "static const struct service_rule rules[] = {"]
    for rule in rules:
        reads, writes = (sum(1 << port for port in side) for side in (rule.reads, rule.writes))
        out.append(f"    {{rule_{rule.number}, {reads:#x}, {writes:#x}}},")
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
        f"    .begin = {'begin' if states.starts else 'NULL'},",
        "};",
    ]
    return out
