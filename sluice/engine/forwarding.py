"""Forwarding between two interfaces: what comes in at one of them leaves a box at the other."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from sluice.engine.fanout import WorkerSources
from sluice.engine.inputs import POLICIES, Drive, InputError, Inputs, Source, is_own_destination


class Forwarding:
    """Where packets leave while a driver runs over interfaces. Closed by `close`."""

    def __init__(self, library: Any, inputs: Inputs, source: Source, drive: Drive) -> None:
        """source: of the inputs. Opens nothing where they are not to be forwarded. Raises InputError."""
        self._drive = drive
        self._inputs = inputs
        self._library = library
        self._ports: list[Source] = []
        self._own: list[Source] = []
        """Those that are destinations only; the others are closed with the inputs."""
        if not inputs.forwarding:
            return
        try:
            self._open(source)
        except InputError:
            for port in self._own:
                port.close()
            raise
        count = len(inputs.uris)
        # the driver keeps a pointer to it
        self._peers = (ctypes.c_uint16 * count)(*reversed(range(count)))
        drive.port_count = count
        drive.peer = ctypes.cast(self._peers, ctypes.c_void_p)
        drive.on_fault, drive.on_overload = POLICIES[inputs.on_fault], POLICIES[inputs.on_overload]

    def _open(self, source: Source) -> None:
        self._handles = self._one_of_each(source)  # the driver keeps a pointer to it
        self._drive.ports = self._handles

    def _one_of_each(self, source: Source) -> Any:
        """A destination for each input, as an array for C."""
        first = len(self._ports)
        for number, uri in enumerate(self._inputs.uris):
            if is_own_destination(uri):
                self._ports.append(source.part(number))
            else:
                self._ports.append(Source.create_uri(self._library, os.fsencode(uri)))
                self._own.append(self._ports[-1])
        handles = [port.handle for port in self._ports[first:]]
        return (ctypes.c_void_p * len(handles))(*handles)

    def _lost(self) -> tuple[int, int, int]:
        """Packets without a port, without a checksum, and after a fault, as the driver counts them."""
        return self._drive.no_port, self._drive.no_checksum, self._drive.unseen_fault

    def counted(self) -> dict[str, int]:
        """What has been forwarded so far."""
        if not self._ports:
            return {}
        counted = [port.statistics() for port in self._ports]
        no_port, no_checksum, unseen_fault = self._lost()
        return {
            "forwarded": sum(one["sent"] for one in counted),
            "not_forwarded": sum(one["refused"] for one in counted) + no_port + no_checksum,
            "unseen_overload": self._drive.unseen_overload,
            f"unseen_fault_{'passed' if self._inputs.on_fault == 'open' else 'dropped'}": unseen_fault,
        }

    def close(self) -> tuple[dict[str, int], str | None]:
        """How many packets left, how many could not, and why the last of these; nothing where none was forwarded."""
        if not self._ports:
            return {}, None
        faults = [fault for port in self._ports if (fault := port.fault())]
        counted = self.counted()
        self._drive.ports = self._drive.peer = None
        for port in self._own:
            port.close()
        self._ports, self._own = [], []
        return counted, faults[-1] if faults else None


class WorkerForwarding(Forwarding):
    """The same for several workers: each has destinations of its own.

    shared: struct sl_workers, which has what the workers counted. array: by worker, its destinations.
    """

    def __init__(
        self, library: Any, inputs: Inputs, source: Source, drive: Drive, workers: int, shared: ctypes.Structure
    ) -> None:
        self._workers = workers
        self._shared: Any = shared
        self.array: Any = None
        super().__init__(library, inputs, source, drive)

    def _open(self, source: Source) -> None:
        own = isinstance(source, WorkerSources)
        if not own and any(is_own_destination(uri) for uri in self._inputs.uris):
            raise InputError(
                "xdp, tap, dpdk: one worker forwards by AF_XDP, TAP and DPDK, whose queues belong to one thread;"
                " between two interfaces of AF_XDP, several do with --dispatch queues"
            )
        each = source.each if own else [source] * self._workers
        self._each = [self._one_of_each(one) for one in each]
        self.array = (ctypes.c_void_p * self._workers)(*(ctypes.addressof(one) for one in self._each))

    def _lost(self) -> tuple[int, int, int]:
        return self._shared.no_port, self._shared.no_checksum, self._shared.unseen_fault
