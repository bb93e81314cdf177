"""The picture of `sluice top` as lines of text: rates between two snapshots of a box."""

from __future__ import annotations

from typing import Any

from sluice.cli.common.metrics import open_instances
from sluice.engine.observed import Snapshot

_DROPS = ("malformed:", "dropped:", "cut:", "gaps", "no memory", "memory:given up", "out of window")
_LOST = (
    "dropped_kernel", "dropped_interface", "dropped_workers", "filtered", "not_forwarded",
    "unseen_overload", "unseen_fault_passed", "unseen_fault_dropped",
)  # fmt: skip


def rates(before: Snapshot, now: Snapshot) -> dict[str, Any]:
    """The difference of two snapshots, per second, by layer, worker and function."""
    seconds = max(now.seconds - before.seconds, 1e-9)

    def rate(new: float, old: float) -> float:
        return round(max(0.0, new - old) / seconds, 3)

    layers: dict[str, Any] = {}
    for name, counted in now.layers.items():
        if name == "box" or not counted.get("packets"):
            continue
        old = before.layers.get(name, {})
        layers[name] = {
            "packets_per_second": rate(counted["packets"], old.get("packets", 0)),
            "bits_per_second": 8 * rate(counted.get("bytes", 0), old.get("bytes", 0)),
            "flows": open_instances(counted),
            "new_flows_per_second": rate(counted.get("instances", 0), old.get("instances", 0)),
            "drops": {key: value for key, value in counted.items() if value and key.startswith(_DROPS)},
        }
    workers: list[dict[str, Any]] = []
    for number, worker in enumerate(now.workers):
        old = before.workers[number] if number < len(before.workers) else {"packets": 0, "busy": 0.0}
        packets, busy = worker["packets"] - old["packets"], worker["busy"] - old["busy"]
        workers.append(
            {
                "packets_per_second": rate(worker["packets"], old["packets"]),
                "busy_percent": round(min(100.0, 100 * busy / seconds), 1),
                "nanoseconds_per_packet": round(1e9 * busy / packets, 1) if packets else None,
                "longest_stall_seconds": worker["longest"],
            }
        )
    functions = {
        name: {
            counter: {"total": value, "per_second": rate(value, before.functions.get(name, {}).get(counter, 0))}
            for counter, value in counted.items()
        }
        for name, counted in now.functions.items()
    }
    return {
        "stack": now.stack,
        "time": now.time,
        "up_seconds": round(now.seconds, 3),
        "interval_seconds": round(seconds, 3),
        "packets": now.packets,
        "packets_per_second": rate(now.packets, before.packets),
        "lost": {key: now.received[key] for key in _LOST if now.received.get(key)},
        "forwarded_per_second": rate(now.received["forwarded"], before.received.get("forwarded", 0))
        if "forwarded" in now.received
        else None,
        "layers": layers,
        "workers": workers,
        "functions": functions,
    }


def lines_of(shown: dict[str, Any], age: float = 0.0) -> list[str]:
    """The lines of the picture. age: seconds since the box took the snapshot."""
    up = int(shown["up_seconds"])
    lines = [
        f"{shown['stack']}  up {up // 3600}:{up // 60 % 60:02}:{up % 60:02}  {short(shown['packets'])} packets  "
        f"{short(shown['packets_per_second'])} pkt/s" + (f"  NO NEW NUMBERS FOR {age:.0f} s" if age > 3 else "")
    ]
    if shown["forwarded_per_second"] is not None:
        lines[0] += f"  {short(shown['forwarded_per_second'])} forwarded/s"
    if shown["lost"]:
        lines.append("lost: " + ", ".join(f"{name.replace('_', ' ')} {short(n)}" for name, n in shown["lost"].items()))
    lines += ["", f"{'WORKER':<14}{'pkt/s':>9}{'busy %':>9}{'ns/packet':>11}{'longest stall':>15}"]
    for number, one in enumerate(shown["workers"]):
        each = one["nanoseconds_per_packet"]
        lines.append(
            f"{number:<14}{short(one['packets_per_second']):>9}{one['busy_percent']:>9.1f}"
            f"{'-' if each is None else short(each):>11}{duration(one['longest_stall_seconds']):>15}"
        )
    lines += ["", f"{'LAYER':<14}{'pkt/s':>9}{'bit/s':>9}{'flows':>11}{'new/s':>9}  drops, by reason (total)"]
    for name, one in shown["layers"].items():
        drops = ", ".join(f"{reason} {short(n)}" for reason, n in one["drops"].items())
        lines.append(
            f"{name:<14}{short(one['packets_per_second']):>9}{short(one['bits_per_second']):>9}{short(one['flows']):>11}"
            f"{short(one['new_flows_per_second']):>9}  {drops}".rstrip()
        )
    counted = [
        (name, counter, one)
        for name, counters in shown["functions"].items()
        for counter, one in counters.items()
        if one["total"]
    ]
    if counted:
        lines += ["", f"{'FUNCTION':<14}{'per s':>9}{'total':>9}  counter"]
        lines += [
            f"{name:<14}{short(one['per_second']):>9}{short(one['total']):>9}  {counter}"
            for name, counter, one in counted
        ]
    return lines


def short(number: float) -> str:
    """At most six characters: 950, 12.3k, 4.56M."""
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= 0.9995 * size:
            return f"{number / size:.3g}{unit}" if number < 999.5 * size else f"{number / size:.0f}{unit}"
    return f"{number:.3g}" if number < 999.5 else f"{number:.0f}"


def duration(seconds: float) -> str:
    """With a unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"
