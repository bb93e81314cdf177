"""Stacks made at random: everything of the language that changes what a program does, in small."""

# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false
from __future__ import annotations

import itertools
import random
from typing import Any

from sluice.lang import (
    PSM,
    AddAlias,
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
    Native,
    Pred,
    PSMState,
    Sequence,
    Stack,
    Varint,
    layout,
    swap_sides,
)
from sluice.lang.events import BUILT_IN
from sluice.lang.expression import NUMBER, Property
from sluice.lang.sequence import POLICIES
from sluice.lower.scope import nested
from tests.differential.sides import all_fields, of_both_sides, sided


class head(layout):
    one = Bit(8)
    other = Bit(8)
    number = Bit(8, serial=True)
    flag_a = Bit(1)
    flag_b = Bit(1)
    flag_c = Bit(1)
    kind = Bit(5)


class short_option(layout):
    short_type = Bit(8, const=1)


class long_option(layout):
    long_type = Bit(8, const=2)
    long_len = Bit(8)
    long_value = Bit((long_len & 7) << 3)


class odd_option(layout):
    odd_option = Bit(8)


class odd(layout):
    odd_high = Bit(3)
    odd_middle = Bit(10)
    odd_low = Bit(11)
    odd_little = Bit(16, order="little")


class compact(layout):
    first_varint = Varint()
    between = Bit(8)
    second_varint = Varint()
    varint_data = Bit((second_varint & 3) << 3)


class compact_option(layout):
    option_kind = Bit(8)
    option_varint = Varint()


class scratch(layout):
    x = Bit(16)
    y = Bit(32, init=7)
    low = Bit(8, serial=True)
    near = Bit(16, serial=True)
    far = Bit(32, serial=True)
    given = Bit(8)
    calls = Bit(32)


class kept(layout):
    n = Bit(8)
    m = Bit(32, init=3)
    last = Bit(8, serial=True)


class told(layout):
    what = Bit(32)
    bytes = Bit(999)


MODULE = Native("../native/scramble.c")
UNSCRAMBLE = MODULE.function("unscramble", reasons=["asked to", "cut short"], limit=6)
TELL_KEY = MODULE.function("tell_key", reasons=["no session"])

OPTION = "odd"
"""An option that some requirements belong to."""


def expression(rnd: random.Random, p: Any, kept_too: bool, depth: int = 2) -> Any:
    """A number made of what a layer knows."""
    leaves = [
        p.header.one,
        p.header.number,
        p.header.kind,
        p.payload_len,
        p.cursor,
        p.temp.x,
        p.temp.y,
        rnd.randrange(300),
    ]
    if "first_varint" in p.prototype.header_fields():
        leaves += [p.header.first_varint, p.header.second_varint]
    if kept_too:
        leaves += [p.perm.n, p.perm.m, p.perm.last, p.created + 0, p.instance]
    if depth == 0 or rnd.random() < 0.3:
        return rnd.choice(leaves)
    left, right = (expression(rnd, p, kept_too, depth - 1) for _ in range(2))
    if isinstance(left, int):
        left = p.header.one + left
    match rnd.randrange(9):
        case 0:
            return left + right
        case 1:
            return left - right
        case 2:
            return left * right
        case 3:
            return left << (rnd.randrange(70) if rnd.random() < 0.5 else right)
        case 4:
            return left >> (rnd.randrange(9) if rnd.random() < 0.5 else right)
        case 5:
            return left & right
        case 6:
            return left | right
        case 7:
            return ~left
        case _:
            return left // right if rnd.random() < 0.5 else left % right


def condition(rnd: random.Random, p: Any, kept_too: bool = False, header: bool = False) -> Any:
    """A bit that holds now and then; `header`: made of fields of the header alone."""
    match rnd.randrange(4 if header else 6):
        case 0:
            return p.header.flag_a == 1
        case 1:
            return ~p.header.flag_b
        case 2:
            return (p.header.kind & 3) == rnd.randrange(4)
        case 3:
            return (p.header.flag_a == 0) | (p.header.flag_c == 1)
        case 4:
            return expression(rnd, p, kept_too, 1) < expression(rnd, p, kept_too, 1) + 1
        case _:
            return (expression(rnd, p, kept_too) + 0) % 3 == rnd.randrange(3)


def parser(rnd: random.Random, name: str, asks: bool, messages: str = "") -> Any:
    """A parser with a bit of everything; `asks`: it asks the one below it for what all offer; `messages`: its packets
    are messages of a "stream" or a "packet" there.
    """
    p: Any = (ConnectionOriented if rnd.random() < 0.6 else Connectionless)(name)
    p.header = head
    if rnd.random() < 0.4:
        p.header += If(p.header.flag_c == 1) >> odd
    if rnd.random() < 0.3:
        p.header += compact if rnd.random() < 0.5 else If(p.header.flag_b == 1) >> compact
    if rnd.random() < 0.4:
        long = long_option + (If(long_option.long_len & 8) >> odd_option) if rnd.random() < 0.5 else long_option
        options = [short_option, long, *([compact_option] if rnd.random() < 0.3 else [])]
        if rnd.random() < 0.5:
            most = (p.header.kind & 3) if rnd.random() < 0.3 else None
            p.header += AnyUntil(options, p.payload_len > rnd.randrange(4), count=most)
        else:
            p.header += AnyUntil(options, p.cursor < 9, end=p.cursor + (p.header.kind & 7))
    if rnd.random() < 0.3:
        p.require(p.header.kind != 31, "kind")
    if rnd.random() < 0.3:
        p.require(condition(rnd, p, header=True), "option", option=OPTION)
    if messages:
        length = (p.header.kind & rnd.choice([3, 15])) + rnd.randrange(8)
        if messages == "packet" and rnd.random() < 0.5:
            length = p.cursor + (length & p.payload_len)
        resync = condition(rnd, p, header=True) if messages == "stream" and rnd.random() < 0.6 else None
        p.message = Length(length, limit=rnd.choice([5, 12, 40]), resync=resync)
    p.temp = scratch
    instances = rnd.random() < 0.85
    p.prep = Assign(p.temp.x, expression(rnd, p, False)) + (
        If(condition(rnd, p))
        >> Assign(p.temp.y, expression(rnd, p, False))
        >> Else()
        >> Assign(p.temp.low, p.header.number)
    )
    if rnd.random() < 0.2:
        call = UNSCRAMBLE(p.header.kind & 3, p.payload, into=[p.temp.given, p.temp.calls])
        p.sdu = call if rnd.random() < 0.5 else If(condition(rnd, p)) >> call >> Else() >> p.payload
        if rnd.random() < 0.5:
            p.event.refusal = If(p.refused > 0) >> (Assign(told.what, p.refused + p.temp.given) + Callback(told))
    if asks and rnd.random() < 0.3:
        p.event.tell = TELL_KEY(p.header.one, context=p.below.how)
    if not instances:
        if rnd.random() < 0.5 and p.sdu_choice is None:
            p.sdu = p.payload[: p.temp.x & 15]
        p.offer(who=p.header.one, how=p.header.kind, where=p.temp.x)
        return p
    sides = p.oriented and rnd.random() < 0.4
    p.perm = sided if sides else kept
    selector = (
        ([p.header.one, p.header.kind & 1], [p.header.other, p.header.kind & 1]) if p.oriented else [p.header.one]
    )
    how = rnd.choice([p.perm.n, p.instance])
    p.offer(who=p.header.one, how=how, where=p.to_active if p.oriented else p.temp.x)
    if asks and rnd.random() < 0.5:
        for part in selector if p.oriented else [selector]:
            part.append(p.below.who)
    if asks and rnd.random() < 0.3:
        for part in selector if p.oriented else [selector]:
            part.append(p.below.how)
    if rnd.random() < 0.2:
        for part in selector if p.oriented else [selector]:
            part.append(p.way)
    p.selector = If((p.header.kind & 3) != rnd.randrange(4)) >> selector if rnd.random() < 0.3 else selector
    if rnd.random() < 0.3:
        add_alias(rnd, p)
    if p.creating is None and rnd.random() < 0.15:
        p.creates = condition(rnd, p, header=True)
    p.prep += Assign(p.perm.n, p.perm.n + 1) + (
        If(condition(rnd, p, True)) >> Assign(p.perm.m, expression(rnd, p, True))
    )
    if sides:
        add_sides(rnd, p)
    if p.oriented and rnd.random() < 0.3:
        p.prep += If(p.created & p.header.flag_a) >> swap_sides()
    if rnd.random() < 0.2:
        p.require(condition(rnd, p, True) | condition(rnd, p, True), "chance")
    if rnd.random() < 0.5:
        p.timeout = rnd.choice([0.5, 2.0, 30.0])
    if rnd.random() < 0.2:
        p.max_instances = rnd.randrange(1, 20)
    sequenced = rnd.random() < 0.85
    if sequenced:
        add_sequence(rnd, p)
    if rnd.random() < 0.9:
        add_machine(rnd, p, sequenced)
    add_related(rnd, p, sequenced)
    if asks:
        p.event.asked = Assign(told.what, (p.below.how << 16) | p.below.where) + Callback(told)
    return p


def add_related(rnd: random.Random, p: Any, sequenced: bool) -> None:
    """User's events that happen with built-in ones of every kind, and use what these bring along."""
    possible = {"malformed", "created", "sent", "packet", "end", "dropped"}
    possible |= {"gap", "rexmit"} if sequenced else set()
    possible |= {"out_of_wnd"} if sequenced and p.sequence.window is not None else set()
    possible |= {"state"} if p.machine is not None else set()
    possible |= {"data"} if "asm" in p.event.defined else set()
    possible |= {"orphan"} if p.creating is not None else set()
    possible |= {"lost"} if p.framing is not None else set()
    for name in sorted(possible):
        if rnd.random() < 0.7:
            continue
        happens = getattr(p.event, name)
        what: Any = p.unit.length if name in ("malformed", "dropped") else 0 if name == "lost" else p.perm.n
        for value, kind in BUILT_IN[name].items():
            if kind == NUMBER and (name, value) != ("state", "before") and (name, value) != ("state", "after"):
                what = what + getattr(happens, value)
        setattr(p.event, f"with_{name}", Assign(told.what, what) + Callback(told))
        p.event_relation += happens >> getattr(p.event, f"with_{name}")


def add_sides(rnd: random.Random, p: Any) -> None:
    """Fields of either side, updates by packets, and an event with their values."""
    for _ in range(rnd.randrange(1, 4)):
        p.prep += of_both_sides(rnd, p)
        if rnd.random() < 0.3:
            p.prep += Assign(p.perm.m, p.perm.m + p.perm.active_wide)
    p.event.sides = Assign(told.what, all_fields(p)) + Callback(told)


def add_alias(rnd: random.Random, p: Any) -> None:
    """Further keys, one or two tried in turn, given for some packets, so that others come to their instance."""
    alias: Any = [p.header.other, p.header.kind & 1]
    values = [p.header.number, p.header.kind & 1]
    by_selector = rnd.random() < 0.5
    if by_selector:  # what the selector does not have, so that a packet may be known by the one and not the other
        alias, values = [p.header.number & 7], [p.header.other]
        p.creates = (p.header.kind & 7) == rnd.randrange(8)  # else soon every key has an instance
    lists = [alias]
    if rnd.random() < 0.3:
        lists.append([p.header.one & 7] if by_selector else [p.header.number, p.header.kind & 1])
    if by_selector:
        lists.append(p.selector)
    keys = tuple(lists) if len(lists) > 1 else alias
    p.alias = If(condition(rnd, p, header=True)) >> keys if rnd.random() < 0.5 else keys
    p.prep += If(condition(rnd, p)) >> AddAlias(p, values, to_sender=p.oriented and rnd.random() < 0.5)
    if by_selector:
        known = If(condition(rnd, p, True)) >> AddAlias(p, p.selector)
        if rnd.random() < 0.5:
            p.prep += known
        else:
            p.event.known = known


def add_sequence(rnd: random.Random, p: Any) -> None:
    """A sequence with some of its settings."""
    linear = rnd.random() < 0.4
    settings: dict[str, Any] = {"zero_based": linear, "policy": rnd.choice(POLICIES)}
    meta = p.header.number
    if rnd.random() < 0.4:
        meta = p.temp.near if rnd.random() < 0.5 else p.temp.far
        p.prep += Assign(meta, p.header.number + (0 if linear else -250))  # wraps after the header's 250
    if rnd.random() < 0.5:
        settings["data_len"] = p.payload_len + (p.header.flag_a & 1)
    if rnd.random() < 0.3:
        low = p.temp.low if not linear else p.temp.low + 0
        settings |= {"window": (low, low + rnd.randrange(200)), "enforce": rnd.random() < 0.5}
    if not linear and rnd.random() < 0.4:
        settings["start"] = p.header.flag_c == 1
    if not linear and rnd.random() < 0.5:
        add_receiver(rnd, p, settings)
    if rnd.random() < 0.5:
        settings |= {
            "limit": rnd.randrange(1, 40),
            "limit_pieces": rnd.randrange(1, 6),
            "limit_records": rnd.randrange(1, 6),
        }
    if rnd.random() < 0.4:
        settings["history"] = rnd.randrange(1, 30)
    if linear and rnd.random() < 0.3:
        settings["whole"] = True
    elif not settings.keys() & {"base", "acknowledged", "acknowledges", "decides"} and rnd.random() < 0.3:
        settings = {name: setting for name, setting in settings.items() if name not in ("policy", "history")}
        settings |= {"units": True, "head": rnd.choice([0, 3, p.perm.n & 7])}
        if rnd.random() < 0.5:
            settings["skip"] = (p.header.flag_b == 1) & (p.header.kind < 4)
    data = p.unit if "units" in settings and rnd.random() < 0.5 else p.payload
    sequence = Sequence(meta=meta, data=data[: rnd.choice([5, 100])], **settings)
    p.seq = If(condition(rnd, p)) >> sequence if rnd.random() < 0.3 else sequence
    if rnd.random() < 0.1 and not sequence.units:
        p.buffer_data = False


def add_receiver(rnd: random.Random, p: Any, settings: dict[str, Any]) -> None:
    """What packets say of what the receiver has, and of where the stream begins."""
    low = p.header.number
    settings["grace"] = rnd.choice([0, 0.05, 1.0])
    if rnd.random() < 0.5:
        settings["outside"] = (p.header.kind & 7) == rnd.randrange(8)
    if rnd.random() < 0.5:
        settings |= {"start": p.header.flag_b, "base": low - rnd.randrange(20)}
    if rnd.random() < 0.5:
        settings["acknowledged"] = (p.header.flag_a, low - rnd.randrange(9), low + rnd.randrange(60))
    if p.oriented and rnd.random() < 0.7:
        settings["acknowledges"] = (p.header.flag_c, p.header.number + 3, p.header.number + rnd.randrange(4, 90))
    if p.oriented and rnd.random() < 0.5:
        settings["decides"] = ((p.header.kind & 7) == rnd.randrange(8), p.header.number + rnd.randrange(30))


def add_machine(rnd: random.Random, p: Any, sequenced: bool) -> None:
    """States, transitions with and without v, restart, events."""
    states = [PSMState(start=True), PSMState(), PSMState(accept=rnd.random() < 0.7), PSMState(closed=True)]
    p.psm = PSM(*states)
    names: list[str] = []
    for number in range(rnd.randrange(2, 8)):
        source, target = rnd.choice([s for s in states if not s.accept]), rnd.choice(states)
        if sequenced and rnd.random() < 0.5:
            wanted = (p.v.header.flag_a == 1) & (p.v.header.kind != rnd.randrange(8))
        else:
            wanted = condition(rnd, p, True)
        setattr(p.psm, f"t{number}", (source >> target) + Pred(wanted))
        names.append(f"t{number}")
        if rnd.random() < 0.2:
            getattr(p.psm, f"t{number}").timeout = rnd.choice([0.1, 5.0])
    if rnd.random() < 0.3:
        p.psm.again = (rnd.choice(states) >> states[0]) + Pred((p.header.flag_a & p.header.flag_b) == 1)
        p.psm.again.restart = True
    if sequenced and rnd.random() < 0.9:
        wanted = condition(rnd, p) if rnd.random() < 0.4 else getattr(p.psm, rnd.choice(names)) | (p.header.flag_b == 0)
        p.event.asm = If(wanted) >> Assemble() if rnd.random() < 0.7 else Assemble()
        if rnd.random() < 0.5:
            p.event.sdu = Assign(told.what, p.cur_state) + Assign(told.bytes, p.sdu) + Callback(told)
            p.event_relation += p.event.asm >> p.event.sdu
    if rnd.random() < 0.6:
        wanted = (p.v.header.flag_b == 1) if sequenced and rnd.random() < 0.5 else getattr(p.psm, rnd.choice(names))
        p.event.note = If(wanted) >> (Assign(told.what, p.perm.m + p.temp.x) + Callback(told))
        if "asm" in p.event.defined and rnd.random() < 0.5:
            p.event_relation += p.event.note, p.event.asm
    if rnd.random() < 0.3:
        p.event.over = Assign(told.what, p.event.end.reason + p.perm.n) + Callback(told)
        p.event_relation += p.event.end >> p.event.over


def bookkeeper(rnd: random.Random, name: str) -> Any:
    """A parser that only updates its state, sometimes with more operands than a pending packet can carry."""
    p: Any = (ConnectionOriented if rnd.random() < 0.6 else Connectionless)(name)
    p.header = head
    if rnd.random() < 0.4:
        p.header += If(p.header.flag_c == 1) >> odd
    if rnd.random() < 0.4:
        p.require(p.header.kind != 31, "kind")
    p.temp, p.perm = scratch, kept
    selector = [p.header.one, p.header.kind & 1], [p.header.other, p.header.kind & 1]
    p.selector = selector if p.oriented else [p.header.one & rnd.choice([1, 7, 255])]
    p.offer(who=p.header.one, how=p.perm.n if rnd.random() < 0.1 else p.header.kind, where=p.header.other)
    p.prep = Assign(p.temp.x, expression(rnd, p, False))
    if rnd.random() < 0.7:
        p.prep += Assign(p.perm.n, p.perm.n + 1)
    if rnd.random() < 0.5:
        p.prep += If(condition(rnd, p, True)) >> Assign(p.perm.m, expression(rnd, p, True))
    if p.oriented and rnd.random() < 0.3:
        p.prep += If(p.created & p.header.flag_a) >> swap_sides()
    if rnd.random() < 0.1:
        p.require(condition(rnd, p, True), "chance")
    if rnd.random() < 0.2:
        p.creates = condition(rnd, p, header=True)
    if rnd.random() < 0.7:
        p.timeout = rnd.choice([0.5, 2.0, 30.0])
    if rnd.random() < 0.3:
        p.max_instances = rnd.randrange(1, 20)
    if rnd.random() < 0.5:
        p.sdu = p.payload[: p.temp.x & 15]
    if rnd.random() < 0.3:
        states = [PSMState(start=True), PSMState(accept=rnd.random() < 0.7), PSMState(closed=True)]
        p.psm = PSM(*states)
        for number in range(rnd.randrange(1, 4)):
            source, target = rnd.choice([s for s in states if not s.accept]), rnd.choice(states)
            setattr(p.psm, f"t{number}", (source >> target) + Pred(condition(rnd, p, True)))
            if rnd.random() < 0.3:
                getattr(p.psm, f"t{number}").timeout = rnd.choice([0.1, 5.0])
    return p


def tunnel(rnd: random.Random) -> Stack:
    """A layer that only updates its state, some stateless layers around it, and one above."""
    made = Stack("tunnel", depth=rnd.choice([4, 6]))
    names = ["b", "between", "c"] if rnd.random() < 0.8 else ["b", "c"]
    if rnd.random() < 0.5:
        names.insert(0, "a")
    for name in names:
        match name:
            case "b":
                p = bookkeeper(rnd, name)
            case "c":
                p = parser(rnd, name, rnd.random() < 0.5)
            case _:
                p = Connectionless(name)
                p.header = head
                p.offer(who=p.header.one, how=p.header.kind, where=p.header.other)
        setattr(made, name, p)
    for lower, upper in itertools.pairwise(names):
        below = getattr(made, lower)
        made += (below >> getattr(made, upper)) + Pred((below.header.kind & 7) != 7 if rnd.random() < 0.7 else 1)
    if "a" in names and rnd.random() < 0.3:  # of one parser, so that instances of both lie in one table
        made.d = made.b.prototype
        made += (made.a >> made.d) + Pred((made.a.header.kind & 7) == 7)
        made += (made.d >> getattr(made, names[names.index("b") + 1])) + Pred(1)
    if "a" in names and rnd.random() < 0.1:
        made += (made.c >> made.b) + Pred(made.c.header.flag_c == 1)
    return made


def has_stream(p: Any) -> bool:
    """Whether messages above it are cut from a stream."""
    return p.sequence is not None and not p.sequence.units and not p.sequence.whole


def fits(below: Any, above: Any) -> bool:
    """Whether a layer may lie above another, also where it takes messages from others."""
    if above.framing is None:
        return True
    if not has_stream(below):
        return above.framing.resync is None
    return not any(isinstance(item, Property) and item.name == "payload_len" for item in nested(above.framing.length))


def stack(rnd: random.Random) -> Stack:
    """One to three layers, perhaps of one parser, perhaps in a loop, perhaps with a second one where packets begin."""
    made = Stack("random", depth=rnd.choice([3, 6]))
    names = ["a", "b", "c"][: rnd.randrange(1, 4)]
    asking: set[str] = set()
    for number, name in enumerate(names):
        below = getattr(made, names[number - 1]).prototype if number else None
        source = "" if below is None else "stream" if has_stream(below) else "packet"
        if below is not None and rnd.random() < 0.2 and fits(below, below):
            setattr(made, name, below)
            continue
        if number and rnd.random() < 0.6:
            asking.add(name)
        setattr(made, name, parser(rnd, name, name in asking, source if rnd.random() < 0.4 else ""))
    for lower, upper in itertools.pairwise(names):
        below = getattr(made, lower)
        made += (below >> getattr(made, upper)) + Pred(_way(rnd, below) if rnd.random() < 0.5 else 1)
    if len(names) == 3 and rnd.random() < 0.4:
        below, other = made.a, made.c
        if fits(below.prototype, other.prototype):
            made += (below >> other) + Pred(_way(rnd, below))
    if rnd.random() < 0.4:
        last, back = getattr(made, names[-1]), getattr(made, rnd.choice(names[1:] or names))
        if fits(last.prototype, back.prototype):
            made += (last >> back) + Pred(last.header.flag_c == 1)
    if rnd.random() < 0.3:
        made.join(*rnd.choice([("who",), ("where", "who")]))
    if rnd.random() < 0.5:
        _name_link_types(rnd, [getattr(made, name).prototype for name in names], asking)
    return made


def _way(rnd: random.Random, below: Any) -> Any:
    """Which packets go to a layer above: often those of one side."""
    if below.prototype.oriented and below.prototype.keys is not None and rnd.random() < 0.5:
        return below.to_passive == rnd.randrange(2)
    return condition(rnd, below)


def _name_link_types(rnd: random.Random, parsers: list[Any], asking: set[str]) -> None:
    """Packets of one link type begin at the first layer; those of another at one that asks nothing of below."""
    if parsers.count(parsers[0]) > 1:
        return
    parsers[0].link_types = (1,)
    others = [p for p in parsers[1:] if parsers.count(p) == 1 and p.framing is None and p.name not in asking]
    if others and rnd.random() < 0.8:
        rnd.choice(others).link_types = (7, 9)
