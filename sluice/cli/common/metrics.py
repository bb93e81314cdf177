"""The numbers of a running box in the text format of Prometheus (version 0.0.4)."""

from __future__ import annotations

from collections.abc import Iterator

from sluice.engine.observed import Snapshot

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_RECEIVED = (
    "dropped_kernel", "dropped_interface", "dropped_workers", "filtered", "not_forwarded",
    "unseen_overload", "unseen_fault_passed", "unseen_fault_dropped",
)  # fmt: skip


def label(text: str) -> str:
    """A value of a label."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def family(name: str, kind: str, text: str, samples: list[tuple[str, float]]) -> Iterator[str]:
    """The lines of a family: its help, its kind, and a line per sample, which is its labels and a value."""
    if not samples:
        return
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
    for labels, value in samples:
        yield f"{name}{{{labels}}} {value:.15g}" if labels else f"{name} {value:.15g}"


def metrics(snapshot: Snapshot) -> str:
    """All families."""
    layers = {name: counted for name, counted in snapshot.layers.items() if name != "box"}

    def by_layer(*counters: str) -> list[tuple[str, float]]:
        named = [(f'layer="{label(name)}"', counted) for name, counted in layers.items() if counted.get("packets")]
        return [(labels, sum(counted.get(counter, 0) for counter in counters)) for labels, counted in named]

    others = [
        (f'layer="{label(name)}",counter="{label(counter)}"', float(value))
        for name, counted in snapshot.layers.items()
        for counter, value in counted.items()
        if value and counter not in ("packets", "bytes", "instances")
    ]
    current = [
        (f'layer="{label(name)}"', float(open_instances(counted)))
        for name, counted in layers.items()
        if counted.get("instances")
    ]
    workers = [(f'worker="{number}"', one) for number, one in enumerate(snapshot.workers)]
    functions = [
        (f'function="{label(name)}",counter="{label(counter)}"', float(value))
        for name, counted in snapshot.functions.items()
        for counter, value in counted.items()
    ]
    lost = [(f'reason="{name}"', float(snapshot.received[name])) for name in _RECEIVED if name in snapshot.received]
    total = float(snapshot.packets)
    lines = [
        *family("sluice_info", "gauge", "The stack that runs.", [(f'stack="{label(snapshot.stack)}"', 1)]),
        *family("sluice_up_seconds", "gauge", "Seconds since the run began.", [("", snapshot.seconds)]),
        *family("sluice_received_packets_total", "counter", "Packets received.", [("", total)]),
        *family("sluice_lost_packets_total", "counter", "Packets that the box did not process, by reason.", lost),
        *family("sluice_layer_packets_total", "counter", "Packets of a layer.", by_layer("packets")),
        *family("sluice_layer_bytes_total", "counter", "Bytes of a layer, with its headers.", by_layer("bytes")),
        *family("sluice_layer_instances_total", "counter", "Instances that began.", by_layer("instances")),
        *family("sluice_layer_instances", "gauge", "Instances (connections) at this time.", current),
        *family("sluice_layer_events_total", "counter", "Other counters of layers: outcomes and reasons.", others),
        *family(
            "sluice_worker_packets_total",
            "counter",
            "Packets of a worker.",
            [(at, one["packets"]) for at, one in workers],
        ),
        *family(
            "sluice_worker_busy_seconds_total",
            "counter",
            "Seconds that a worker spent with packets.",
            [(at, one["busy"]) for at, one in workers],
        ),
        *family(
            "sluice_worker_longest_stall_seconds",
            "gauge",
            "Longest time that a worker spent with packets without a look for new ones.",
            [(at, one["longest"]) for at, one in workers],
        ),
        *family("sluice_function_total", "counter", "What functions count.", functions),
    ]
    if "forwarded" in snapshot.received:
        sent = [("", float(snapshot.received["forwarded"]))]
        lines += family("sluice_forwarded_packets_total", "counter", "Packets that were transmitted.", sent)
    if "link_downs" in snapshot.received:
        downs = [("", float(snapshot.received["link_downs"]))]
        lines += family("sluice_link_downs_total", "counter", "Times that an interface went down.", downs)
    if "removals" in snapshot.received:
        removals = [("", float(snapshot.received["removals"]))]
        lines += family("sluice_interface_removals_total", "counter", "Times that an interface was removed.", removals)
    return "\n".join(lines) + "\n"


def open_instances(counted: dict[str, int]) -> int:
    """The instances of a layer that have not ended."""
    ended = sum(value for name, value in counted.items() if name.startswith("ended:"))
    return max(0, counted.get("instances", 0) - ended)
