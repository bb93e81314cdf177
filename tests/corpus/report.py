"""What of the truth a stack reproduces, capture by capture: `make corpus`.

    python -m tests.corpus.report [--stack NAME] [--only TEXT] [--json]

For each capture and part of the truth: how much of it agrees of how much there is; what does not, with why in a line.
Exit status 1 when something does not agree and is not explained, or an explanation is not needed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.corpus.agreement import PARTS, Disagreement, Part
from tests.corpus.explained import Explanation, explanation, explanations
from tests.support.corpus import corpus, truth

SCHEMA = "sluice-corpus-1"
SHOWN = 3
"""Disagreements that are shown of those with one explanation, or of a part with none."""


@dataclass
class Total:
    """A part of the truth over captures."""

    there: int = 0
    agree: int = 0
    explained: int = 0
    unexplained: int = 0
    not_compared: int = 0


@dataclass
class Capture:
    """What was found of a capture."""

    name: str
    parts: list[Part]
    explained: dict[Explanation, list[Disagreement]] = field(default_factory=lambda: defaultdict(list))
    unexplained: list[Disagreement] = field(default_factory=lambda: [])

    def total(self, part: Part) -> Total:
        """The figures of a part."""
        if part.not_compared:
            return Total(part.there, not_compared=part.there)
        wrong = len(part.disagreements)
        unexplained = sum(one.part == part.name for one in self.unexplained)
        return Total(part.there, max(part.there - wrong, 0), wrong - unexplained, unexplained)


def examine(stack: str, name: str) -> Capture:
    """Compare all parts of a capture."""
    found = Capture(name, [part for compare in PARTS.values() for part in compare(stack, name)])
    for part in found.parts:
        for wrong in part.disagreements:
            why = explanation(stack, name, wrong)
            if why is None:
                found.unexplained.append(wrong)
            else:
                found.explained[why].append(wrong)
    return found


def told(capture: Capture) -> list[str]:
    """The lines about a capture."""
    figures: list[str] = []
    for part in capture.parts:
        total = capture.total(part)
        if part.there or total.unexplained:
            figures.append(f"{part.name} {'-' if part.not_compared else total.agree}/{part.there}")
    lines = [f"{capture.name}: {', '.join(figures)}"]
    for why, several in capture.explained.items():
        lines.append(f"  explained: {several[0].part}, {several[0].what[:60]}{_more(len(several) - 1)}: {why.why}")
    lines += [f"  WRONG: {str(wrong)[:400]}" for wrong in capture.unexplained[:SHOWN]]
    if len(capture.unexplained) > SHOWN:
        lines.append(f"  WRONG:{_more(len(capture.unexplained) - SHOWN)}")
    return lines


def _more(count: int) -> str:
    return f" and {count} more" if count else ""


def as_json(capture: Capture) -> dict[str, Any]:
    """The same for a program."""
    return {
        "capture": capture.name,
        "parts": {part.name: asdict(capture.total(part)) for part in capture.parts if part.there},
        "explained": [
            {"part": wrong.part, "what": wrong.what, "why": why.why}
            for why, several in capture.explained.items()
            for wrong in several
        ],
        "unexplained": [asdict(wrong) for wrong in capture.unexplained],
    }


def summary(totals: dict[str, Total], reasons: dict[str, str]) -> list[str]:
    """The table at the end."""
    lines = [f"{'part':14}{'there':>8}{'agree':>8}{'explained':>11}{'wrong':>7}"]
    for name, total in totals.items():
        if total.not_compared:
            lines.append(f"{name:14}{total.there:8}  not compared: {reasons[name]}")
        else:
            lines.append(f"{name:14}{total.there:8}{total.agree:8}{total.explained:11}{total.unexplained:7}")
    return lines


def main(arguments: list[str]) -> int:
    """Examine, print, and say by the exit status whether all is well."""
    parser = argparse.ArgumentParser(prog="tests.corpus.report", description="What of the truth a stack reproduces.")
    parser.add_argument("--stack", default="everything", help="the stack (default: everything)")
    parser.add_argument("--only", default="", metavar="TEXT", help="captures whose names contain TEXT")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    args = parser.parse_args(arguments)
    names = [name for name in truth() if args.only in name]
    totals: dict[str, Total] = defaultdict(Total)
    reasons: dict[str, str] = {}
    examined: list[Capture] = []
    for number, name in enumerate(names):
        if sys.stderr.isatty():
            print(f"\r\x1b[K[{number + 1}/{len(names)}] {name}"[:100], end="", file=sys.stderr, flush=True)
        capture = examine(args.stack, name)
        examined.append(capture)
        for part in capture.parts:
            total, own = totals[part.name], capture.total(part)
            reasons[part.name] = part.not_compared
            for figure, value in asdict(own).items():
                setattr(total, figure, getattr(total, figure) + value)
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        if not args.json:
            print("\n".join(told(capture)), flush=True)
    used = {why for capture in examined for why in capture.explained}
    needless = [
        one
        for one in explanations()
        if one not in used and one.capture in names and (not one.stacks or args.stack in one.stacks)
        if not all(part.not_compared for part in _parts(examined, one))
    ]
    failed = bool(needless or any(capture.unexplained for capture in examined))
    if args.json:
        document = {
            "schema": SCHEMA,
            "corpus": str(corpus()),
            "stack": args.stack,
            "captures": [as_json(capture) for capture in examined],
            "totals": {name: asdict(total) for name, total in totals.items()},
            "needless": [asdict(one) for one in needless],
        }
        print(json.dumps(document, indent=1))
    else:
        print(f"\n{len(examined)} captures of {corpus()}, stack {args.stack}")
        print("\n".join(summary(totals, reasons)))
        for one in needless:
            print(f"needless explanation: {one.capture}, {one.part}, {one.what}: {one.why}")
        print("WRONG: see above" if failed else "all agrees, or is explained")
    return 1 if failed else 0


def _parts(examined: list[Capture], one: Explanation) -> list[Part]:
    """The parts that an explanation is about."""
    return [
        part
        for capture in examined
        if capture.name == one.capture
        for part in capture.parts
        if one.part in ("*", part.name.removesuffix(" other"))
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
