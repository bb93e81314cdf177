"""Declarations of shared objects are read from C, and refused with the line and what to write."""

from __future__ import annotations

import pytest

from sluice.engine.c_function import read_c_function
from sluice.hooks.shared import Shared, SharedError
from sluice.hooks.subscription import HookError

HEAD = '#include "sluice.h"\nstruct pair { int a, b; };\n'
TAIL = "\nSLUICE_ON(tcp, packet) {}\n"


def declared(*lines: str) -> tuple[Shared, ...]:
    return read_c_function("shared", HEAD + "\n".join(lines) + TAIL, "shared.c").shared


def test_each_part_is_read() -> None:
    found = declared(
        'SLUICE_SHARED(all_packets, counter, all, write_mostly, zero, "packets")',
        'SLUICE_SHARED(seen, struct pair, flow, read_mostly, recover, "a pair")',
        'SLUICE_SHARED(hosts, set, dst + dport, read_write, recover, "hosts")',
    )
    assert found == (
        Shared("all_packets", "counter", "all", "write_mostly", "zero", "packets"),
        Shared("seen", "struct", "flow", "read_mostly", "recover", "a pair", "struct pair"),
        Shared("hosts", "set", ("dst", "dport"), "read_write", "recover", "hosts"),
    )
    assert [item.scope_text for item in found] == ["all", "flow", "dst+dport"]


def test_operations_are_read() -> None:
    text = 'SLUICE_OPERATION(half, "return math.floor(value / 2)") { return value / 2; }'
    found = read_c_function("shared", HEAD + text + TAIL, "shared.c").operations
    assert [(item.full_name, item.lua) for item in found] == [("shared_half", "return math.floor(value / 2)")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('SLUICE_SHARED(x, table, all, read_write, zero, "x")', "shared.c:3: 'table' is no type of a shared object"),
        ('SLUICE_SHARED(x, struct, all, read_write, zero, "x")', "shared.c:3: name the struct: struct NAME"),
        (
            'SLUICE_SHARED(x, map, all, often, zero, "x")',
            "'often' is no access of a shared object: it is one of write_mostly",
        ),
        ('SLUICE_SHARED(x, map, all, read_write, never, "x")', "'never' is no loss of a shared object"),
        ('SLUICE_SHARED(x, map, src+, read_write, zero, "x")', "'src\\+' is no scope"),
        ('SLUICE_SHARED(x, map, a+b+c+d+e, read_write, zero, "x")', "at most 4 header fields"),
        ('SLUICE_SHARED(int, map, all, read_write, zero, "x")', "'int' is no name of an object"),
        ('SLUICE_SHARED(x, number, all, write_mostly, zero, "x")', "declare read_write, or a counter"),
        (
            'SLUICE_SHARED(x, map, all, read_write, zero, "x")\nSLUICE_SHARED(x, set, all, read_write, zero, "x")',
            "shared.c:4: there is an object 'x' already",
        ),
        (
            'SLUICE_OPERATION(f, "return 1") { return 1; }\nSLUICE_OPERATION(f, "return 1") { return 1; }',
            "shared.c:4: there is an operation 'f' already",
        ),
    ],
)
def test_refusals(line: str, message: str) -> None:
    with pytest.raises(HookError, match=message):
        declared(line)


def test_python_declarations_have_the_same_rules() -> None:
    with pytest.raises(SharedError, match="is no type"):
        Shared("x", "queue", "all", "read_write", "zero", "x")
