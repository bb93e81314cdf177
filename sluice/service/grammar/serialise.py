"""The C that serialises a unit. It is made only for units that the program constructs or changes."""

from __future__ import annotations

from sluice.service.grammar.lower import Parser, constant, declarations, element_name, expression
from sluice.service.grammar.plan import Item, Plan, fields_of


def serialiser(name: str, plan: Plan, fields: list[str]) -> list[str]:
    """The C functions that make the bytes of a message which the program has made or changed."""
    everything = {item.name for item in plan.items if item.name}
    held = [(f"a_{item.index}", item) for item in plan.items if not item.name and item.kind != "constant"]
    held += [(f"{'t' if item.is_text else 'v'}_{item.name}", item) for item in plan.items if item.name]
    texts = {place for place, item in held if not item.name or item.is_text}
    out = [f"struct w_{name} {{", "    uint64_t size;"]
    out += [
        f"    {'struct service_text' if place in texts else 'int64_t'} {place};"
        for place, item in held
        if _stored(item)
    ]
    out += ["};", ""]
    lines = Parser(name, plan, everything, True).run()
    out += [
        f"static enum service_parsed w_{name}_parse(const uint8_t *data, uint64_t length, struct w_{name} *out,",
        "                                        uint64_t *need, int64_t note, bool ended)",
        "{",
        *declarations(plan, everything, True, [*lines, "at"]),
        "",
        "    (void)note;",
        "    (void)ended;",
        *lines,
        *[f"    out->{place} = {place};" for place, item in held if _stored(item)],
        "    out->size = at;",
        "    return SERVICE_READY;",
        "}",
        "",
    ]
    for _, of in plan.measured(fields):
        if of.kind == "list":
            out += _count(name, of)
    out += _prepare(name, plan, fields, [place for place, item in held if _stored(item)], texts)
    return [*out, *_emit(name, plan)]


def writer(name: str, plan: Plan) -> list[str]:
    """The C function that sends such a message."""
    return [
        f"static enum service_outcome m_{name}_write(struct service_channel *c, const struct m_{name} *m)",
        "{",
        f"    struct w_{name} w, again;",
        f"    struct m_{name} sent = {{0}};",
        "    struct service_found found;",
        "    enum service_outcome outcome;",
        "    uint64_t need;",
        "    uint8_t *at;",
        "",
        f"    if (!w_{name}_prepare(&w, m))",
        "        return service_fail(c->instance, SERVICE_UNFIT);",
        "    outcome = service_room(c, w.size, &at);",
        "    if (outcome != SERVICE_STEP)",
        "        return outcome;",
        f"    w_{name}_emit(&w, at);",
        f"    if (w_{name}_parse(at, w.size, &again, &need, m->m.note, false) != SERVICE_READY || "
        "again.size != w.size)",
        "        return service_fail(c->instance, SERVICE_UNFIT);",
        "    if (m->m.origin)",
        "        m->m.origin->unsent = false;",
        "    sent.m.answered = 1;",
        "    sent.m.note = m->m.note;",
        *([f"    m_{name}_parse(at, w.size, &sent, &found);"] if plan.expressions else ["    (void)found;"]),
        "    service_wrote(c, w.size, &sent.m);",
        "    return SERVICE_STEP;",
        "}",
        "",
    ]


def _stored(item: Item) -> bool:
    return item.kind != "constant"


def _counter(name: str, item: Item) -> str:
    """The C function that counts the items of a list."""
    return f"n_{name}_{item.index}"


def _count(name: str, item: Item) -> list[str]:
    return [
        f"static int64_t {_counter(name, item)}(struct service_text items, bool *bad)",
        "{",
        "    uint64_t at = 0, one = 0, need;",
        "    int64_t count = 0;",
        "",
        "    for (; at < items.length; at += one, count++)",
        f"        if ({element_name(name, item)}(items.at + at, items.length - at, &one, &need, true) !=",
        "            SERVICE_READY ||",
        "            one > items.length - at) {",
        "            *bad = true;",
        "            break;",
        "        }",
        "    return count;",
        "}",
        "",
    ]


def _prepare(name: str, plan: Plan, fields: list[str], places: list[str], texts: set[str]) -> list[str]:
    """The values of all fields: those of the received message, then the program's, then lengths and variables."""
    out = [
        "/* False if a value does not fit its field. */",
        f"static bool w_{name}_prepare(struct w_{name} *w, const struct m_{name} *m)",
        "{",
    ]
    out += [f"    {'struct service_text' if place in texts else 'int64_t'} {place};" for place in places]
    out += [
        "    uint64_t need;",
        "    bool bad = false;",
        "",
        "    memset(w, 0, sizeof *w);",
        f"    if (m->m.raw && w_{name}_parse(m->m.raw, m->m.total, w, &need, m->m.note, true) != SERVICE_READY)",
        "        return false;",
        *[f"    {place} = w->{place};" for place in places],
    ]
    for field in fields:
        out.append(f"    {'t' if plan.by_name[field].is_text else 'v'}_{field} = m->f_{field};")
    for length, of in plan.measured(fields):
        if of.condition is not None:
            out.append(f"    if ({expression(of.condition, plan)})")
        size = f"t_{of.name}.length" if of.kind == "bytes" else f"{_counter(name, of)}(t_{of.name}, &bad)"
        out.append(f"    {'' if of.condition is None else '    '}v_{length} = {size};")
    for item in reversed(plan.items):
        if item.target and item.serialize is not None:
            out.append(f"    v_{item.target} = {expression(item.serialize, plan, f'v_{item.name}')};")
    out.append("    w->size = 0;")
    if any("note" in line for line in out):
        out.insert(-1, "")
    for item in plan.items:
        line = f"w->size += {_size_of(item)};"
        if item.kind in ("variable", "text"):
            continue
        checks = []
        if item.kind == "integer" and item.name and item.size < 8:
            checks = [f"v_{item.name} < {constant(item.smallest)}", f"v_{item.name} > {constant(item.largest)}"]
        if item.condition is not None:
            out.append(f"    if ({expression(item.condition, plan)}) {{")
        if checks:
            out += [f"    if ({' || '.join(checks)})", "        return false;"]
        out.append(f"    {line}")
        if item.condition is not None:
            out.append("    }")
    out += [f"    w->{place} = {place};" for place in places]
    return [*out, "    return !bad;", "}", ""]


def _size_of(item: Item) -> str:
    if item.kind == "vint" and item.name:
        return f"service_vint_size(v_{item.name})"
    if not item.is_text and item.kind != "vint":
        return str(item.size)
    text = f"{f't_{item.name}' if item.name else f'a_{item.index}'}.length"
    return f"{text} + {_end_of(item)}" if _end_of(item) else text


def _end_of(item: Item) -> int:
    """Bytes after the value of an item. Those of an anonymous one include them."""
    return len(item.constant) if item.kind == "until" else 2 if item.kind == "headers" else 0


def _emit(name: str, plan: Plan) -> list[str]:
    out: list[str] = []
    for item in plan.items:
        if item.kind in ("variable", "text"):
            continue
        if item.condition is not None:
            out.append(f"    if ({expression(item.condition, plan)}) {{")
        if item.kind == "constant":
            text = "".join(f"\\{byte:03o}" for byte in item.constant)
            out += [f'    memcpy(at, "{text}", {item.size});', f"    at += {item.size};"]
        elif item.kind == "integer" and item.name:
            order = "true" if item.order == "big" else "false"
            out.append(f"    service_store(at, (uint64_t)w->v_{item.name}, {item.size}, {order});")
            out.append(f"    at += {item.size};")
        elif item.kind == "vint" and item.name:
            out.append(f"    service_vint_store(at, w->v_{item.name});")
            out.append(f"    at += service_vint_size(w->v_{item.name});")
        else:
            source = f"w->t_{item.name}" if item.name else f"w->a_{item.index}"
            out += [f"    if ({source}.length)", f"        memcpy(at, {source}.at, {source}.length);"]
            if item.kind == "integer":
                out += ["    else", f"        memset(at, 0, {item.size});", f"    at += {item.size};"]
            else:
                out.append(f"    at += {source}.length;")
            end = item.constant if item.kind == "until" else b"\r\n" if item.kind == "headers" else b""
            if end:
                text = "".join(f"\\{byte:03o}" for byte in end)
                out += [f'    memcpy(at, "{text}", {len(end)});', f"    at += {len(end)};"]
        if item.condition is not None:
            out.append("    }")
    used = {field for item in plan.items if item.condition is not None for field in fields_of(item.condition)}
    known = [
        f"    const int64_t v_{field} = w->v_{field};" for field in sorted(used) if not plan.by_name[field].is_text
    ]
    known += [
        f"    const struct service_text t_{field} = w->t_{field};"
        for field in sorted(used)
        if plan.by_name[field].is_text
    ]
    if any(item.condition is not None for item in plan.items):
        known.append("    bool bad = false;")
        out.append("    (void)bad;")
    head = [f"static void w_{name}_emit(const struct w_{name} *w, uint8_t *at)", "{", *known]
    return [*head, *out, "    (void)at;", "    (void)w;", "}", ""]
