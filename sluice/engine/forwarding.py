"""Forwarding between two interfaces: what comes in at one of them leaves a box at the other."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from sluice.engine.inputs import POLICIES, XDP, Drive, InputError, Inputs, Source


class Forwarding:
    """Where packets leave while a driver runs over interfaces. Closed by `close`."""

    def __init__(self, library: Any, inputs: Inputs, source: Source, drive: Drive) -> None:
        """source: of the inputs. Opens nothing where they are not to be forwarded. Raises InputError."""
        self._drive = drive
        self._inputs = inputs
        self._ports: list[Source] = []
        self._own: list[Source] = []
        """Those that are destinations only; the others are closed with the inputs."""
        if not inputs.forwarding:
            return
        try:
            for number, uri in enumerate(inputs.uris):
                if uri.startswith(XDP):
                    self._ports.append(source.part(number))
                else:
                    self._ports.append(Source.create_uri(library, os.fsencode(uri)))
                    self._own.append(self._ports[-1])
        except InputError:
            for port in self._own:
                port.close()
            raise
        count = len(self._ports)
        # the driver keeps pointers to both
        self._handles = (ctypes.c_void_p * count)(*(port.handle for port in self._ports))
        self._peers = (ctypes.c_uint16 * count)(*reversed(range(count)))
        drive.ports, drive.port_count = self._handles, count
        drive.peer = ctypes.cast(self._peers, ctypes.c_void_p)
        drive.on_fault, drive.on_overload = POLICIES[inputs.on_fault], POLICIES[inputs.on_overload]

    def counted(self) -> dict[str, int]:
        """What has been forwarded so far."""
        if not self._ports:
            return {}
        counted = [port.statistics() for port in self._ports]
        return {
            "forwarded": sum(one["sent"] for one in counted),
            "not_forwarded": sum(one["refused"] for one in counted) + self._drive.no_port + self._drive.no_checksum,
            "unseen_overload": self._drive.unseen_overload,
            f"unseen_fault_{'passed' if self._inputs.on_fault == 'open' else 'dropped'}": self._drive.unseen_fault,
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
