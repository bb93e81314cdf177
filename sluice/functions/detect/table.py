"""The table of rules that the function `ids` reads (functions/ready/ids_table.h): numbers of 32 bits, little-endian,
and bytes with their length in front.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import cast

from sluice.functions.detect.byte_options import operands, variable_slots
from sluice.functions.detect.libraries import database, pcre_options, pcre_text
from sluice.functions.detect.model import (
    ACTION_NUMBERS,
    FLOWBIT_ACTIONS,
    FROM,
    NUMBERS,
    OPERATORS,
    Bytes,
    Content,
    Flowbit,
    Match,
    Operand,
    Pcre,
    Rule,
    Size,
)
from sluice.functions.detect.parts import Groups, fast_text, group
from sluice.functions.detect.ranges import Ranges
from sluice.functions.detect.variables import ANY_PORT, Addresses
from sluice.functions.detect.writer import Writer

MAGIC = b"sluiceI2"
_NONE = -(1 << 31)
"""In place of an offset, depth, distance or within that is not given."""
_KINDS = ("content", "pcre", "byte_test", "byte_jump", "byte_extract", "isdataat", "size", "version")
_FLAG_MODES = ("", "+", "*", "!")
_THRESHOLDS = ("limit", "threshold", "both", "detection_filter")


class _Sets:
    """Sets of addresses or ports, each once; 0 means all."""

    def __init__(self) -> None:
        self.known: dict[object, int] = {}

    def index(self, item: object, any: bool) -> int:
        return 0 if any else self.known.setdefault(item, len(self.known) + 1)


class _Bits:
    """The bits of flows, by name, and the groups that they are in."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.number: dict[str, int] = {}
        self._groups: dict[str, dict[str, None]] = {}
        for bit in (bit for rule in rules for bit in rule.flowbits if not bit.of_group):
            for name in bit.names:
                self.number.setdefault(name, len(self.number))
                if bit.group:
                    self._groups.setdefault(bit.group, {})[name] = None

    def plain(self, bit: Flowbit) -> tuple[Flowbit, ...]:
        """An operation on a group, as one on its bits."""
        group = tuple(self._groups.get(bit.group, self.number if not bit.group else ()))
        if bit.action == "reset":
            return (Flowbit("unset", group),)
        if bit.action == "setx":
            return (Flowbit("unset", tuple(name for name in group if name not in bit.names)), Flowbit("set", bit.names))
        return (Flowbit(bit.action, group, bit.names == ("any",)),) if bit.of_group else (bit,)


def table(rules: Sequence[Rule], compiled: Callable[[Sequence[tuple[bytes, bool]]], bytes] = database) -> bytes:
    """The table of rules. compiled: makes a database of patterns. Raises RuleError, DetectionError."""
    groups = group(rules)
    addresses, ports = _Sets(), _Sets()
    bits = _Bits(rules)
    body = Writer()
    body.number(len(rules))
    needed = [0] * len(rules)
    for part in groups.parts:
        needed[part.rule] |= part.bit
    for rule, parts in zip(rules, needed, strict=True):
        _rule(body, rule, addresses, ports, bits, parts)
    body.number(len(groups.parts))
    for part in groups.parts:
        body.number(part.rule, part.bit, part.sides, part.needs_body, part.whole, part.alone, len(part.matches))
        slots = variable_slots(list(part.matches))
        for match in part.matches:
            _match(body, match, slots)
    body.number(len(groups.searched))
    for which in range(len(groups.searched)):
        _group(body, groups, which, compiled)
    for sides in groups.ports:
        for side in sides:
            body.number(len(side))
            for low, which in side:
                body.number(low, which)
    head = Writer()
    head.out += MAGIC
    head.number(len(bits.number), len(addresses.known))
    for item in addresses.known:
        assert isinstance(item, Addresses)
        _ranges(head, item.v4, 4)
        _ranges(head, item.v6, 16)
    head.number(len(ports.known))
    for item in ports.known:
        _ranges(head, cast(Ranges, item), 4)
    return bytes(head.out + body.out)


def _ranges(to: Writer, ranges: Ranges, size: int) -> None:
    to.number(len(ranges))
    for low, high in ranges:
        if size == 4:
            to.number(low, high)
        else:
            to.out += low.to_bytes(16, "big") + high.to_bytes(16, "big")


def _rule(to: Writer, rule: Rule, addresses: _Sets, ports: _Sets, bits: _Bits, needed: int) -> None:
    to.number(rule.sid, rule.gid, rule.rev, rule.priority, ACTION_NUMBERS.index(rule.action), rule.protocols)
    to.number(addresses.index(rule.src, rule.src.any), ports.index(rule.sports, rule.sports == ANY_PORT))
    to.number(addresses.index(rule.dst, rule.dst.any), ports.index(rule.dports, rule.dports == ANY_PORT))
    to.number(rule.both_directions, rule.flow, rule.silent, rule.sameip, needed)
    to.number(len(rule.compares))
    for compare in rule.compares:
        to.number(NUMBERS.index(compare.field), compare.low, compare.high, compare.mask, compare.negated)
    flags = rule.flags
    to.number(flags is not None, *((flags.value, _FLAG_MODES.index(flags.mode), flags.ignored) if flags else (0, 0, 0)))
    threshold = rule.threshold
    if threshold:
        kind = _THRESHOLDS.index(threshold.kind) + 1
        to.number(kind, threshold.track == "by_dst", threshold.count, threshold.seconds)
    else:
        to.number(0, 0, 0, 0)
    flowbits = [each for bit in rule.flowbits for each in bits.plain(bit)]
    to.number(len(flowbits))
    for bit in flowbits:
        to.number(
            FLOWBIT_ACTIONS.index(bit.action), bit.some, len(bit.names), *(bits.number[name] for name in bit.names)
        )
    to.blob(alert_json(rule).encode())
    to.blob(rule.msg.encode("utf-8", "surrogateescape"))
    to.blob(fast_line(rule).encode("utf-8", "surrogateescape"))


def _match(to: Writer, match: Match, slots: dict[str, int]) -> None:
    """The numbers that all kinds have: those that may be variables as four pairs of number and 1 + slot, 0 for none."""
    options, text = 0, b""
    numbers: tuple[Operand | None, ...] = operands(match)
    if isinstance(match, Content):
        kind, options = "content", int(match.nocase)
        text = match.text.lower() if match.nocase else match.text
    elif isinstance(match, Pcre):
        kind, options, text = "pcre", pcre_options(match), pcre_text(match)
    elif isinstance(match, Bytes):
        kind = match.kind
    elif isinstance(match, Size):
        kind, numbers = "size", (match.low, match.high)
    else:
        kind, options = "version", match.bits
    to.number(_KINDS.index(kind), match.negated, options, match.relative, match.buffer)
    for number in (*numbers, None, None, None, None)[:4]:
        to.number(_NONE if number is None else 0 if isinstance(number, str) else number)
        to.number(1 + slots[number] if isinstance(number, str) else 0)
    to.blob(text)
    if isinstance(match, Pcre):
        to.number(match.whole, match.steps, match.anchored)
    if isinstance(match, Bytes):
        to.number(match.count, match.base, match.little, match.mask, OPERATORS.index(match.operator), match.multiplier)
        to.number(match.align, FROM.index(match.start), slots.get(match.name, 0))


def _group(to: Writer, groups: Groups, which: int, compiled: Callable[[Sequence[tuple[bytes, bool]]], bytes]) -> None:
    to.number(len(groups.always[which]), *groups.always[which])
    searched = groups.searched[which]
    to.number(len(searched), *searched)
    patterns: list[tuple[bytes, bool]] = []
    for number in searched:
        fast = groups.parts[number].fast
        assert fast is not None
        patterns.append((fast_text(fast), fast.nocase))
    to.blob(compiled(patterns) if patterns else b"")


def alert_json(rule: Rule) -> str:
    """The object `alert` of a row in eve.json's shape."""
    metadata: dict[str, list[str]] = {}
    for item in rule.metadata:
        name, _, value = item.partition(" ")
        metadata.setdefault(name, []).append(value.strip())
    alert = {
        "gid": rule.gid,
        "signature_id": rule.sid,
        "rev": rule.rev,
        "signature": _text(rule.msg),
        "category": rule.category,
        "severity": rule.priority,
        **({"metadata": {_text(k): [_text(v) for v in values] for k, values in metadata.items()}} if metadata else {}),
        **({"references": [_text(f"{kind}:{where}") for kind, where in rule.references]} if rule.references else {}),
    }
    return json.dumps(alert, separators=(",", ":"))


def _text(text: str) -> str:
    """Bytes of a file that are no UTF-8 become the characters U+0080 to U+00FF, as in other rows."""
    return "".join(chr(ord(letter) - 0xDC00) if 0xDC80 <= ord(letter) <= 0xDCFF else letter for letter in text)


def fast_line(rule: Rule) -> str:
    """The middle of a line of the fast log."""
    words = one_line(rule.msg)
    category = f"[Classification: {rule.category}] " if rule.category else ""
    return f"[**] [{rule.gid}:{rule.sid}:{rule.rev}] {words} [**] {category}[Priority: {rule.priority}]"


def one_line(text: str) -> str:
    """A text on one line."""
    return "".join(letter if letter.isprintable() or "\udc80" <= letter <= "\udcff" else " " for letter in text)
