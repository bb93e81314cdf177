"""Writes the C of all units for fuzz_grammars.c, and first inputs: make_grammars.py FOLDER CORPUS.

The units are those of the grammars included in Sluice, and of the grammar of the tests that has all that a grammar
can have. The parsers read all fields.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).absolute().parent.parent
sys.path.insert(0, str(ROOT))

from sluice.service.build import RUNTIME  # noqa: E402  after the path
from sluice.service.grammar.declarations import parse_grammars  # noqa: E402
from sluice.service.grammar.lower import parser, structure  # noqa: E402
from sluice.service.grammar.plan import Plan, plan  # noqa: E402
from sluice.service.grammar.ready import find_grammars, ready_names  # noqa: E402
from sluice.service.grammar.serialise import serialiser  # noqa: E402
from tests.service.test_units import BY_CONSTANT, GRAMMAR, message  # noqa: E402

FIRST = [
    b"GET /a HTTP/1.1\r\nHost: b\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\n0\r\nA: b\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close, x\r\n\r\nabc",
    b"set a 0 0 3 noreply\r\nabc\r\n",
    b"VALUE a 0 3\r\nabc\r\nEND\r\n",
    b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n",
    b"*2\r\n+a\r\n%1\r\n$1\r\na\r\n:5\r\n",
    b"\x80\1\0\3\x08\0\0\0\0\0\0\x0e" + bytes(12) + bytes(8) + b"keyval",
    b"\2\4\1k\0\0\0\1\xff\xff",
    b"\0\x0d" + bytes(10) + b"a",
    b"\0\0\0\2ab",
    message(6, 3, 2, b"\2\0\1p\1\0a\0\0", b"3.14", [258, 3]),
    b"\1WORD \2abz",
]


def units() -> dict[str, Plan]:
    """All of them by their names in C."""
    found = {f"{name}_{each.name}": plan(each) for name in ready_names() for each in find_grammars(name)}
    for name, text in (("everything", GRAMMAR), ("constants", BY_CONSTANT)):
        found |= {f"{name}_{each.name}": plan(each) for each in parse_grammars(text, name) if each.name != "pair"}
    return found


def source(name: str, unit: Plan) -> list[str]:
    """The parser and the serialiser of a unit, and a test of what a parser has found."""
    fields = [item.name for item in unit.items if item.name and item.kind != "constant"]
    texts = [field for field in fields if unit.by_name[field].is_text]
    exact = not any(item.kind == "vint" for item in unit.items)  # others have several forms of a number
    return [
        *structure(name, unit, fields),
        *parser(name, unit, fields),
        *serialiser(name, unit, fields),
        f"static void check_{name}(const void *target, const uint8_t *data, uint64_t length)",
        "{",
        f"    const struct m_{name} *m = target;",
        f"    struct w_{name} w;",
        "",
        *[f"    EXPECT(within(m->f_{each}, data, length));" for each in texts],
        f"    (void)data, (void)length, (void)m_{name}_write;",
        f"    if (m->m.raw && w_{name}_prepare(&w, m)) {{",
        "        uint8_t *out = malloc(w.size + 1);",
        "",
        f"        w_{name}_emit(&w, out);",
        *(["        EXPECT(w.size == m->m.total && memcmp(out, data, w.size) == 0);"] if exact else []),
        "        free(out);",
        "    }",
        "}",
        "",
    ]


def main() -> None:
    made, corpus = Path(sys.argv[1]), Path(sys.argv[2])
    made.mkdir(parents=True, exist_ok=True)
    found = units()
    lines = [f'#include "{RUNTIME}/send.h"', ""]
    for name, unit in found.items():
        lines += source(name, unit)
    lines += ["static const struct unit units[] = {"]
    lines += [f"    {{m_{name}_parse, check_{name}, sizeof(struct m_{name})}}," for name in found]
    (made / "service_units.c").write_text("\n".join([*lines, "};", ""]))
    for number, data in enumerate(FIRST):
        for at in range(len(found)):
            (corpus / f"first{number}_{at}").write_bytes(bytes([at, 100]) + data)


main()
