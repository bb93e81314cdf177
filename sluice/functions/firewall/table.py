"""The table of rules that the function `firewall` reads (functions/ready/firewall_table.h)."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sluice.functions.detect.ranges import Ranges
from sluice.functions.detect.writer import Writer
from sluice.functions.firewall.model import Bits, Chain, Counter, Limit, Log, Match, Ruleset, Step, Table, Verdict
from sluice.functions.firewall.names import FIELD_NUMBERS, HOOKS

MAGIC = b"sluiceF1"
_KINDS = ("match", "bits", "any_bit", "counter", "limit", "log", "accept", "drop", "reject", "return", "jump", "goto")
_FAMILIES = {"ip": 4, "ip6": 6, "inet": 0, "bridge": 0}
RESET = 0xFFFF
"""In place of ICMP's codes: a reset of TCP."""


class _Parts:
    """The items to which steps refer by number."""

    def __init__(self) -> None:
        self.sets: dict[Ranges, int] = {}
        self.counters: list[bytes] = []
        self.named: dict[tuple[str, str, str], int] = {}
        self.limits: list[Limit] = []
        self.logs: list[bytes] = []
        self.chains: dict[tuple[int, str], int] = {}


def table(rules: Ruleset) -> bytes:
    """The table of rules."""
    parts = _Parts()
    ordered = _ordered(rules)
    for number, (which, chain) in enumerate(ordered):
        parts.chains[which, chain.name] = number
    body = Writer()
    body.number(len(ordered))
    for which, chain in ordered:
        _chain(body, parts, rules.tables[which], which, chain)
    bases = [(HOOKS.index(chain.hook), chain.priority, which, chain) for which, chain in ordered if chain.hook]
    bases.sort(key=lambda base: base[:3])
    body.number(len(bases))
    for _, _, which, chain in bases:
        of = rules.tables[which]
        label = {
            "file": chain.place.file,
            "line": chain.place.line,
            "table": of.name,
            "chain": chain.name,
            "policy": chain.policy,
        }
        body.number(parts.chains[which, chain.name], _FAMILIES[of.family], chain.policy == "drop")
        body.blob(_members(label))
    head = Writer()
    head.out += MAGIC
    head.number(len(parts.sets))
    for ranges in parts.sets:
        head.number(len(ranges))
        for bounds in ranges:
            for number in bounds:
                head.long(number >> 64, number & (1 << 64) - 1)
    head.number(len(parts.counters))
    for text in parts.counters:
        head.blob(text)
    head.number(len(parts.limits))
    for limit in parts.limits:
        head.long(limit.rate, limit.seconds, limit.burst)
        head.number(limit.bytes, limit.over)
    head.number(len(parts.logs))
    for text in parts.logs:
        head.blob(text)
    return bytes(head.out + body.out)


def _members(label: Mapping[str, object]) -> bytes:
    """The members of a JSON object, without its braces."""
    return json.dumps(label, separators=(",", ":")).encode("ascii", "backslashreplace")[1:-1]


def _ordered(rules: Ruleset) -> list[tuple[int, Chain]]:
    """All chains with the number of their table; a chain precedes those that it jumps to."""
    found: list[tuple[int, Chain]] = []

    def visit(which: int, table: Table, chain: Chain, seen: set[str]) -> None:
        if chain.name in seen:
            return
        seen.add(chain.name)
        for rule in chain.rules:
            for step in rule.steps:
                if isinstance(step, Verdict) and step.chain:
                    visit(which, table, table.chains[step.chain], seen)
        found.append((which, chain))

    for which, of in enumerate(rules.tables):
        seen: set[str] = set()
        for chain in of.chains.values():
            visit(which, of, chain, seen)
    return found[::-1]


def _chain(to: Writer, parts: _Parts, of: Table, which: int, chain: Chain) -> None:
    steps = Writer()
    count = 0
    for rule in chain.rules:
        end = count + len(rule.steps)
        for step in rule.steps:
            _step(steps, parts, of, which, step, end)
        count = end
    to.number(count)
    to.out += steps.out


def _step(to: Writer, parts: _Parts, of: Table, which: int, step: Step, end: int) -> None:
    """Six numbers: kind, negated, field, mask or code, value or index, and the step after the rule."""
    negated, field, mask, value = 0, 0, 0, 0
    if isinstance(step, Match):
        kind, negated, field = "match", int(step.negated), FIELD_NUMBERS.index(step.field)
        value = parts.sets.setdefault(step.ranges, len(parts.sets))
    elif isinstance(step, Bits):
        kind, negated, field, mask = (
            ("any_bit" if step.value is None else "bits"),
            int(step.negated),
            FIELD_NUMBERS.index(step.field),
            step.mask,
        )
        value = step.value or 0
    elif isinstance(step, Counter):
        kind, value = "counter", _counter(parts, of, step)
    elif isinstance(step, Limit):
        kind, value = "limit", len(parts.limits)
        parts.limits.append(step)
    elif isinstance(step, Log):
        kind, value = "log", len(parts.logs)
        parts.logs.append(_members({"file": step.place.file, "line": step.place.line, "prefix": step.prefix}))
    else:
        kind = step.kind
        if kind == "reject":
            mask, value = step.codes or (RESET, RESET)
        elif step.chain:
            value = parts.chains[which, step.chain]
    to.number(_KINDS.index(kind), negated, field, mask, value, end)


def _counter(parts: _Parts, of: Table, step: Counter) -> int:
    label: dict[str, object] = {"file": step.place.file, "line": step.place.line}
    if step.name is not None:
        key = (of.family, of.name, step.name)
        if key in parts.named:
            return parts.named[key]
        parts.named[key] = len(parts.counters)
        place = of.counters[step.name]
        label = {"file": place.file, "line": place.line, "counter": step.name}
    parts.counters.append(_members(label))
    return len(parts.counters) - 1
