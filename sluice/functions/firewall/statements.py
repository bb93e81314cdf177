"""The rules of a chain: matches, and statements that count, limit, log and decide."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sluice.functions.detect.errors import RuleError
from sluice.functions.firewall.model import Bits, Counter, Limit, Log, Match, Rule, Step, Verdict
from sluice.functions.firewall.names import FIELDS, REJECTIONS, REJECTIONS_BOTH, SUBJECTS, Field
from sluice.functions.firewall.tokens import END
from sluice.functions.firewall.values import Cursor, Names, one, refuse, values

VERDICTS = ("accept", "drop", "return", "continue", "jump", "goto")
_REFUSED = {
    "dnat": "addresses are not translated: use the function nat",
    "snat": "addresses are not translated: use the function nat",
    "masquerade": "addresses are not translated: use the function nat",
    "redirect": "addresses are not translated: use the function nat",
    "queue": "there is no queue to another program: write a function, and put it into a chain",
    "notrack": "connections are tracked by the stack, all of them",
    "iif": "the box has no interfaces by name: compare addresses",
    "oif": "the box has no interfaces by name: compare addresses",
    "iifname": "the box has no interfaces by name: compare addresses",
    "oifname": "the box has no interfaces by name: compare addresses",
    "synproxy": "use the function synflood",
}
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
_BYTES = {"bytes": 1, "kbytes": 1 << 10, "mbytes": 1 << 20}
RATE_MOST = 1 << 40


def rules(cursor: Cursor, names: Names, counters: set[str]) -> Iterator[Rule]:
    """The rules of one statement: one, or, for a verdict map, one for each of its elements."""
    place = cursor.place
    steps: list[Step] = []
    while not cursor.is_(END, "}") and not cursor.done:
        token = cursor.token
        if token.string:
            raise RuleError(token.place, f'"{token.text}"', "a string does not follow what stands before it")
        if steps and isinstance(steps[-1], Verdict) and token.text != "comment":
            raise RuleError(token.place, f"'{token.text}'", "nothing follows a verdict")
        if token.text in SUBJECTS:
            subject = _field(cursor)
            if cursor.is_("vmap"):
                yield from _map(cursor, names, subject, steps)
                return
            steps += _match(cursor, names, subject)
        else:
            steps += _statement(cursor, counters)
    if not steps:
        raise RuleError(place, "rule", "it has no match and no statement")
    yield Rule(place, tuple(steps))


def _field(cursor: Cursor) -> Field:
    subject = cursor.next("a match").text
    if subject == "meta" and cursor.is_("iif", "oif", "iifname", "oifname"):
        refuse(cursor.token, _REFUSED[cursor.token.text])
    what = cursor.next(f"a field of '{subject}'")
    found = FIELDS.get((subject, what.text))
    if found is None:
        known = ", ".join(name for of, name in FIELDS if of == subject)
        raise RuleError(
            what.place, f"'{subject} {what.text}'", "this field is not compared", f"fields of {subject}: {known}"
        )
    return found


def _needs(subject: Field) -> list[Step]:
    return [Match(name, ((value, value),)) for name, value in subject.needs]


def _match(cursor: Cursor, names: Names, subject: Field) -> list[Step]:
    if subject.type.kind == "flags":
        return [*_needs(subject), _flags(cursor, subject)]
    if cursor.is_("&", "|", "^", "<<", ">>", "."):
        refuse(cursor.token, "calculations and concatenations are not read")
    top = (1 << subject.type.bits) - 1
    for sign in ("<", "<=", ">", ">="):
        if cursor.take(sign):
            ((value, last),) = one(cursor, subject.type)
            if value != last:
                raise RuleError(cursor.place, f"'{sign}'", "it compares with one value")
            low, high = {"<": (0, value - 1), "<=": (0, value), ">": (value + 1, top), ">=": (value, top)}[sign]
            return [*_needs(subject), Match(subject.name, ((low, high),) if low <= high else ())]
    negated = cursor.take("!=")
    if not negated:
        cursor.take("==")
    found = values(cursor, names, subject.type)
    while subject.type.kind == "state" and cursor.take(","):
        found = tuple(sorted({*found, *values(cursor, names, subject.type)}))
    if cursor.is_("."):
        refuse(cursor.token, "concatenations are not read: write a rule for each")
    return [*_needs(subject), Match(subject.name, found, negated)]


def _flags(cursor: Cursor, subject: Field) -> Step:
    """The flags of TCP: `syn,ack` any of them, `== syn` exactly, `syn / fin,syn` and `& (fin|syn) == syn` of some."""
    if cursor.take("&"):
        mask = _bits(cursor, subject)
        negated = cursor.take("!=")
        if not negated and not cursor.take("=="):
            return Bits("flags", mask, None)
        return Bits("flags", mask, _bits(cursor, subject), negated)
    if cursor.is_("{"):
        cursor.expect("{")
        found = [_bits(cursor, subject)]
        while cursor.take(","):
            found.append(_bits(cursor, subject))
        cursor.expect("}")
        return Match("flags", tuple((each, each) for each in sorted(set(found))))
    negated, exactly = cursor.take("!="), cursor.take("==")
    before = cursor.at
    value = _bits(cursor, subject, ",|")
    several = cursor.at > before + 1
    if cursor.take("/"):
        return Bits("flags", _bits(cursor, subject, ",|"), value, negated)
    if negated:
        return Bits("flags", value, 0) if several else Bits("flags", 255, value, True)
    return Bits("flags", 255, value) if exactly or not value else Bits("flags", value, None)


def _bits(cursor: Cursor, subject: Field, joins: str = "|") -> int:
    """Flags, joined by signs; parentheses around them."""
    if cursor.take("("):
        found = _bits(cursor, subject, ",|")
        cursor.expect(")")
        return found
    found = one(cursor, subject.type)[0][0]
    while cursor.take(*joins):
        found |= one(cursor, subject.type)[0][0]
    return found


def _map(cursor: Cursor, names: Names, subject: Field, before: list[Step]) -> Iterator[Rule]:
    """A verdict map: a rule for each of its elements, in order."""
    counts = [step for step in before if not isinstance(step, Match | Bits)]
    place = cursor.place
    if counts:
        raise RuleError(
            place, "'vmap'", "only matches stand before it", "write what counts, limits or logs as a rule before it."
        )
    cursor.expect("vmap")
    if not cursor.is_("{"):
        refuse(cursor.token, "verdict maps with a name are not read: write it where it is used")
    cursor.expect("{")
    cursor.skip_ends()
    while not cursor.take("}"):
        here = cursor.place
        key: Step
        if subject.type.kind == "flags":
            key = Bits("flags", 255, _bits(cursor, subject))
        else:
            key = Match(subject.name, values(cursor, names, subject.type))
        cursor.expect(":")
        cursor.skip_ends()
        verdict = _verdict(cursor)
        yield Rule(here, (*before, *_needs(subject), key, *verdict))
        cursor.skip_ends()
        if not cursor.take(",") and not cursor.is_("}"):
            raise RuleError(cursor.place, f"'{cursor.token.text}'", "',' or '}' is expected here")
        cursor.skip_ends()
    if cursor.take("comment"):
        cursor.next("a comment")


def _verdict(cursor: Cursor) -> list[Step]:
    token = cursor.next("a verdict")
    if token.text not in VERDICTS:
        raise RuleError(token.place, f"'{token.text}'", f"a verdict is expected here: {', '.join(VERDICTS)}")
    if token.text in ("jump", "goto"):
        return [Verdict(token.text, token.place, cursor.next("a chain").text)]
    return [] if token.text == "continue" else [Verdict(token.text, token.place)]


def _statement(cursor: Cursor, counters: set[str]) -> list[Step]:
    token = cursor.token
    if token.text in VERDICTS:
        return _verdict(cursor)
    cursor.at += 1
    match token.text:
        case "counter":
            return [_counter(cursor, counters)]
        case "limit":
            return [_limit(cursor)]
        case "log":
            return [_log(cursor)]
        case "reject":
            return [_reject(cursor)]
        case "comment":
            cursor.next("a comment")
            return []
        case _:
            refuse(token, _REFUSED.get(token.text, "this match or statement is not read"))


def _counter(cursor: Cursor, counters: set[str]) -> Counter:
    place = cursor.place
    if cursor.take("name"):
        name = cursor.next("a counter")
        if name.text not in counters:
            raise RuleError(name.place, f"'{name.text}'", "there is no such counter in this table")
        return Counter(name.text, place)
    for what in ("packets", "bytes"):  # as `nft list` prints them
        if cursor.take(what):
            cursor.number(f"a number of {what}")
    return Counter(None, place)


def _limit(cursor: Cursor) -> Limit:
    """`limit rate [over] 10/second [burst 5 packets]`, or with bytes: `limit rate 10 kbytes/second`."""
    cursor.expect("rate")
    over = cursor.take("over")
    token = cursor.next("a rate")
    digits, _, unit = token.text.partition("/")
    factor = 0
    if not unit:
        size, _, unit = cursor.next("a rate").text.partition("/")
        factor = _BYTES.get(size, 0)
    if not digits.isdecimal() or unit not in _UNITS or (unit and "/" not in token.text and not factor):
        raise RuleError(token.place, f"'{token.text}'", "a rate is as 10/second, or as 10 kbytes/second")
    rate = int(digits) * (factor or 1)
    if not 0 < rate < RATE_MOST:
        raise RuleError(token.place, f"'{token.text}'", f"a rate is from 1 to {RATE_MOST - 1}")
    burst = 0 if factor else 5
    if cursor.take("burst"):
        where = cursor.place
        burst = cursor.number("a burst")
        size = cursor.next("'packets' or 'bytes'").text
        if (size not in _BYTES) if factor else (size != "packets"):
            raise RuleError(where, f"'{size}'", "a burst is of packets, or of bytes, as its rate")
        burst *= _BYTES.get(size, 1)
        if not burst < RATE_MOST or not (burst or factor):
            raise RuleError(where, "burst", f"it is from 1 to {RATE_MOST - 1}")
    return Limit(rate, _UNITS[unit], burst, bool(factor), over)


def _log(cursor: Cursor) -> Log:
    log = Log("", cursor.place)
    while cursor.is_("prefix", "level", "flags", "group", "snaplen", "queue-threshold"):
        token = cursor.next("an option")
        if token.text == "prefix":
            log = replace(log, prefix=cursor.next("a prefix").text[:128])
        elif token.text == "level":
            cursor.next("a level")  # rows have none
        else:
            refuse(token, "of log, prefix and level are read")
    return log


def _reject(cursor: Cursor) -> Verdict:
    """`reject`, `reject with tcp reset`, `reject with icmp[v6|x] [type] REASON`."""
    place = cursor.place
    if not cursor.take("with"):
        return Verdict("reject", place, codes=REJECTIONS_BOTH["port-unreachable"])
    kind = cursor.next("what is sent")
    if kind.text == "tcp":
        cursor.expect("reset")
        return Verdict("reject", place)
    cursor.take("type")
    reason = cursor.next("a reason")
    if kind.text == "icmpx" and reason.text in REJECTIONS_BOTH:
        return Verdict("reject", place, codes=REJECTIONS_BOTH[reason.text])
    code = REJECTIONS.get(kind.text, {}).get(reason.text)
    if code is None:
        raise RuleError(reason.place, f"'{kind.text} {reason.text}'", "this cannot be sent")
    both = REJECTIONS_BOTH["port-unreachable"]
    return Verdict("reject", place, codes=(code, both[1]) if kind.text == "icmp" else (both[0], code))
