"""Lists in messages: between the bytes of a field, integers or units in a row, and the list that a program has.

A message holds the bytes, so that nothing is parsed that a program does not name. A list is made of them where the
program takes the field, and they are made of a list where it sets the field.
"""

from __future__ import annotations

from sluice.service.grammar.plan import Item
from sluice.service.lang.types import ListOf, bound_of


def unpack(row: Item, type: ListOf, name: str, c_type: str, item_type: str) -> list[str]:
    """The C function that makes a list of bytes; it returns the reason of a fault, or 0."""
    head = [f"static enum service_counter {name}({c_type} *to, struct service_text from)", "{"]
    if row.integer is not None:
        size = row.integer.size
        cast = f"(int{8 * size}_t)" if row.integer.signed else ""
        order = "true" if row.integer.order == "big" else "false"
        body = [
            f"    if (from.length % {size})",
            "        return SERVICE_BAD_MESSAGE;",
            f"    if (from.length / {size} > {bound_of(type)})",
            "        return SERVICE_LIMIT;",
            f"    to->count = from.length / {size};",
            "    for (uint32_t i = 0; i < to->count; i++)",
            f"        to->items[i] = (int64_t){cast}service_load(from.at + {size} * i, {size}, {order});",
            "    return (enum service_counter)0;",
        ]
        return [*head, *body, "}", ""]
    assert row.element is not None
    body = [
        "    struct service_found found;",
        "    uint32_t at = 0;",
        "",
        "    for (to->count = 0; at < from.length; to->count++) {",
        f"        {item_type} *one = &to->items[to->count];",
        "",
        f"        if (to->count == {bound_of(type)})",
        "            return SERVICE_LIMIT;",
        "        memset(one, 0, sizeof *one);",
        "        one->m.answered = 1;",
        "        one->m.ended = true;",
        f"        if (m_{row.element.name}_parse(from.at + at, from.length - at, one, &found) != SERVICE_READY ||",
        "            one->m.total > from.length - at)",
        "            return SERVICE_BAD_MESSAGE;",
        "        one->m.raw = from.at + at;",
        "        one->m.here = one->m.total;",
        "        at += (uint32_t)one->m.total;",
        "    }",
        "    return (enum service_counter)0;",
    ]
    return [*head, *body, "}", ""]


def pack(row: Item, made: bool, name: str, c_type: str, item_type: str) -> list[str]:
    """The C function that makes bytes of a list, at `to`, where `room` bytes are free. `made`: its units may be such that
    the program has made or changed.
    """
    head = [
        f"static enum service_counter {name}(const {c_type} *from, uint8_t *to, uint32_t room, struct service_text *out)",
        "{",
    ]
    if row.integer is not None:
        one = row.integer
        order = "true" if one.order == "big" else "false"
        least, most = (f"INT64_C({number})" for number in (one.smallest, one.largest))
        fits = [f"        if (v < {least} || v > {most})", "            return SERVICE_UNFIT;"] if one.size < 8 else []
        body = [
            f"    if (from->count > room / {one.size})",
            "        return SERVICE_LIMIT;",
            "    for (uint32_t i = 0; i < from->count; i++) {",
            "        int64_t v = from->items[i];",
            "",
            *fits,
            f"        service_store(to + {one.size} * i, (uint64_t)v, {one.size}, {order});",
            "    }",
            f"    *out = (struct service_text){{to, {one.size} * from->count}};",
            "    return (enum service_counter)0;",
        ]
        return [*head, *body, "}", ""]
    assert row.element is not None
    unit = row.element.name
    written = [
        f"        struct w_{unit} w, again;",
        "        uint64_t need;",
        "",
        "        if (one->m.raw && !one->m.changed) {",
        "            if (one->m.total > room - used)",
        "                return SERVICE_LIMIT;",
        "            memcpy(to + used, one->m.raw, one->m.total);",
        "            used += (uint32_t)one->m.total;",
        "            continue;",
        "        }",
        f"        if (!w_{unit}_prepare(&w, one))",
        "            return SERVICE_UNFIT;",
        "        if (w.size > room - used)",
        "            return SERVICE_LIMIT;",
        f"        w_{unit}_emit(&w, to + used);",
        f"        if (w_{unit}_parse(to + used, w.size, &again, &need, one->m.note, true) != SERVICE_READY ||",
        "            again.size != w.size)",
        "            return SERVICE_UNFIT;",
        "        used += (uint32_t)w.size;",
    ]
    copied = [
        "",
        "        if (!one->m.raw)",
        "            return SERVICE_UNFIT;",
        "        if (one->m.total > room - used)",
        "            return SERVICE_LIMIT;",
        "        memcpy(to + used, one->m.raw, one->m.total);",
        "        used += (uint32_t)one->m.total;",
    ]
    body = [
        "    uint32_t used = 0;",
        "",
        "    for (uint32_t i = 0; i < from->count; i++) {",
        f"        const {item_type} *one = &from->items[i];",
        *(written if made else copied),
        "    }",
        *(_bounds(unit, made, item_type) if row.element.has_pattern else []),
        "    *out = (struct service_text){to, used};",
        "    return (enum service_counter)0;",
    ]
    return [*head, *body, "}", ""]


def _bounds(unit: str, made: bool, item_type: str) -> list[str]:
    """The part of such a function that tests whether each unit, with the next ones after it, still ends where it did."""
    size = [
        "        if (!one->m.raw || one->m.changed) {",
        f"            if (!w_{unit}_prepare(&w, one))",
        "                return SERVICE_UNFIT;",
        "            size = w.size;",
        "        }",
    ]
    return [
        "    for (uint32_t i = 0, at = 0; i < from->count; i++) {",
        f"        const {item_type} *one = &from->items[i];",
        "        uint64_t size = one->m.total;",
        "        struct service_found found;",
        f"        {item_type} again;",
        *([f"        struct w_{unit} w;", "", *size] if made else [""]),
        "        memset(&again, 0, sizeof again);",
        "        again.m.answered = 1;",
        "        again.m.ended = true;",
        f"        if (m_{unit}_parse(to + at, used - at, &again, &found) != SERVICE_READY || again.m.total != size)",
        "            return SERVICE_UNFIT;",
        "        at += (uint32_t)size;",
        "    }",
    ]
