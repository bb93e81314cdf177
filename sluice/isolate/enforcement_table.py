"""The results of enforcement as text, and as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field

from sluice.isolate.enforced import State
from sluice.isolate.enforcer import Enforcement, Enforcer
from sluice.isolate.gates import REASONS, Dropped
from sluice.isolate.restore import Restored
from sluice.isolate.support import enforcement_limits
from sluice.isolate.table import clip, limits_json, sample_json, start_json, start_text

ENFORCEMENT_HEADINGS = """\
limit: of the container's cgroup, in percent of one CPU; cost: what it cost, with what others did for it; balance: what
it may still cost, negative when in debt; throttled: how long the kernel did not let it run; spent, early: packets that
were dropped because its limit was used, or nearly used by packets; where: at which interfaces."""
_NAMES = 8
"""Containers that a line names."""
_COLUMNS = ("limit", "cost", "network", "balance", "throttled", "spent/s", "early/s")


def enforcement_text(found: Enforcement, rows: int | None = None) -> str:
    """A table of the containers with a limit, most expensive first; no more than `rows` of them. Then what is not
    enforced, and why.
    """
    seconds = max(found.sample.seconds, 1e-9)
    costs = {usage.container.cgroup: usage.counters for usage in found.sample.containers if not usage.ended}
    states = [state for state in found.states if state.container.cgroup in costs]
    states.sort(key=lambda state: costs[state.container.cgroup].charged, reverse=True)
    width = max((len(state.container.name) for state in states), default=0)
    width = max(len("container"), min(width, 40))
    out = [f"{'container':<{width}}" + "".join(f" {column:>10}" for column in _COLUMNS) + "  where"]
    for state in states[:rows]:
        cost = costs[state.container.cgroup]
        cells = [
            f"{100 * state.limit.cpus:.1f}%",
            f"{cost.charged / 1e7 / seconds:.2f}%",
            f"{cost.network / 1e7 / seconds:.2f}%",
            f"{state.ledger.balance / 1e6:.1f} ms" if state.taken else "-",
            f"{state.throttled_ns / 1e7 / seconds:.1f}%",
            *(_rate(state, reason, seconds) for reason in REASONS),
        ]
        where = ", ".join(state.places) or "-"
        out.append(f"{clip(state.container.name, width):<{width}}" + "".join(f" {c:>10}" for c in cells) + f"  {where}")
    if rows is not None and len(states) > rows:
        out.append(f"({len(states) - rows} more)")
    refused: dict[str, list[str]] = {}
    for state in states:
        for why in reasons_of(state):
            refused.setdefault(why, []).append(state.container.name)
    out += [f"packets are not dropped, as {why}: {_names(names)}" for why, names in refused.items()]
    out += [f"not enforced: {name}: {why}" for name, why in found.failed.items()]
    if found.unlimited:
        out.append(f"without a limit, and only accounted: {_names(found.unlimited)}")
    return "\n".join(out)


def _names(names: list[str]) -> str:
    return ", ".join(names[:_NAMES]) + (", ..." if len(names) > _NAMES else "")


def reasons_of(state: State) -> list[str]:
    """Why packets are not dropped, where the container has packets from others."""
    return sorted(set(state.refused.values()))


def _rate(state: State, reason: str, seconds: float) -> str:
    """Packets per second; without gates (--dry-run, --drop none), the time for which they would have been closed."""
    if reason in state.dropped:
        return f"{state.dropped[reason].packets / seconds:,.0f}"
    return f"({100 * state.closed_ns.get(reason, 0) / 1e9 / seconds:.0f}% of t)"


def enforcement_json(found: Enforcement, kind: str) -> dict[str, object]:
    """A sample as a JSON object: that of `watch`, with `enforcement` of each container with a limit."""
    data = sample_json(found.sample, kind)
    data["enforcement"] = [state_json(state) for state in found.states]
    data["unlimited"] = found.unlimited
    data["failed"] = found.failed
    data["missed_periods"] = found.missed
    return data


def state_json(state: State) -> dict[str, object]:
    """The state of one container. Times are in nanoseconds of CPU time, but for `closed_ns`, which is by the clock."""
    return {
        "name": state.container.name,
        "cgroup": state.container.cgroup.path,
        "limit": {"quota_us": state.limit.quota_us, "period_us": state.limit.period_us},
        "taken_over": state.taken,
        "runtime_ns": state.ledger.runtime,
        "gained_ns": state.ledger.gained,
        "charged_ns": state.ledger.charged,
        "granted_ns": state.ledger.granted,
        "lapsed_ns": state.ledger.lapsed,
        "forgiven_ns": state.ledger.forgiven,
        "throttled_ns": state.throttled_ns,
        "dropping": state.reason,
        "places": state.places,
        "refused": reasons_of(state),
        "dropped": {
            reason: {"packets": dropped.packets, "bytes": dropped.bytes} for reason, dropped in state.dropped.items()
        },
        "closed_ns": {reason: state.closed_ns.get(reason, 0) for reason in REASONS},
    }


@dataclass
class Totals:
    """The drops since the start, by container and reason."""

    dropped: dict[str, dict[str, Dropped]] = field(default_factory=dict[str, dict[str, Dropped]])
    missed: int = 0

    def add(self, found: Enforcement) -> None:
        """Add a sample."""
        self.missed = found.missed
        for state in found.states:
            rows = self.dropped.setdefault(state.container.name, {})
            for reason, dropped in state.dropped.items():
                before = rows.get(reason, Dropped())
                rows[reason] = Dropped(before.packets + dropped.packets, before.bytes + dropped.bytes)

    def losses(self, enforcer: Enforcer) -> dict[str, int]:
        """Those of accounting, and periods that passed without a decision."""
        return {**enforcer.session.losses, "periods without a decision": self.missed}

    def json(self) -> dict[str, object]:
        """As a part of the summary."""
        return {
            "dropped": {
                name: {reason: {"packets": one.packets, "bytes": one.bytes} for reason, one in rows.items()}
                for name, rows in self.dropped.items()
            }
        }

    def text(self) -> str:
        """A line for each container and reason with drops."""
        return "\n".join(
            f"dropped, {reason}: {one.packets:,} packets, {one.bytes:,} bytes of {name}"
            for name, rows in self.dropped.items()
            for reason, one in rows.items()
            if one.packets
        )


def enforcer_json(enforcer: Enforcer) -> dict[str, object]:
    """The start-up report as a JSON object."""
    found = enforcer.found
    return {
        **start_json(enforcer.session),
        "limits": [*limits_json(enforcer.session.limits), *limits_json(enforcement_limits(enforcer.mode))],
        "drop": enforcer.mode,
        "nics": enforcer.nics.places if enforcer.nics else [],
        "dry_run": enforcer.dry_run,
        "tick_ms": enforcer.tick * 1000,
        "restored": found.restored if found else [],
    }


def enforcer_text(enforcer: Enforcer) -> str:
    """The start-up report."""
    lines = [start_text(enforcer.session)]
    lines += [f"not possible here: {limit}" for limit in enforcement_limits(enforcer.mode)]
    if enforcer.dry_run:
        lines.append("dry run: nothing is changed")
    else:
        lines.append(f"dropping: {enforcer.mode}")
    if enforcer.nics:
        lines.append(f"dropping by destination: {', '.join(enforcer.nics.places) or 'the host has no device'}")
    if enforcer.found and (text := restored_text(enforcer.found)):
        lines.append(f"an earlier run was killed:\n{text}")
    return "\n".join(lines)


def restored_text(done: Restored) -> str:
    """The restored limits; empty if there were none."""
    kinds = (
        ("restored", done.restored),
        ("left, as another program has set the limit since", done.changed),
        ("gone", done.gone),
        ("not restored", done.failed),
    )
    return "\n".join(f"{kind}: {one}" for kind, names in kinds for one in names)
