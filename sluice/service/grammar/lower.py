"""The C of a unit, for the fields that a program names.

The parser checks lengths before it reads, loads only what is needed, and jumps over the rest; it can be called again with
more bytes at any time. It allocates nothing. A serialiser is made only for units that the program constructs or changes.
"""

from __future__ import annotations

from collections.abc import Iterable

from sluice.service.grammar.plan import Item, Plan
from sluice.service.grammar.tree import Value

_CALLS = {"+": "service_add", "-": "service_subtract", "*": "service_multiply"}
_SAME = ("|", "^", "&", "==", "!=", "<", ">", "<=", ">=", "&&", "||")


def expression(value: Value, own: str = "0") -> str:
    """The C of an expression over the variables `v_FIELD`; a division by 0 sets `bad`."""
    match value.kind:
        case "number":
            number = value.number % (1 << 64)
            return f"(int64_t)UINT64_C({number})" if number >= 1 << 31 else str(number)
        case "field":
            return f"v_{value.name}"
        case "self":
            return own
        case "not":
            return f"(int64_t)!{expression(value.items[0], own)}"
        case "negative":
            return f"service_subtract(0, {expression(value.items[0], own)})"
        case "choice":
            first, then, otherwise = (expression(item, own) for item in value.items)
            return f"({first} ? {then} : {otherwise})"
        case _:
            left, right = (expression(item, own) for item in value.items)
            if value.kind in _CALLS:
                return f"{_CALLS[value.kind]}({left}, {right})"
            if value.kind in ("/", "mod"):
                return f"service_try_{'divide' if value.kind == '/' else 'remainder'}({left}, {right}, &bad)"
            if value.kind == "<<":
                return f"(int64_t)((uint64_t){left} << ({right} & 63))"
            if value.kind == ">>":
                return f"({left} >> ({right} & 63))"
            assert value.kind in _SAME
            return f"(int64_t)({left} {value.kind} {right})"


def structure(name: str, plan: Plan, fields: Iterable[str]) -> list[str]:
    """The struct of a message: what the platform knows of it, and the fields that the program names."""
    out = [f"struct m_{name} {{", "    struct service_message m;"]
    for field in fields:
        kind = "struct service_text" if plan.by_name[field].kind == "bytes" else "int64_t"
        out.append(f"    {kind} f_{field};")
    return [*out, "};", ""]


class _Parser:
    """Writes the body of a parser."""

    def __init__(self, plan: Plan, needed: set[str], spans: bool) -> None:
        self.plan = plan
        self.needed = needed
        self.spans = spans
        """Whether the bytes of anonymous fields are needed, too."""
        self.out: list[str] = []
        self.at: str | int = 0
        """The current offset, as far as it is constant."""

    def put(self, line: str) -> None:
        self.out.append(f"    {line}")

    def wants(self, item: Item) -> bool:
        return item.kind == "constant" or item.name in self.needed or (self.spans and not item.name)

    def offset(self, more: int) -> str:
        return str(self.at + more) if isinstance(self.at, int) else f"at + {more}" if more else "at"

    def require(self, size: str) -> None:
        self.put(f"if (length < {size}) {{")
        self.put(f"    *need = {size};")
        self.put("    return SERVICE_MORE;")
        self.put("}")

    def advance(self, size: int) -> None:
        if isinstance(self.at, int):
            self.at += size
        else:
            self.put(f"at += {size};")

    def dynamic(self) -> None:
        """From here on the offset is a variable."""
        if isinstance(self.at, int):
            self.put(f"at = {self.at};")
            self.at = "at"

    def run(self) -> list[str]:
        items, index = self.plan.items, 0
        while index < len(items):
            group = [items[index]]
            if _fixed(items[index]):
                while index + len(group) < len(items) and _fixed(items[index + len(group)]):
                    group.append(items[index + len(group)])
                self.fixed(group)
            else:
                self.single(items[index])
            index += len(group)
        self.dynamic()
        self.put(f"if (at > {self.plan.limit})")
        self.put("    return SERVICE_MALFORMED;")
        return self.out

    def fixed(self, group: list[Item]) -> None:
        """Fields of fixed size in a row: one check for all."""
        total = sum(item.size for item in group)
        if any(self.wants(item) for item in group):
            self.require(self.offset(total))
            place = 0
            for item in group:
                if self.wants(item):
                    self.load(item, self.offset(place))
                place += item.size
        self.advance(total)

    def load(self, item: Item, place: str) -> None:
        if item.kind == "constant":
            text = "".join(f"\\{byte:03o}" for byte in item.constant)
            self.put(f'if (memcmp(data + {place}, "{text}", {item.size}) != 0)')
            self.put("    return SERVICE_MALFORMED;")
        elif not item.name:
            self.put(f"a_{item.index} = (struct service_text){{data + {place}, {item.size}}};")
        else:
            loaded = f"service_load(data + {place}, {item.size}, {'true' if item.order == 'big' else 'false'})"
            cast = f"(int{8 * item.size}_t)" if item.signed else ""
            self.put(f"v_{item.name} = (int64_t){cast}{loaded};")

    def single(self, item: Item) -> None:
        if item.kind == "variable":
            assert item.parse is not None
            self.put(f"v_{item.name} = {expression(item.parse)};")
            checks = ["bad"]
            if item.size < 8:
                checks += [f"v_{item.name} < {_constant(item.smallest)}", f"v_{item.name} > {_constant(item.largest)}"]
            self.put(f"if ({' || '.join(checks)})")
            self.put("    return SERVICE_MALFORMED;")
            return
        self.dynamic()
        if item.condition is not None:
            self.put(f"if ({expression(item.condition)}) {{")
        if item.kind == "bytes":
            self.bytes(item)
        else:
            if self.wants(item):
                self.require(f"at + {item.size}")
                self.load(item, "at")
            self.put(f"at += {item.size};")
        if item.condition is not None:
            self.put("}")
            self.put("if (bad)")
            self.put("    return SERVICE_MALFORMED;")

    def bytes(self, item: Item) -> None:
        assert item.length is not None
        self.put(f"size = {expression(item.length)};")
        self.put(f"if (bad || size < 0 || size > {self.plan.limit} || at > {self.plan.limit})")
        self.put("    return SERVICE_MALFORMED;")
        if self.wants(item):
            self.require("at + (uint64_t)size")
            name = f"t_{item.name}" if item.name else f"a_{item.index}"
            self.put(f"{name} = (struct service_text){{data + at, (uint32_t)size}};")
        self.put("at += (uint64_t)size;")


def _fixed(item: Item) -> bool:
    return item.kind in ("integer", "constant") and item.condition is None


def _constant(number: int) -> str:
    return f"INT64_C({number})" if abs(number) >= 1 << 31 else str(number)


def _declarations(plan: Plan, needed: set[str], spans: bool) -> list[str]:
    out: list[str] = []
    for item in plan.items:
        if item.kind == "bytes" and item.name in needed and item.name:
            out.append(f"    struct service_text t_{item.name} = {{NULL, 0}};")
        elif item.kind in ("integer", "variable") and item.name in needed and item.name:
            out.append(f"    int64_t v_{item.name} = 0;")
        elif spans and not item.name and item.kind in ("bytes", "integer"):
            out.append(f"    struct service_text a_{item.index} = {{NULL, 0}};")
    if any(item.kind == "bytes" for item in plan.items):
        out.append("    int64_t size;")
    out.append("    uint64_t at = 0;")
    if any(item.kind in ("bytes", "variable") or item.condition is not None for item in plan.items):
        out.append("    bool bad = false;")
    return out


def parser(name: str, plan: Plan, fields: list[str]) -> list[str]:
    """The parser of a message of which the program names some fields."""
    needed = plan.needed(set(fields))
    out = [
        f"static enum service_parsed m_{name}_parse(const uint8_t *data, uint64_t length, void *target, uint64_t *need)",
        "{",
        f"    struct m_{name} *out = target;",
        *_declarations(plan, needed, False),
        "",
        *_Parser(plan, needed, False).run(),
    ]
    for field in fields:
        out.append(f"    out->f_{field} = {'t' if plan.by_name[field].kind == 'bytes' else 'v'}_{field};")
    return [*out, "    out->m.total = at;", "    return SERVICE_READY;", "}", ""]


def serialiser(name: str, plan: Plan, fields: list[str]) -> list[str]:
    """What sends a message that the program has made or changed."""
    everything = {item.name for item in plan.items if item.name}
    held = [(f"a_{item.index}", item) for item in plan.items if not item.name and item.kind in ("bytes", "integer")]
    held += [(f"{'t' if item.kind == 'bytes' else 'v'}_{item.name}", item) for item in plan.items if item.name]
    texts = {place for place, item in held if not item.name or item.kind == "bytes"}
    out = [f"struct w_{name} {{", "    uint64_t size;"]
    out += [
        f"    {'struct service_text' if place in texts else 'int64_t'} {place};"
        for place, item in held
        if _stored(item)
    ]
    out += ["};", ""]
    out += [
        f"static enum service_parsed w_{name}_parse(const uint8_t *data, uint64_t length, struct w_{name} *out,",
        "                                        uint64_t *need)",
        "{",
        *_declarations(plan, everything, True),
        "",
        *_Parser(plan, everything, True).run(),
        *[f"    out->{place} = {place};" for place, item in held if _stored(item)],
        "    out->size = at;",
        "    return SERVICE_READY;",
        "}",
        "",
    ]
    out += _prepare(name, plan, fields, [place for place, item in held if _stored(item)], texts)
    out += _emit(name, plan)
    out += [
        f"static enum service_outcome m_{name}_write(struct service_channel *c, const struct m_{name} *m)",
        "{",
        f"    struct w_{name} w, again;",
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
        f"    if (w_{name}_parse(at, w.size, &again, &need) != SERVICE_READY || again.size != w.size)",
        "        return service_fail(c->instance, SERVICE_UNFIT);",
        "    if (m->m.origin)",
        "        m->m.origin->unsent = false;",
        "    service_wrote(c, w.size);",
        "    return SERVICE_STEP;",
        "}",
        "",
    ]
    return out


def _stored(item: Item) -> bool:
    return item.kind != "constant"


def _prepare(name: str, plan: Plan, fields: list[str], places: list[str], texts: set[str]) -> list[str]:
    """The values of all fields: those of the message as it came, then the program's, then lengths and variables."""
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
        f"    if (m->m.raw && w_{name}_parse(m->m.raw, m->m.total, w, &need) != SERVICE_READY)",
        "        return false;",
        *[f"    {place} = w->{place};" for place in places],
    ]
    for field in fields:
        out.append(f"    {'t' if plan.by_name[field].kind == 'bytes' else 'v'}_{field} = m->f_{field};")
    for length, of in plan.lengths().items():
        out.append(f"    v_{length} = t_{of}.length;")
    for item in reversed(plan.items):
        if item.target and item.serialize is not None:
            out.append(f"    v_{item.target} = {expression(item.serialize, f'v_{item.name}')};")
    out.append("    w->size = 0;")
    for item in plan.items:
        line = f"w->size += {_size_of(item)};"
        if item.kind == "variable":
            continue
        checks = []
        if item.kind == "integer" and item.name and item.size < 8:
            checks = [f"v_{item.name} < {_constant(item.smallest)}", f"v_{item.name} > {_constant(item.largest)}"]
        if item.condition is not None:
            out.append(f"    if ({expression(item.condition)}) {{")
        if checks:
            out += [f"    if ({' || '.join(checks)})", "        return false;"]
        out.append(f"    {line}")
        if item.condition is not None:
            out.append("    }")
    out += [f"    w->{place} = {place};" for place in places]
    return [*out, "    return !bad;", "}", ""]


def _size_of(item: Item) -> str:
    if item.kind == "bytes":
        return f"{f't_{item.name}' if item.name else f'a_{item.index}'}.length"
    return str(item.size)


def _emit(name: str, plan: Plan) -> list[str]:
    out = [f"static void w_{name}_emit(const struct w_{name} *w, uint8_t *at)", "{"]
    used = {field for item in plan.items if item.condition is not None for field in _names(item.condition)}
    out += [f"    const int64_t v_{field} = w->v_{field};" for field in sorted(used)]
    if any(item.condition is not None for item in plan.items):
        out.append("    bool bad = false;")
    for item in plan.items:
        if item.kind == "variable":
            continue
        if item.condition is not None:
            out.append(f"    if ({expression(item.condition)}) {{")
        if item.kind == "constant":
            text = "".join(f"\\{byte:03o}" for byte in item.constant)
            out.append(f'    memcpy(at, "{text}", {item.size});')
        elif item.kind == "integer" and item.name:
            order = "true" if item.order == "big" else "false"
            out.append(f"    service_store(at, (uint64_t)w->v_{item.name}, {item.size}, {order});")
        else:
            source = f"w->t_{item.name}" if item.name else f"w->a_{item.index}"
            size = f"{source}.length" if item.kind == "bytes" else str(item.size)
            out.append(f"    if ({source}.length)")
            out.append(f"        memcpy(at, {source}.at, {source}.length);")
            if item.kind == "integer":
                out += ["    else", f"        memset(at, 0, {item.size});"]
            out.append(f"    at += {size};")
            if item.condition is not None:
                out.append("    }")
            continue
        out.append(f"    at += {item.size};")
        if item.condition is not None:
            out.append("    }")
    if any(item.condition is not None for item in plan.items):
        out.append("    (void)bad;")
    return [*out, "    (void)at;", "}", ""]


def _names(value: Value) -> set[str]:
    found = {value.name} if value.kind == "field" else set[str]()
    for item in value.items:
        found |= _names(item)
    return found
