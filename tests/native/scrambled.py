"""A stack with a module in C: sessions whose payload is scrambled, and a layer above that tells the key."""

from __future__ import annotations

from typing import Any

from sluice.lang import Assign, Bit, Callback, Connectionless, Else, If, Native, Pred, Stack, UInt, layout

scramble = Native("scramble.c", option="extra")
unscramble = scramble.function("unscramble", reasons=["asked to", "cut short"], limit=16)
tell_key = scramble.function("tell_key", reasons=["no session"])


class session_hdr(layout):
    id = UInt(8)
    command = UInt(8)


class given(layout):
    packets = UInt(8)
    calls = UInt(32)


class told(layout):
    packets = UInt(64)
    refused = UInt(8)
    sdu = Bit(999)


class key_hdr(layout):
    kind = UInt(8)
    key = UInt(8)


def scrambled(stored: bool = True) -> Stack:
    """Command 7 is not scrambled, 1 is refused; ids of 200 and more are not stored, where any is."""
    p: Any = Connectionless("session")
    p.header = session_hdr
    p.temp = given
    if stored:
        p.selector = If(p.header.id < 200) >> [p.header.id]
        p.timeout = 10
        p.offer(session=p.instance)
    else:
        p.offer(session=p.header.id)
    p.sdu = (
        If(p.header.command == 7)
        >> p.payload
        >> Else()
        >> unscramble(p.header.command, p.payload, into=[p.temp.packets, p.temp.calls])
    )
    p.event.told = (
        Assign(told.packets, p.temp.packets)
        + Assign(told.refused, p.refused)
        + Assign(told.sdu, p.sdu)
        + Callback(told)
    )
    k: Any = Connectionless("key")
    k.header = key_hdr
    k.event.tell = If(k.header.kind == ord("k")) >> tell_key(k.header.key, context=k.below.session)
    stack = Stack("scrambled")
    stack.session, stack.key = p, k
    stack += (stack.session >> stack.key) + Pred(p.sdu.length > 0)
    return stack
