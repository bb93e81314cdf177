"""The cost of containers, in the text format of Prometheus: by container its own CPU time, the network's for it, the
time that others used at its expense, and drops.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from sluice.cli.common.metrics import family, label
from sluice.cli.common.monitoring import metrics_server
from sluice.isolate.accounting import Counters
from sluice.isolate.enforced import State
from sluice.isolate.enforcer import Enforcement
from sluice.isolate.session import Sample, Usage

_COSTS: tuple[tuple[str, str, Callable[[Counters], int]], ...] = (
    ("cost", "CPU time that it cost, with work of others for it.", lambda one: one.charged),
    ("own", "CPU time of its tasks, without packets.", lambda one: one.run - one.own_network - one.for_others),
    ("network", "CPU time of its packets in softirqs and interrupts.", lambda one: one.network),
    ("stolen", "CPU time taken from its tasks for packets of others.", lambda one: one.for_others),
    ("by_others", "CPU time of its packets that other contexts were charged by the kernel.", lambda one: one.by_others),
)


@dataclass
class Exposed:
    """The page that is served: made of each sample, by the thread that samples."""

    text: str = ""
    _dropped: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict[tuple[str, str], tuple[int, int]])
    _throttled: dict[str, int] = field(default_factory=dict[str, int])

    def update(self, total: Sample, losses: dict[str, int], found: Enforcement | None = None) -> None:
        """total: the accounts since the start. found: enforcement since the last call."""
        self.text = "\n".join([*_accounted(total, losses), *(self._enforced(found) if found else ())]) + "\n"

    def _enforced(self, found: Enforcement) -> list[str]:
        names = {state.container.cgroup.path: _labels(state) for state in found.states}
        for state in found.states:
            path = state.container.cgroup.path
            self._throttled[path] = self._throttled.get(path, 0) + state.throttled_ns
            for reason, one in state.dropped.items():
                packets, octets = self._dropped.get((path, reason), (0, 0))
                self._dropped[path, reason] = packets + one.packets, octets + one.bytes
        self._throttled = {path: ns for path, ns in self._throttled.items() if path in names}
        self._dropped = {key: one for key, one in self._dropped.items() if key[0] in names}

        def each(value: Callable[[State], float]) -> list[tuple[str, float]]:
            return [(names[state.container.cgroup.path], value(state)) for state in found.states]

        dropped = [
            (f'{names[path]},reason="{reason}"', packets, octets)
            for (path, reason), (packets, octets) in self._dropped.items()
        ]
        prefix = "sluice_isolate_"
        return [
            *family(f"{prefix}limit_cpus", "gauge", "Its limit.", each(lambda one: one.limit.cpus)),
            *family(
                f"{prefix}taken_over", "gauge", "Whether the controller refills its quota.", each(lambda one: one.taken)
            ),
            *family(
                f"{prefix}balance_seconds",
                "gauge",
                "What it may still cost; negative when it is in debt.",
                each(lambda one: one.ledger.balance / 1e9),
            ),
            *family(
                f"{prefix}throttled_seconds_total",
                "counter",
                "Time for which the kernel throttled it.",
                [(names[path], ns / 1e9) for path, ns in self._throttled.items()],
            ),
            *family(
                f"{prefix}dropped_packets_total",
                "counter",
                "Packets to it that were dropped, and why.",
                [(labels, packets) for labels, packets, _ in dropped],
            ),
            *family(
                f"{prefix}dropped_bytes_total",
                "counter",
                "Bytes of these packets.",
                [(labels, octets) for labels, _, octets in dropped],
            ),
            *family(
                f"{prefix}not_enforced", "gauge", "Containers with a limit that are not enforced.",
                [("", len(found.failed))],
            ),
        ]  # fmt: skip


def _labels(one: State | Usage) -> str:
    cgroup = one.container.cgroup
    return f'container="{label(cgroup.name)}",cgroup="{label(cgroup.path)}",engine="{label(cgroup.engine)}"'


def _accounted(total: Sample, losses: dict[str, int]) -> list[str]:
    rows = [(_labels(usage), usage.counters) for usage in total.containers if not usage.ended]
    rows += [
        ('container="(host)",cgroup="",engine=""', total.host),
        ('container="(idle)",cgroup="",engine=""', total.idle),
    ]
    lines: list[str] = []
    for name, text, value in _COSTS:
        samples = [(labels, value(counters) / 1e9) for labels, counters in rows]
        lines += family(f"sluice_isolate_{name}_seconds_total", "counter", text, samples)
    packets = [
        (f'{labels},direction="{direction}"', float(number))
        for labels, counters in rows
        for direction, number in (("received", counters.received), ("transmitted", counters.transmitted))
    ]
    lines += family("sluice_isolate_packets_total", "counter", "Its packets that softirqs processed.", packets)
    lost = [(f'reason="{label(reason)}"', float(number)) for reason, number in losses.items()]
    lines += family("sluice_isolate_losses_total", "counter", "What reduces the accuracy, by reason.", lost)
    lines += family("sluice_isolate_accounted_ratio", "gauge", "Of the time of all CPUs.", [("", total.accounted)])
    return lines


@contextlib.contextmanager
def exposing(at: tuple[str, int] | None) -> Generator[Exposed | None]:
    """Serves the cost of containers at an address, if one is given. Raises CommandError if it is not available."""
    if at is None:
        yield None
        return
    exposed = Exposed()
    server = metrics_server(at, lambda: exposed.text)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True).start()
    try:
        yield exposed
    finally:
        server.shutdown()
        server.server_close()
