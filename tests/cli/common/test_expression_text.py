"""Expressions as text: what is printed reads as what was written, for every kind of expression."""

from typing import Any

import pytest

from sluice.cli.common.describe import describe
from sluice.cli.common.expression_text import action_words, header_words, words
from sluice.cli.show import text_of
from sluice.lang import (
    PSM,
    AnyUntil,
    Assemble,
    Assign,
    Bit,
    Callback,
    Connectionless,
    ConnectionOriented,
    Else,
    If,
    Length,
    Pred,
    PSMState,
    Sequence,
    Stack,
    UInt,
    crc32c,
    internet_checksum,
    layout,
    one_of,
    swap_sides,
)
from sluice.lang import expression as lang
from sluice.lang.layer import Offered
from sluice.lang.layout import Field
from sluice.lang.where import NOWHERE


class first(layout):
    a = UInt(16)
    b = UInt(16, order="little")
    n = Bit(4, const=3)
    m = Bit(4)


class extra(layout):
    rest = Bit(first.m << 3)


class option(layout):
    kind = UInt(8, const=2)
    value = UInt(8)


class kept(layout):
    count = UInt(32, init=7)
    number = UInt(32, serial=True)


class told(layout):
    value = UInt(16)


def parser() -> Any:
    p = ConnectionOriented("p")
    p.header = first + (If(first.m > 0) >> extra)
    p.selector = [p.header.a], [p.header.b]
    p.perm = kept
    return p


P = parser()
H = P.header
OPEN = PSMState(start=True)
P.psm = PSM(OPEN)
P.psm.again = (OPEN >> OPEN) + Pred(1)

EXPRESSIONS = [
    (H.a + H.b * 2, "header.a + header.b * 2"),
    ((H.a + H.b) * 2, "(header.a + header.b) * 2"),
    (H.a - (H.b - 1), "header.a - (header.b - 1)"),
    ((H.a - H.b) - 1, "header.a - header.b - 1"),
    ((H.a == 1) & (H.b != 2), "(header.a == 1) & (header.b != 2)"),
    ((H.a == 1) == (H.b == 2), "(header.a == 1) == (header.b == 2)"),
    ((H.a & 3) == 0, "header.a & 3 == 0"),
    (H.a << 2 | 1, "header.a << 2 | 1"),
    (H.a // 3 % 2, "header.a // 3 % 2"),
    (~(H.a == 1), "~(header.a == 1)"),
    (H.a == 0x0800, "header.a == 0x0800"),
    (H.a - 0xFFFF, "header.a - 0xFFFF"),
    (P.payload[2 : H.a], "payload[2:header.a]"),
    (P.payload[:4].length, "payload[:4].length"),
    (P.payload[1] + P.payload[H.a], "payload[1] + payload[header.a]"),
    (P.v.header.a == 1, "v.header.a == 1"),
    (P.cur_state == OPEN, "cur_state == OPEN"),
    (P.psm.again, "psm.again"),
    (P.below.src, "below.src"),
    (P.header_contain(extra), "header_contain(extra)"),
    (internet_checksum(P.unit[:4], H.a, 6), "internet_checksum(unit[:4], header.a, 6)"),
    (crc32c(P.unit, blank=(8, 12)), "crc32c(unit, blank=(8, 12))"),
    (P.event.gap.length, "event.gap.length"),
    (one_of(H.a, 1, 2), "(header.a == 1) | (header.a == 2)"),
    (first.m << 3, "m << 3"),
    (lang.Gathered("vlan", NOWHERE), "every vlan below"),
]


@pytest.mark.parametrize(("expression", "text"), EXPRESSIONS, ids=[text for _, text in EXPRESSIONS])
def test_expressions(expression: Any, text: str) -> None:
    assert words(expression, P) == text


def test_every_kind_of_expression_is_among_them() -> None:
    def inside(expression: lang.Expression) -> set[type]:
        return {type(expression)}.union(*(inside(child) for child in lang.children(expression)))

    seen: set[type] = set().union(*(inside(expression) for expression, _ in EXPRESSIONS))
    replaced = {Offered}  # each step has its layer's own value in its place
    assert {*lang.Expression.__subclasses__(), Field} - replaced == seen


def test_another_parsers_names_stand_with_its_name() -> None:
    other = Connectionless("q")
    assert words(H.a + P.payload_len, other) == "p.header.a + p.payload_len"


def test_actions() -> None:
    action = If(H.a == 1) >> (Assign(P.perm.count, P.perm.count + 1) + Callback(told)) >> Else() >> Assemble()
    assert action_words(action, P) == (
        "If(header.a == 1) >> (Assign(perm.count, perm.count + 1) + Callback(told)) >> Else() >> Assemble()"
    )
    assert action_words(Assign(told.value, H.a) + swap_sides(), P) == "Assign(told.value, header.a) + swap_sides()"


def test_headers() -> None:
    tail = AnyUntil([option, extra], P.cursor < 20, end=H.a)
    assert header_words(first + (If(first.m > 0) >> extra >> Else() >> told) + tail, P) == [
        "first: a 16, b 16 little, n 4 =3, m 4",
        "if m > 0",
        "  extra: rest (m << 3)",
        "else",
        "  told: value 16",
        "any of the following while cursor < 20, up to header.a",
        "  option: kind 8 =2, value 8",
        "  extra: rest (m << 3)",
    ]


def test_sequence_and_message() -> None:
    low = parser()
    low.seq = If(low.header.a > 0) >> Sequence(
        meta=low.perm.number,
        data=low.payload,
        zero_based=False,
        window=(low.perm.number, low.perm.number + 100),
        enforce=False,
        history=64,
        policy="last",
    )
    high = Connectionless("high")
    high.header = told
    high.message = Length(high.header.value, limit=300, resync=high.header.value > 2)
    stack = Stack("s")
    stack.low, stack.high = low, high
    stack += (stack.low >> stack.high) + Pred(1)
    text = " ".join(text_of(describe(stack)).split())
    assert (
        "sequence payload at perm.number; wrapping; window [perm.number, perm.number + 100) not enforced; policy last; "
        "holds 1,048,576 bytes, 1,024 pieces, 1,024 records; keeps the last 64 bytes only if header.a > 0" in text
    )
    assert "message header.value bytes, at most 300; the next begins where header.value > 2" in text
    assert "perm count 32 from 7, number 32 serial" in text
