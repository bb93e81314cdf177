"""The cost of the evaluation of each rule: `sluice ids --profile`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from sluice.functions.detect.rules import RuleSet

PRINTED = 20
"""Rules that are printed, the most expensive ones; as JSON all are."""


@dataclass(frozen=True)
class Cost:
    """checks: evaluations of the rule's options, after its fast pattern was found; matches: those that held."""

    gid: int
    sid: int
    msg: str
    checks: int
    matches: int
    nanoseconds: int


def costs_of(rules: RuleSet, path: Path) -> list[Cost]:
    """The costs that the function `ids` wrote, the highest first."""
    messages = {(rule.gid, rule.sid): rule.msg for rule in rules.rules}
    lines = path.read_text().splitlines() if path.exists() else []
    found: list[Cost] = []
    for line in lines:
        gid, sid, checks, matches, nanoseconds = map(int, line.split())
        found.append(Cost(gid, sid, messages[gid, sid], checks, matches, nanoseconds))
    return sorted(found, key=lambda cost: (-cost.nanoseconds, cost.gid, cost.sid))


def print_costs(costs: list[Cost], out: TextIO) -> None:
    """Print the costs as a table."""
    print(f"{'checks':>12} {'matches':>10} {'us':>12} {'ns/check':>10}  rule", file=out)
    for cost in costs[:PRINTED]:
        each = cost.nanoseconds / cost.checks
        print(
            f"{cost.checks:>12,} {cost.matches:>10,} {cost.nanoseconds / 1000:>12,.1f} {each:>10,.0f}  "
            f"[{cost.gid}:{cost.sid}] {cost.msg}",
            file=out,
        )
