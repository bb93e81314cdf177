"""Drops packets at interfaces of the host by their destination: those received from the network, before the host
routes or switches them. One program at each interface serves all containers.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence

from sluice.isolate import classic
from sluice.isolate.accounting import packed_address
from sluice.isolate.build import compiled_nic
from sluice.isolate.errors import IsolateError
from sluice.isolate.gates import DROPS, REASONS, TCX_INGRESS, XDP, XDP_DRIVER, Dropped
from sluice.isolate.interfaces import interfaces
from sluice.isolate.libbpf import Object
from sluice.isolate.restore import Record

AUTO = "auto"
"""In place of names: every interface of the host that is a device."""


class Nics:
    """The programs at interfaces of the host, by name. Nothing is pinned: the kernel removes them when this process
    ends, or, without tcx, the watchdog, by the record (classic.py).

    Raises IsolateError if there is no such interface, or if neither XDP of its driver nor tc can be attached to one.
    """

    def __init__(self, names: Sequence[str], cpus: int, containers: int, record: Record | None = None) -> None:
        self.places: list[str] = []
        """The interfaces, each with its filter."""
        self._cpus = cpus
        self._links: list[int] = []
        self._filters: list[classic.Filter] = []
        self._record = record
        self._object = Object(compiled_nic())
        try:
            self._object.map("drops").resize(containers)
            self._object.load()
            self._gates = self._object.map("gates")
            self._drops = self._object.map("drops")
            for name, index in _chosen(names).items():
                self._attach(name, index)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Detach the programs from the kernel."""
        for link in self._links:
            os.close(link)
        self._links.clear()
        for one in self._filters:
            classic.remove(one)
            if self._record is not None:
                self._record.forget_change(one)
        self._filters.clear()
        self._object.close()

    def _attach(self, name: str, index: int) -> None:
        tried: list[str] = []
        for mode in ("xdp", "tc"):
            try:
                if mode == "xdp":
                    self._links.append(self._object.attach_to_interface("nic_xdp", index, XDP, XDP_DRIVER))
                elif classic.has_tcx():
                    self._links.append(self._object.attach_to_interface("nic_tc", index, TCX_INGRESS))
                else:
                    classic.attach(self._object.descriptor_of("nic_tc"), index, False, ("", 0), self._keep)
                self.places.append(f"{mode} {name}")
                return
            except IsolateError as error:
                tried.append(f"{mode}: {str(error).splitlines()[0]}")
        raise IsolateError(f"packets cannot be dropped at {name}: {'; '.join(tried)}")

    def _keep(self, found: classic.Filter) -> None:
        self._filters.append(found)
        if self._record is not None:
            self._record.keep_change(found)

    def set(self, row: int, addresses: frozenset[str], reason: str, until: int) -> None:
        """Drop packets to addresses of the container with that row, up to a time of the monotonic clock, in ns."""
        value = struct.pack("=QII", until, REASONS.index(reason), row)
        for address in addresses:
            self._gates.update(packed_address(address), value)

    def open(self, addresses: frozenset[str]) -> None:
        """Pass packets to addresses."""
        for address in addresses:
            self._gates.delete(packed_address(address))

    def dropped(self, row: int) -> dict[str, Dropped]:
        """All that was dropped so far in a row, by reason."""
        rows = [DROPS.unpack(one) for one in self._drops.lookup_per_cpu(struct.pack("=I", row), self._cpus)]
        return {
            reason: Dropped(sum(one[i] for one in rows), sum(one[len(REASONS) + i] for one in rows))
            for i, reason in enumerate(REASONS)
        }


def _chosen(names: Sequence[str]) -> dict[str, int]:
    """Index by name. Raises IsolateError for a name that no interface of the host has."""
    found = {one.name: one for one in interfaces()}
    chosen: dict[str, int] = {}
    for name in names:
        if name == AUTO:
            chosen |= {one.name: one.index for one in found.values() if not one.kind}
        elif name in found:
            chosen[name] = found[name].index
        else:
            raise IsolateError(f"there is no interface {name}; the host has {', '.join(sorted(found)) or 'none'}")
    return chosen


class NicGate:
    """The gate of one container at the host's interfaces. Its row counts for it from now on."""

    def __init__(self, nics: Nics, row: int) -> None:
        self.addresses: frozenset[str] = frozenset()
        """Those that no other container has."""
        self._nics = nics
        self._row = row
        self._closed: frozenset[str] = frozenset()
        self._base = nics.dropped(row)

    @property
    def places(self) -> list[str]:
        """Where packets are dropped; none if it has no separate address."""
        return self._nics.places if self.addresses else []

    def set(self, reason: str, until: int) -> None:
        """As Gates.set()."""
        closed = self.addresses if reason else frozenset[str]()
        self._nics.open(self._closed - closed)
        if reason:
            self._nics.set(self._row, closed, reason, until)
        self._closed = closed

    def dropped(self) -> dict[str, Dropped]:
        """All that was dropped so far, by reason."""
        return {reason: one - self._base[reason] for reason, one in self._nics.dropped(self._row).items()}

    def close(self) -> None:
        """Pass its packets."""
        self.set("", 0)
