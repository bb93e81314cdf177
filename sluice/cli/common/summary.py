"""The summary of a run as text and as JSON, and the exit status."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping

from sluice.cli.common.link_types import LINK_TYPES
from sluice.cli.common.streams import reader_is_gone
from sluice.engine.box import Outcome


def outcome_json(outcome: Outcome) -> dict[str, object]:
    """The machine-readable summary of a run."""
    layers = {name: counters for name, counters in outcome.counters.items() if name != "box"}
    return {
        "packets": outcome.packets,
        "seconds": round(outcome.seconds, 6),
        "box": outcome.counters.get("box", {}),
        "layers": layers,
        "reports": outcome.reports,
        "fault": outcome.fault,
        "failure": outcome.failure,
        "stopped": outcome.stopped,
        **({"packets_by_worker": outcome.by_worker} if outcome.by_worker else {}),
        **({"dispatch": _dispatch(outcome)} if outcome.dispatched else {}),
        **({"groups_moved": outcome.groups_moved} if outcome.groups_moved is not None else {}),
        **({"packets_divided": outcome.divided} if outcome.divided is not None else {}),
        **({"keys_not_learned": outcome.unlearned} if outcome.unlearned else {}),
        **({"lost_by_crashes": outcome.lost_by_crashes} if outcome.lost_by_crashes else {}),
        **({"received": outcome.received} if outcome.received else {}),
        "refused_link_types": {str(number): packets for number, packets in outcome.refused.items()},
    }


_ROUTINE = ("packets", "bytes", "passed", "ended", "held", "instances", "bytes:in", "bytes:delivered")
_OUTCOMES = ("malformed:", "cut:", "dropped:")
_BOX_REASONS = (
    ("unknown link type", "packets of a link type that the stack does not begin with"),
    ("too deep", "packets nested too deeply"),
    ("too many records", "packets with too many records"),
)

_UNLEARNED = (
    ("forgotten", "keys forgotten, as others needed their room: later packets with them may go to another worker"),
    ("left_out", "keys left out of packets with more than 16: connections with them may be divided among workers"),
    ("not_scanned", "packets with keys beyond the room for those of files: their connections may be divided"),
)
_UNSEEN = (
    ("unseen_overload", "packets passed without the functions, as they came faster than the box processed them"),
    ("unseen_fault_passed", "packets passed without the functions, after one had failed"),
    ("unseen_fault_dropped", "packets dropped after a function had failed"),
)


def summary(outcome: Outcome) -> str:
    """A summary by layer: packets, bytes, instances, forwarded packets, and drops by reason."""
    box = outcome.counters.get("box", {})
    lines = [f"{outcome.packets:,} packets, {box.get('bytes', 0):,} bytes in {_duration(outcome.seconds)}"]
    seen = [(name, c) for name, c in outcome.counters.items() if name != "box" and c.get("packets")]
    if seen:
        width = max(len(name) for name, _ in seen)
        head = f"{'layer':<{width}}  {'packets':>11} {'bytes':>14} {'passed on':>11} {'ended':>11} {'held':>9}"
        lines.append(f"{head} {'instances':>10}  what else")
        for name, c in seen:
            row = f"{name:<{width}}  {c['packets']:>11,} {c['bytes']:>14,} {c.get('passed', 0):>11,}"
            row += f" {c.get('ended', 0):>11,} {c.get('held', 0):>9,} {c.get('instances', 0):>10,}"
            lines.append(f"{row}  {_what_else(c)}".rstrip())
    lines += [f"{box[key]:,} {text}" for key, text in _BOX_REASONS if box.get(key)]
    if outcome.refused:
        lines[-1 - bool(box.get("too deep"))] += f": {_link_types(outcome.refused)}"
    if outcome.by_worker:
        lines.append(f"packets by worker: {', '.join(f'{packets:,}' for packets in outcome.by_worker)}")
    if outcome.dispatched is not None:
        lines.append(_dispatched(outcome, *outcome.dispatched))
    if outcome.groups_moved:
        lines.append(f"groups of connections that moved to another worker: {outcome.groups_moved:,}")
    if outcome.divided:
        lines.append(f"packets of connections that several workers have: {outcome.divided:,}")
    lines += [f"{outcome.unlearned[key]:,} {text}" for key, text in _UNLEARNED if outcome.unlearned.get(key)]
    if outcome.lost_by_crashes.get("crashes"):
        lost = outcome.lost_by_crashes
        lines.append(
            f"{lost['crashes']:,} crashes of workers: {lost['packets']:,} packets and {lost['flows']:,} flows lost"
        )
    if outcome.received:
        lines.append(
            f"{outcome.received['dropped_kernel']:,} packets dropped by the kernel, "
            f"{outcome.received['dropped_interface']:,} by the interface"
        )
    if outcome.received.get("link_downs"):
        lines.append(f"{outcome.received['link_downs']:,} times an interface was down")
    if outcome.received.get("removals"):
        removals, returns = (outcome.received[name] for name in ("removals", "returns"))
        lines.append(f"{removals:,} times an interface was removed, {returns:,} times it was made again")
    if outcome.received.get("dropped_workers"):
        lines.append(f"{outcome.received['dropped_workers']:,} packets dropped as their worker had no room for them")
    if "forwarded" in outcome.received:
        lost = f"{outcome.received['not_forwarded']:,} could not be" + (
            f" ({outcome.not_forwarded})" if outcome.not_forwarded else ""
        )
        lines.append(f"{outcome.received['forwarded']:,} packets forwarded, {lost}")
    lines += [f"{outcome.received[key]:,} {text}" for key, text in _UNSEEN if outcome.received.get(key)]
    lines += [f"{name}: {value:,}" for name, value in outcome.reports.items()]
    return "\n".join(lines)


def _dispatch(outcome: Outcome) -> dict[str, object]:
    assert outcome.dispatched is not None
    by, why = outcome.dispatched
    return {"by": by, **({"handed_over": outcome.handed_over} if by != "box" else {}), "reason": why or None}


def _dispatched(outcome: Outcome, by: str, why: str) -> str:
    if by == "box":
        return "packets were divided among workers by the box" + (
            f", not by the kernel or queues: {why}" if why else ""
        )
    handed = f"{outcome.handed_over:,} handed over by a worker" + (f" ({why})" if why else "")
    if by == "kernel":
        return f"packets were divided among workers by the kernel; {handed}"
    return f"packets were divided among workers by queues of interfaces; {handed}"


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _what_else(counters: dict[str, int]) -> str:
    """The other counters that are not 0. Outcomes of packets are first, so that they can be added up."""
    others = [(name, value) for name, value in counters.items() if value and name not in _ROUTINE]
    others.sort(key=lambda item: not item[0].startswith(_OUTCOMES))
    return ", ".join(f"{_words(name)} {value:,}" for name, value in others)


def _words(counter: str) -> str:
    """The name of a counter in a summary: `malformed:version` becomes `malformed (version)`."""
    what, _, why = counter.partition(":")
    if what == "ended":
        what = "instances ended"  # packets that ended have a separate column
    return f"{what} ({why})" if why else what


def finish(
    outcome: Outcome, as_json: bool, inputs: str, quiet: bool = False, more: Mapping[str, object] | None = None
) -> int:
    """Print the summary and the errors of a run. Returns the exit status.

    inputs: the inputs' name in messages. more: members that the JSON has beside those of every run.

    The status is 0 if the user ended an input that has no end.

    Raises BrokenPipeError if a function failed because the reader of the output has closed it; nothing is printed then.
    """
    if outcome.failure and reader_is_gone():
        raise BrokenPipeError
    if as_json:
        print(json.dumps(outcome_json(outcome) | dict(more or {})))
    elif not quiet:
        print(summary(outcome))
    if outcome.fault:
        print(f"sluice: {outcome.fault}; the packets before it were processed", file=sys.stderr)
    if outcome.failure:
        print(f"sluice: {outcome.failure}", file=sys.stderr)
    none = outcome.packets > 0 and sum(outcome.refused.values()) == outcome.packets
    if none:
        kinds, takes = _link_types(outcome.refused), _link_types(outcome.takes)
        print(
            f"sluice: {inputs}: no packet could be read: link type {kinds}; the stack begins with {takes}",
            file=sys.stderr,
        )
    if outcome.interrupted:
        print("sluice: stopped", file=sys.stderr)
        return STOPPED
    return 1 if outcome.fault or outcome.failure or none else 0


STOPPED = 130
"""The exit status after Ctrl-C: the one that a shell reports for a program killed by SIGINT."""


def _link_types(numbers: Iterable[int]) -> str:
    return ", ".join(f"{number} ({LINK_TYPES.get(number, 'unknown')})" for number in numbers)
