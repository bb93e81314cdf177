"""Limitations of this kernel and its configuration for accounting and dropping, and the remaining functions."""

from __future__ import annotations

import gzip
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sluice.isolate.cgroups import Hierarchy
from sluice.isolate.interrupts import InterruptCost
from sluice.isolate.libbpf import has_type

WITHOUT = {
    "softirq_raise": "interrupts of the network are not told from others, and their cost is not charged",
    "call_function_single_entry": "the cost of inter-processor interrupts (receive packet steering) is not charged",
    "call_function_single_exit": "the cost of inter-processor interrupts (receive packet steering) is not charged",
    "local_timer_entry": "the cost of shapers' timer interrupts is not charged",
    "local_timer_exit": "the cost of shapers' timer interrupts is not charged",
    "irq_handler_entry": "the cost of devices' interrupts is not charged",
    "irq_handler_exit": "the cost of devices' interrupts is not charged",
    "napi_poll": "the polls of one softirq are not told apart, and threaded NAPI is accounted as host",
    "qdisc_dequeue": "packets that softirqs dequeue (shaping) are charged to the host",
    "net_dev_queue": "packets that timers and tasklets send (TCP) stay with the task that was interrupted",
    "consume_skb": "completed transmissions are charged to the next packet, or to the host",
}
"""By tracepoint: the restriction of accounting without it."""


@dataclass(frozen=True)
class Limit:
    """Something that cannot be done here."""

    what: str
    remains: str
    """The restriction of accounting without it."""

    def __str__(self) -> str:
        return f"{self.what}: {self.remains}"


def limits(hierarchy: Hierarchy, missing: Sequence[str], cost: InterruptCost) -> list[Limit]:
    """All limits of this machine.

    missing: tracepoints that the kernel does not have.
    """
    found: list[Limit] = []
    for tracepoint in missing:
        remains = WITHOUT.get(tracepoint, "accounting is less exact")
        found.append(Limit(f"the kernel has no tracepoint {tracepoint}", remains))
    if not cost.samples or cost.why_not:
        found.append(
            Limit(
                f"the hidden cost of an interrupt could not be measured ({cost.why_not})",
                "interrupts are charged only with what probes see of them",
            )
        )
    if hierarchy.v2_folder is None:
        found.append(
            Limit("cgroup v2 is not mounted", "packets are assigned by network namespace and address, not by socket")
        )
    if Path("/sys/kernel/realtime").exists():
        found.append(
            Limit(
                "this is a real-time kernel",
                "its softirqs run in threads that can be preempted; figures are less exact",
            )
        )
    if kernel_option("CONFIG_IRQ_TIME_ACCOUNTING"):
        found.append(
            Limit(
                "the kernel accounts softirqs apart (CONFIG_IRQ_TIME_ACCOUNTING)",
                "'ran' includes them here, while the kernel charges them to no cgroup",
            )
        )
    return found


def enforcement_limits(mode: str) -> list[Limit]:
    """Limitations of this kernel in dropping packets. mode: of gates.MODES."""
    found: list[Limit] = []
    if mode in ("auto", "host-end", "tc") and not has_type("tcx_link"):
        found.append(
            Limit(
                "the kernel has no links for tc (tcx, Linux 6.6)",
                "packets are dropped by classifiers (clsact); after a kill, the watchdog removes them",
            )
        )
    if mode == "threads" and not Path("/sys/class/net/lo/threaded").exists():
        found.append(
            Limit("the kernel has no threaded NAPI (Linux 5.12)", "nothing is dropped; containers are charged only")
        )
    return found


def kernel_option(name: str) -> bool | None:
    """Whether an option of the kernel's configuration is set; None if the configuration cannot be read."""
    release = os.uname().release
    for path in (Path("/proc/config.gz"), Path(f"/boot/config-{release}")):
        try:
            data = path.read_bytes()
        except OSError:
            continue
        text = gzip.decompress(data) if path.suffix == ".gz" else data
        return f"\n{name}=y\n".encode() in text
    return None
