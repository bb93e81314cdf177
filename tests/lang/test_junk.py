"""Whatever stands where something else belongs, the answer is a DescriptionError at the user's line or a program."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from sluice.lang import (
    PSM,
    AnyUntil,
    Assemble,
    Assign,
    Bit,
    Callback,
    DescriptionError,
    Else,
    If,
    Length,
    Pred,
    PSMState,
    Sequence,
    Stack,
    internet_checksum,
    make_psm_state,
    one_of,
    swap_sides,
)
from sluice.lang.parser import SETTINGS
from sluice.lower.build import build
from tests.lang.refusal import above, alone, keyed, memory, paired, plain, small, wide


def offering() -> Any:
    p = plain()
    p.offer(kind=p.header.kind)
    return p


JUNK: dict[str, Callable[[], Any]] = {
    "nothing": lambda: None,
    "flag": lambda: True,
    "zero": lambda: 0,
    "negative": lambda: -1,
    "huge": lambda: 1 << 70,
    "float": lambda: 0.5,
    "not a number": lambda: float("nan"),
    "text": lambda: "x",
    "bytes": lambda: b"x",
    "empty list": lambda: [],
    "list": lambda: [1, 2],
    "pair": lambda: (1, 2),
    "dict": lambda: {"a": 1},
    "class": lambda: int,
    "function": lambda: plain,
    "object": lambda: object(),
    "layout": lambda: small,
    "layouts": lambda: small + wide,
    "bare field": lambda: Bit(8),
    "field of a layout": lambda: wide.address,
    "number": lambda: paired().header.kind,
    "slice": lambda: paired().payload[:4],
    "fields": lambda: paired().perm,
    "below": lambda: paired().below.src,
    "virtual": lambda: paired().v.header.kind,
    "action": lambda: Assign(paired().temp.count, 1),
    "assemble": lambda: Assemble(),
    "callback": lambda: Callback(memory),
    "swap": lambda: swap_sides(),
    "if": lambda: If(1),
    "else": lambda: Else(),
    "hanging": lambda: If(1) >> Assemble() >> Else(),
    "choice of layouts": lambda: If(1) >> small,
    "choice of lists": lambda: If(1) >> [paired().header.src],
    "choice of bytes": lambda: If(1) >> paired().payload >> Else() >> paired().unit,
    "list of options": lambda: AnyUntil([small], 1),
    "sequence": lambda: Sequence(meta=paired().header.seq, data=paired().payload),
    "length": lambda: Length(paired().header.size),
    "state": lambda: PSMState(start=True),
    "machine": lambda: PSM(PSMState(start=True), PSMState()),
    "transition": lambda: (PSMState(start=True) >> PSMState()) + Pred(1),
    "pred": lambda: Pred(1),
    "parser": lambda: paired(),
    "stack": lambda: alone(plain()),
    "layer": lambda: alone(plain()).only,
    "any of layers": lambda: alone(plain()).only | alone(keyed()).only,
    "offered": lambda: (alone(offering()).only | alone(offering()).only).offers.kind,
    "chain": lambda: plain() >> keyed(),
    "event": lambda: paired().event.created,
}
"""Things of all kinds, new ones each time."""


def built(make: Callable[[], object]) -> None:
    """Make something, and a program of it when it is a parser."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = make()
            if isinstance(made, Stack):
                build(made)
        except DescriptionError as error:
            assert error.where.file == __file__ and error.what and error.advice


def everything(make: Callable[[Any], object]) -> None:
    """Make something of each of JUNK."""
    for name, thing in JUNK.items():
        try:
            built(lambda thing=thing: make(thing()))
        except Exception as error:
            error.add_note(f"with: {name}")
            raise


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("parser", [plain, keyed, paired], ids=["plain", "keyed", "paired"])
def test_settings(setting: str, parser: Callable[[], Any]) -> None:
    def make(x: Any) -> object:
        p = parser()
        setattr(p, setting, x)
        return above(p)

    everything(make)


MAKERS: dict[str, Callable[[Any], object]] = {
    "Bit": lambda x: Bit(x),
    "const": lambda x: Bit(8, const=x),
    "init": lambda x: Bit(8, init=x),
    "order": lambda x: Bit(8, order=x),
    "AnyUntil": lambda x: AnyUntil(x, 1),
    "AnyUntil of": lambda x: AnyUntil([x], 1),
    "until": lambda x: AnyUntil([small], x),
    "end": lambda x: AnyUntil([small], 1, end=x),
    "If": lambda x: If(x),
    "body": lambda x: If(1) >> x,
    "otherwise": lambda x: If(1) >> Assemble() >> Else() >> x,
    "Pred": lambda x: Pred(x),
    "Assign to": lambda x: Assign(x, 1),
    "Assign": lambda x: Assign(keyed().temp.count, x),
    "Callback": lambda x: Callback(x),
    "one_of": lambda x: one_of(x, 1),
    "one_of it": lambda x: one_of(keyed().header.kind, x),
    "checksum": lambda x: internet_checksum(x),
    "checksum over": lambda x: internet_checksum(keyed().unit, x),
    "Length": lambda x: Length(x),
    "limit": lambda x: Length(1, limit=x),
    "resync": lambda x: Length(1, resync=x),
    "PSM": lambda x: PSM(x),
    "PSMState": lambda x: PSMState(start=x),
    "make_psm_state": lambda x: make_psm_state(x),
    "transition": lambda x: PSMState() >> x,
    "transition with": lambda x: (PSMState() >> PSMState()) + x,
    "Stack": lambda x: Stack(x),
    "depth": lambda x: Stack("s", depth=x),
    "layer": lambda x: setattr(Stack("s"), "low", x),
    "or": lambda x: alone(plain()).only | x,
    "step from any": lambda x: (alone(plain()).only | alone(plain()).only) >> x,
    "chain": lambda x: plain() >> x,
    "step": lambda x: alone(plain()).only >> x,
    "step with": lambda x: (alone(plain()).only >> alone(plain()).only) + x,
    "stack": lambda x: Stack("s").__iadd__(x),
    "compare": lambda x: keyed().header.kind == x,
    "add": lambda x: keyed().header.kind + x,
    "slice": lambda x: keyed().payload[:x],
    "index": lambda x: keyed().payload[x],
    "name": lambda x: plain().__class__(x),
    "link types": lambda x: plain().__class__("p", link_types=x),
    "header": lambda x: small + x,
    "actions": lambda x: Assemble() + x,
    "contain": lambda x: keyed().header_contain(x),
    "relation": lambda x: keyed().event_relation.__iadd__(x),
    "happens with": lambda x: keyed().event.created >> x,
}
for _name in ("meta", "data", "data_len", "zero_based", "window", "enforce", "start", "skip", "policy", "limit"):
    MAKERS[_name] = lambda x, key=_name: Sequence(
        **{"meta": keyed().header.seq, "data": keyed().payload, "zero_based": key == "zero_based", key: x}
    )
for _name in ("limit_pieces", "limit_records", "history", "whole", "overwrite_rexmit"):
    MAKERS[_name] = lambda x, key=_name: Sequence(keyed().header.seq, keyed().payload, **{key: x})


@pytest.mark.parametrize("maker", MAKERS)
def test_constructors(maker: str) -> None:
    everything(MAKERS[maker])


@pytest.mark.parametrize("where", ["event", "transition", "offer", "require", "reason", "setting of it", "step"])
def test_what_is_given_to_a_parser(where: str) -> None:
    def make(x: Any) -> object:
        p = paired()
        if where == "event":
            p.event.e = x
        elif where == "transition":
            p.psm = PSM(PSMState(start=True))
            p.psm.go = x
        elif where == "offer":
            p.offer(a=x)
        elif where == "require":
            p.require(x, "reason")
        elif where == "reason":
            p.require(1, x)
        elif where == "setting of it":
            A = PSMState(start=True)
            p.psm = PSM(A)
            p.psm.go = (A >> A) + Pred(1)
            p.psm.go.timeout = x
        else:
            s = above(p)
            s += (s.upper >> s.upper) + Pred(x)
            return s
        return above(p)

    everything(make)
