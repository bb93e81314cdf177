"""Samples as text, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.isolate.accounting import Counters
from sluice.isolate.session import Sample, Session
from sluice.isolate.support import Limit

_COLUMNS = ("CPU", "ran", "network", "for others", "by others", "packets/s")
_NAME_LIMIT = 40
HEADINGS = """\
CPU: what it cost = ran - for others + by others, in percent of one CPU; ran: in the context of its tasks, as the kernel
accounts; network: the part of CPU that is its packets in softirqs and interrupts; for others: packets of others, while
it ran; by others: its packets, while others ran, the host's tasks, or none."""


def sample_text(sample: Sample, rows: int | None = None) -> str:
    """A table of a sample, most expensive containers first; no more than `rows` of them."""
    containers = sorted(sample.containers, key=lambda usage: usage.counters.charged, reverse=True)
    names = [usage.container.name + (" (ended)" if usage.ended else "") for usage in containers]
    lines = [(name, usage.counters) for name, usage in zip(names, containers, strict=True)]
    shown, hidden = lines[:rows], lines[rows:] if rows is not None else []
    if hidden:
        shown.append((f"({len(hidden)} more)", _sum([counters for _, counters in hidden])))
    if sample.earlier != Counters():
        shown.append(("(ended earlier)", sample.earlier))
    shown += [("(host)", sample.host), ("(idle)", sample.idle)]
    width = max(len("container"), *(min(len(name), _NAME_LIMIT) for name, _ in shown))
    out = [f"{'container':<{width}}" + "".join(f" {column:>10}" for column in _COLUMNS)]
    for name, counters in shown:
        out.append(f"{clip(name, width):<{width}}{_row(counters, sample.seconds)}")
    out.append(f"{sample.cpus} CPUs, {sample.seconds:.2f} s, {100 * sample.accounted:.1f}% of their time accounted")
    return "\n".join(out)


def _sum(counters: Sequence[Counters]) -> Counters:
    return sum(counters, Counters())


def clip(name: str, width: int) -> str:
    """Of a long path, the end is shown, which distinguishes containers."""
    return name if len(name) <= width else "..." + name[3 - width :]


def _row(counters: Counters, seconds: float) -> str:
    times = (counters.charged, counters.run, counters.network, counters.for_others, counters.by_others)
    packets = (counters.received + counters.transmitted) / max(seconds, 1e-9)
    return "".join(f" {time / 1e7 / max(seconds, 1e-9):>9.2f}%" for time in times) + f" {packets:>10,.0f}"


def sample_json(sample: Sample, kind: str) -> dict[str, object]:
    """A sample as a JSON object. kind: `sample`, or `summary`."""
    found: dict[str, object] = {
        "type": kind,
        "time": round(sample.time, 6),
        "seconds": round(sample.seconds, 6),
        "cpus": sample.cpus,
        "accounted": round(sample.accounted, 6),
        "containers": [
            {
                "name": usage.container.name,
                "cgroup": usage.container.cgroup.path,
                "engine": usage.container.cgroup.engine,
                "ended": usage.ended,
                **counters_json(usage.counters),
            }
            for usage in sample.containers
        ],
        "host": counters_json(sample.host),
        "idle": counters_json(sample.idle),
    }
    if sample.earlier != Counters():
        found["earlier"] = counters_json(sample.earlier)
    return found


def counters_json(counters: Counters) -> dict[str, int]:
    """Counters as a JSON object: times in nanoseconds of CPU time."""
    return {
        "charged_ns": counters.charged,
        "ran_ns": counters.run,
        "network_ns": counters.network,
        "own_network_ns": counters.own_network,
        "for_others_ns": counters.for_others,
        "by_others_ns": counters.by_others,
        "by_containers_ns": counters.by_containers,
        "by_host_ns": counters.by_host,
        "by_idle_ns": counters.by_idle,
        "interrupts_ns": counters.interrupts_ns,
        "received": counters.received,
        "transmitted": counters.transmitted,
    }


def start_json(session: Session) -> dict[str, object]:
    """The start-up report as a JSON object."""
    cost = session.interrupt_cost
    return {
        "type": "start",
        "cgroups": {"folder": str(session.hierarchy.folder), "version": 1 if session.hierarchy.is_v1 else 2},
        "cpus": session.accounting.cpus,
        "interrupt": {"hidden_ns": cost.hidden_ns, "seen_ns": cost.seen_ns, "samples": cost.samples},
        "limits": limits_json(session.limits),
    }


def limits_json(limits: Sequence[Limit]) -> list[dict[str, str]]:
    """The limitations, as JSON."""
    return [{"what": limit.what, "remains": limit.remains} for limit in limits]


def start_text(session: Session) -> str:
    """The start-up report."""
    hierarchy, cost = session.hierarchy, session.interrupt_cost
    lines = [f"cgroups: version {1 if hierarchy.is_v1 else 2}, {hierarchy.folder}"]
    if cost.seen_ns:
        lines.append(
            f"interrupts: {cost.hidden_ns / 1000:.1f} us each that no probe sees, beside {cost.seen_ns / 1000:.1f} us "
            f"that are seen ({cost.samples} measured)"
        )
    lines += [f"not possible here: {limit}" for limit in session.limits]
    return "\n".join(lines)
