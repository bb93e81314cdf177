"""The C that parses a unit, for the fields that a program names.

The parser checks lengths before it reads, loads only what is needed, and skips the rest; it can be called again with
more bytes at any time. It allocates nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from sluice.service.grammar.plan import FRAMINGS, Item, Plan, text_of
from sluice.service.grammar.tree import Value

_FUNCTIONS = {
    "header": "header",
    "has": "has",
    "word": "word",
    "item": "item",
    "line": "first_line",
    "token": "is_token",
    "number": "decimal",
}
_CALLS = {"+": "service_add", "-": "service_subtract", "*": "service_multiply"}
_ONE_MORE = "length < at ? at + 1 : length + 1"
"""Bytes that are needed if the next one is not there; what was skipped before it need not be, either."""
_SAME = ("|", "^", "&", "==", "!=", "<", ">", "<=", ">=", "&&", "||")


def literal(data: bytes) -> str:
    """The C of bytes that are known."""
    text = "".join(f"\\{byte:03o}" for byte in data)
    return f'(struct service_text){{(const uint8_t *)"{text}", {len(data)}}}'


def expression(value: Value, plan: Plan, own: str = "0") -> str:
    """The C of an expression over the variables `v_FIELD` and `t_FIELD`; a division by 0 sets `bad`."""
    match value.kind:
        case "text":
            return literal(value.name.encode("latin-1"))
        case "note":
            return "note"
        case "next":
            return f"service_next({literal(value.name.encode('latin-1'))}, data, length, at, &missing)"
        case "call":
            given = ", ".join(expression(item, plan) for item in value.items)
            if value.name == "length":
                return f"(int64_t)({given}).length"
            extra = {"number": ", &bad", "item": ", &missing"}.get(value.name, "")
            return f"service_{_FUNCTIONS[value.name]}({given}{extra})"
        case "field" if plan.by_name[value.name].is_text:
            return f"t_{value.name}"
        case "==" | "!=" if text_of(value.items[0], plan.by_name):
            left, right = (expression(item, plan) for item in value.items)
            return f"(int64_t){'!' if value.kind == '!=' else ''}service_same({left}, {right})"
        case "number":
            number = value.number % (1 << 64)
            return f"(int64_t)UINT64_C({number})" if number >= 1 << 31 else str(number)
        case "field":
            return f"v_{value.name}"
        case "self":
            return own
        case "not":
            return f"(int64_t)!{expression(value.items[0], plan, own)}"
        case "negative":
            return f"service_subtract(0, {expression(value.items[0], plan, own)})"
        case "choice":
            first, then, otherwise = (expression(item, plan, own) for item in value.items)
            return f"({first} ? {then} : {otherwise})"
        case _:
            left, right = (expression(item, plan, own) for item in value.items)
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
    """The struct of a message: the platform's fields, and those that the program names."""
    out = [f"struct m_{name} {{", "    struct service_message m;"]
    for field in fields:
        kind = "struct service_text" if plan.by_name[field].is_text else "int64_t"
        out.append(f"    {kind} f_{field};")
    return [*out, "};", ""]


class Parser:
    """Writes the body of a parser."""

    def __init__(self, title: str, plan: Plan, needed: set[str], spans: bool, asked: set[str] | None = None) -> None:
        self.title = title
        """The name of the unit in C."""
        self.asked = needed if asked is None else asked
        """The fields that the program names."""
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
        if item.kind == "tail":  # computations may need only its beginning
            return item.name in self.asked or self.spans
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
        if item.kind == "text":
            if item.name in self.needed:
                assert item.parse is not None
                self.put(f"t_{item.name} = {expression(item.parse, self.plan)};")
                self.missing(item)
                self.put("if (bad)")
                self.put("    return SERVICE_MALFORMED;")
            return
        if item.kind == "variable":
            assert item.parse is not None
            if item.looks:
                self.dynamic()
            self.put(f"v_{item.name} = {expression(item.parse, self.plan)};")
            self.missing(item)
            checks = ["bad"]
            if item.size == 8:
                self.put(f"(void)v_{item.name};")
            else:
                checks += [f"v_{item.name} < {constant(item.smallest)}", f"v_{item.name} > {constant(item.largest)}"]
            self.put(f"if ({' || '.join(checks)})")
            self.put("    return SERVICE_MALFORMED;")
            return
        self.dynamic()
        if item.condition is not None:
            self.put(f"if ({expression(item.condition, self.plan)}) {{")
        if item.kind == "bytes":
            self.bytes(item)
        elif item.kind == "vint":
            self.put(f"size = (int64_t)service_vint(data + at, length < at ? 0 : length - at, &{self.place(item)});")
            self.put("if (size == 0) {")
            self.put(f"    *need = {_ONE_MORE};")
            self.put("    return SERVICE_MORE;")
            self.put("}")
            self.put("at += (uint64_t)size;")
        elif item.kind in ("until", "headers"):
            self.scanned(item)
        elif item.kind == "tail":
            self.tail(item)
        elif item.kind == "list":
            self.list(item)
        elif item.kind == "pattern":
            self.pattern(item)
        else:
            if self.wants(item):
                self.require(f"at + {item.size}")
                self.load(item, "at")
            self.put(f"at += {item.size};")
        if item.condition is not None:
            self.put("}")
            self.put("if (bad)")
            self.put("    return SERVICE_MALFORMED;")

    def place(self, item: Item) -> str:
        """The variable of an item."""
        if item.is_text:
            return f"t_{item.name}" if item.name else f"a_{item.index}"
        return f"v_{item.name}" if item.name else "ignored"

    def missing(self, item: Item) -> None:
        """Ends the parser if the value of a variable depends on bytes that are not there."""
        assert item.parse is not None
        if item.looks or "item" in calls_of(item.parse):
            self.put("if (missing) {")
            self.put(f"    *need = {_ONE_MORE if item.looks else 'length + 1'};")
            self.put("    return SERVICE_MORE;")
            self.put("}")

    def scanned(self, item: Item) -> None:
        """Bytes up to a delimiter, and header fields."""
        self.require("at + 1")
        extra = 2
        if item.kind == "until":
            extra, text = len(item.constant), "".join(f"\\{byte:03o}" for byte in item.constant)
            self.put(f'end = service_find(data + at, length - at, "{text}", {extra});')
            more = "end == length - at"
        else:
            self.put("parsed = service_headers(data + at, length - at, &end);")
            self.put("if (parsed == SERVICE_MALFORMED)")
            self.put("    return SERVICE_MALFORMED;")
            more = "parsed == SERVICE_MORE"
        self.put(f"if ({more}) {{")
        self.put(f"    if (length - at > {self.plan.limit})")
        self.put("        return SERVICE_MALFORMED;")
        self.put("    *need = length + 1;")
        self.put("    return SERVICE_MORE;")
        self.put("}")
        if item.kind == "until" and item.text:
            self.put("if (!service_plain(data + at, end, false))")
            self.put("    return SERVICE_MALFORMED;")
        if self.wants(item):
            self.put(f"{self.place(item)} = (struct service_text){{data + at, (uint32_t)end}};")
        self.put(f"at += end + {extra};")

    def list(self, item: Item) -> None:
        """Units in a row: each is skipped by a function of its own."""
        assert item.length is not None
        self.put(f"size = {expression(item.length, self.plan)};")
        self.put("if (bad || size < 0 || size > SERVICE_LIST)")
        self.put("    return SERVICE_MALFORMED;")
        if self.wants(item):
            self.put("begin = at;")
        self.put("for (int64_t i = 0; i < size; i++) {")
        self.put("    uint64_t here = at < length ? at : length, one = 0;")
        self.put("")
        self.put(f"    parsed = {element_name(self.title, item)}(data + here, length - here, &one, need, ended);")
        self.put("    if (parsed != SERVICE_READY) {")
        self.put("        *need = parsed == SERVICE_MORE ? *need + at : 0;")
        self.put("        return parsed;")
        self.put("    }")
        self.put("    at += one;")
        self.put(f"    if (at > {self.plan.limit})")
        self.put("        return SERVICE_MALFORMED;")
        self.put("}")
        if self.wants(item):
            self.require("at")
            self.put(f"{self.place(item)} = (struct service_text){{data + begin, (uint32_t)(at - begin)}};")

    def pattern(self, item: Item) -> None:
        """The longest match of a regular expression."""
        name = automaton_name(self.title, item)
        self.put(f"parsed = service_match(&{name}, data + at, length < at ? 0 : length - at, ended, &end);")
        self.put("if (parsed == SERVICE_MALFORMED)")
        self.put("    return SERVICE_MALFORMED;")
        self.put("if (parsed == SERVICE_MORE) {")
        self.put(f"    if (length > at && length - at > {self.plan.limit})")
        self.put("        return SERVICE_MALFORMED;")
        self.put(f"    *need = {_ONE_MORE};")
        self.put("    return SERVICE_MORE;")
        self.put("}")
        if self.wants(item):
            self.put(f"{self.place(item)} = (struct service_text){{data + at, (uint32_t)end}};")
        self.put("at += end;")

    def tail(self, item: Item) -> None:
        """The last item: its parts, as far as they are there."""
        framing = FRAMINGS[item.framing]
        is_http = framing.kind == "http"
        kind, allowed = ("SERVICE_NO_TAIL", "service_body_most") if is_http else (framing.kind, self.plan.limit)
        self.put(f"tail = (struct service_tail){{.kind = {kind}, .left = 1, .allowed = {allowed}}};")
        used = self.wants(item) or item.name in self.needed
        if used:
            self.put("begin = at;")
        if is_http:
            answer = item.framing == "http_response"
            empty = "service_bodiless(t_status, note)" if answer else "false"
            self.put(f"if (!service_framing(t_headers, {str(answer).lower()}, {empty}, &tail, &end))")
            self.put("    return SERVICE_MALFORMED;")
            self.put("at += end;")
        self.put("if (tail.kind == SERVICE_TO_THE_END) {")
        self.put("    if (ended && length >= at) {")
        self.put("        at = length;")
        self.put("        tail.kind = SERVICE_NO_TAIL;")
        if not self.spans:
            self.put("        found->open = 1;")
        self.put("    } else {")
        self.put("        tail_need = length + 1;")
        self.put("    }")
        self.put("} else if (tail.kind) {")
        self.put("    parsed = service_parts(&tail, data, length, &at, &tail_need);")
        self.put("    if (parsed == SERVICE_MALFORMED)")
        self.put("        return SERVICE_MALFORMED;")
        self.put("}")
        whole = "tail.kind" if self.wants(item) else "tail.kind && at == 0"
        self.put(f"if ({whole}) {{")
        self.put("    *need = tail_need;")
        self.put("    return SERVICE_MORE;")
        self.put("}")
        if self.wants(item):
            self.require("at")
        if item.name in self.needed:
            self.put(
                f"t_{item.name} = (struct service_text){{data + begin, (uint32_t)((at < length ? at : length) - begin)}};"
            )
        elif self.wants(item):
            self.put(f"a_{item.index} = (struct service_text){{data + begin, (uint32_t)(at - begin)}};")

    def bytes(self, item: Item) -> None:
        assert item.length is not None
        self.put(f"size = {expression(item.length, self.plan)};")
        self.put(f"if (bad || size < 0 || size > {self.plan.limit} || at > {self.plan.limit})")
        self.put("    return SERVICE_MALFORMED;")
        if self.wants(item):
            self.require("at + (uint64_t)size")
            name = f"t_{item.name}" if item.name else f"a_{item.index}"
            self.put(f"{name} = (struct service_text){{data + at, (uint32_t)size}};")
        self.put("at += (uint64_t)size;")


def element_name(title: str, item: Item) -> str:
    """The C function that skips an item of a list."""
    return f"e_{title}_{item.index}"


def automaton_name(title: str, item: Item) -> str:
    """The C variable of the automaton of a pattern."""
    return f"p_{title}_{item.index}"


def parts(title: str, plan: Plan) -> list[str]:
    """The C of the lists and patterns of a unit, which its parsers use."""
    out: list[str] = []
    for item in plan.items:
        if item.automaton is not None:
            out += [*item.automaton.source(automaton_name(title, item)), ""]
        if item.element is None or item.kind != "list":
            continue
        name, element = element_name(title, item), item.element
        out += parts(name, element)
        needed = element.needed(set())
        lines = Parser(name, element, needed, False, set()).run()
        out += [
            f"static enum service_parsed {name}(const uint8_t *data, uint64_t length, uint64_t *total, uint64_t *need,",
            f"{' ' * len(f'static enum service_parsed {name}(')}bool ended)",
            "{",
            *declarations(element, needed, False, [*lines, "at"]),
            "",
            *[f"    (void){each};" for each in ("data", "length", "need", "ended") if not _uses(lines, each)],
            *lines,
            "    *total = at;",
            "    return SERVICE_READY;",
            "}",
            "",
        ]
    return out


def _fixed(item: Item) -> bool:
    return item.kind in ("integer", "constant") and item.condition is None


def constant(number: int) -> str:
    """The C of a number."""
    return f"INT64_C({number})" if abs(number) >= 1 << 31 else str(number)


def calls_of(value: Value) -> Iterator[str]:
    """Names of all functions in an expression."""
    if value.kind == "call":
        yield value.name
    for item in value.items:
        yield from calls_of(item)


_LOCALS = (
    ("size", "int64_t size;"), ("ignored", "int64_t ignored = 0;"), ("end", "uint64_t end = 0;"),
    ("begin", "uint64_t begin = 0;"), ("tail_need", "uint64_t tail_need = 0;"), ("at", "uint64_t at = 0;"),
    ("parsed", "enum service_parsed parsed;"), ("tail", "struct service_tail tail;"), ("bad", "bool bad = false;"),
    ("missing", "bool missing = false;"),
)  # fmt: skip


def declarations(plan: Plan, needed: set[str], spans: bool, lines: list[str]) -> list[str]:
    """The variables of a parser, of which `lines` is the body."""
    out: list[str] = []
    for item in plan.items:
        if item.is_text and item.name in needed and item.name:
            out.append(f"    struct service_text t_{item.name} = {{NULL, 0}};")
        elif (
            not item.is_text and item.kind != "constant" and item.name and (item.name in needed or item.kind == "vint")
        ):
            out.append(f"    int64_t v_{item.name} = 0;")
        elif spans and not item.name and item.kind != "constant":
            out.append(f"    struct service_text a_{item.index} = {{NULL, 0}};")
    words = set(re.findall(r"(?<![.>\w])\w+", " ".join(lines)))
    return out + [f"    {text}" for name, text in _LOCALS if name in words]


def parser(name: str, plan: Plan, fields: list[str]) -> list[str]:
    """The parser of a message of which the program names some fields."""
    needed = plan.needed(set(fields))
    lines = Parser(name, plan, needed, False, set(fields)).run()
    for each, value in plan.expressions.items():
        where = "out->m." if each in ("note", "answered") else "found->"
        lines.append(f"    {where}{each} = {_property(each, value, plan)};")
    if any("bad" in line or "missing" in line for line in lines[len(lines) - len(plan.expressions) :]):
        lines += ["    if (bad)", "        return SERVICE_MALFORMED;"]
    if plan.tail is not None:
        lines += ["    found->tail = tail;", "    found->tail_need = tail_need;"]
    for field in fields:
        lines.append(f"    out->f_{field} = {'t' if plan.by_name[field].is_text else 'v'}_{field};")
    lines.append("    out->m.total = at;")
    inputs = ["    const int64_t note = out->m.note;"] if _uses(lines, "note") else []
    inputs += ["    const bool ended = out->m.ended;"] if _uses(lines, "ended") else []
    return [
        *parts(name, plan),
        f"static enum service_parsed m_{name}_parse(const uint8_t *data, uint64_t length, void *target,",
        "                                        struct service_found *found)",
        "{",
        "    uint64_t *need = &found->need;",
        f"    struct m_{name} *out = target;",
        *inputs,
        *declarations(plan, needed, False, lines),
        "",
        *[f"    (void){each};" for each in ("data", "length", "need") if not _uses(lines, each)],
        *lines,
        "    return SERVICE_READY;",
        "}",
        "",
    ]


def _uses(lines: list[str], word: str) -> bool:
    return any(re.search(rf"(?<![.>\w]){word}\b", line) for line in lines)


def _property(name: str, value: Value, plan: Plan) -> str:
    text = expression(value, plan)
    return (
        text if name in ("hops", "fill", "mute") else f"(uint32_t){text}" if name == "checksum" else f"(uint8_t){text}"
    )
