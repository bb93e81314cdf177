"""What `sluice isolate watch --json` or `run --json` recorded, in one report."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sluice.isolate.errors import IsolateError
from sluice.isolate.table import clip

TIMES = ("charged_ns", "ran_ns", "network_ns", "for_others_ns", "by_others_ns")
_COLUMNS = ("CPU", "ran", "network", "for others", "by others", "most stolen", "packets")
_FIELDS = (*TIMES, "received", "transmitted")


@dataclass
class Row:
    """One container over all samples."""

    name: str
    engine: str
    sums: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_FIELDS, 0))
    most_stolen: float = 0.0
    """The greatest part of a sample's time of one CPU in which it worked for others."""
    at: float = 0.0
    """When, in seconds since the start."""
    throttled_ns: int = 0
    dropped: dict[str, int] = field(default_factory=dict[str, int])
    """Packets by reason."""


@dataclass
class Report:
    """All samples of a recording."""

    seconds: float = 0.0
    samples: int = 0
    rows: dict[str, Row] = field(default_factory=dict[str, Row])
    """By cgroup; `(host)` and `(idle)` among them."""
    losses: dict[str, int] = field(default_factory=dict[str, int])
    limits: list[str] = field(default_factory=list[str])
    """Limitations of the machine."""
    complete: bool = False
    """The recording has its summary: the command was not killed."""


def read_report(lines: Iterable[str], name: str) -> Report:
    """Add up a recording. Raises IsolateError with the line that is no part of one."""
    report = Report()
    number = 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            data = json.loads(line)
            _read(report, data, data["type"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise IsolateError(
                f"{name}:{number}: this is no line of `sluice isolate watch --json` or `run --json` ({error!r})"
            ) from error
    if not report.samples:
        raise IsolateError(f"{name}: it has no samples: record with `sluice isolate watch --json > FILE`")
    return report


def _read(report: Report, data: dict[str, Any], kind: str) -> None:
    if kind == "start":
        report.limits += [f"{one['what']}: {one['remains']}" for one in data["limits"]]
    elif kind == "summary":
        report.complete = True
        report.losses = {str(reason): int(count) for reason, count in data["losses"].items() if count}
    elif kind == "sample":
        seconds, at = float(data["seconds"]), float(data["time"])
        report.seconds += seconds
        report.samples += 1
        for one in data["containers"]:
            _add(report, one["cgroup"], one["name"], one["engine"], one, seconds, at)
        for name in ("host", "idle"):
            _add(report, f"({name})", f"({name})", "", data[name], seconds, at)
        for one in data.get("enforcement", ()):
            row = report.rows.setdefault(one["cgroup"], Row(one["name"], ""))
            row.throttled_ns += int(one["throttled_ns"])
            for reason, dropped in one["dropped"].items():
                row.dropped[reason] = row.dropped.get(reason, 0) + int(dropped["packets"])


def _add(report: Report, key: str, name: str, engine: str, one: dict[str, Any], seconds: float, at: float) -> None:
    row = report.rows.setdefault(key, Row(name, engine))
    for column in _FIELDS:
        row.sums[column] += int(one[column])
    stolen = int(one["for_others_ns"]) / 1e9 / max(seconds, 1e-9)
    if stolen > row.most_stolen:
        row.most_stolen, row.at = stolen, at


def report_json(report: Report) -> dict[str, object]:
    """The report as a JSON object."""
    return {
        "type": "report",
        "seconds": round(report.seconds, 6),
        "samples": report.samples,
        "complete": report.complete,
        "containers": [
            {
                "cgroup": cgroup,
                "name": row.name,
                "engine": row.engine,
                **row.sums,
                "most_stolen": round(row.most_stolen, 6),
                "most_stolen_at": row.at,
                "throttled_ns": row.throttled_ns,
                "dropped": row.dropped,
            }
            for cgroup, row in report.rows.items()
        ],
        "losses": report.losses,
        "limits": report.limits,
    }


def report_text(report: Report) -> str:
    """The report as text: a table, most stolen from first, then drops and losses."""
    rows = sorted(report.rows.items(), key=lambda one: (one[0] in ("(host)", "(idle)"), -one[1].sums["for_others_ns"]))
    width = max(len("container"), *(min(len(row.name), 40) for _, row in rows))
    out = [f"{'container':<{width}}" + "".join(f" {column:>11}" for column in _COLUMNS)]
    for _, row in rows:
        cells = [f"{row.sums[column] / 1e7 / max(report.seconds, 1e-9):.2f}%" for column in TIMES]
        cells += [f"{100 * row.most_stolen:.2f}%", f"{row.sums['received'] + row.sums['transmitted']:,}"]
        out.append(f"{clip(row.name, width):<{width}}" + "".join(f" {cell:>11}" for cell in cells))
    out.append(f"{report.samples} samples, {report.seconds:.1f} s; times in percent of one CPU")
    for _, row in rows:
        if row.most_stolen:
            out.append(f"most stolen from {row.name}: {100 * row.most_stolen:.1f}% of a CPU, at {row.at:.1f} s")
        if row.throttled_ns:
            out.append(f"throttled: {row.name}: {row.throttled_ns / 1e9:.2f} s")
        out += [f"dropped, {reason}: {count:,} packets of {row.name}" for reason, count in row.dropped.items() if count]
    out += [f"{reason}: {count:,}" for reason, count in report.losses.items()]
    out += [f"not possible there: {limit}" for limit in report.limits]
    if not report.complete:
        out.append("the recording has no summary: it goes on, or the command was killed")
    return "\n".join(out)
