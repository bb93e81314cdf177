"""A function in Python with shared objects of each type, which prints what its operations return."""

from __future__ import annotations

from typing import Any

from sluice.functions import at_end, on
from sluice.functions.shared import shared

contacts = shared("set", "src", "read_write", "zero", "hosts that a host has contacted")
packets = shared("counter", "all", "write_mostly", "recover", "packets")
octets = shared("map", "flow", "read_write", "recover", "bytes of each side")
ports = shared("list", "all", "read_write", "recover", "ports")
longest = shared("number", "dst+dport", "read_write", "recover", "largest segment")


@on("tcp", "created")
def begin(event: Any) -> None:
    ports.all().fill(1, 30)
    port = ports.all().pop()
    print(event.src, "contacts", event.dst, "from", port, contacts.of(event).insert(int(event.dst)))
    if port is not None and port % 2:
        ports.all().push(port + 100)


@on("tcp", "packet")
def packet(event: Any) -> None:
    packets.all().add(1)
    total = octets.of(event).map_add(event.side, event.length, wait=True)
    at = longest.of(event)
    print(total, at.maximum(event.length, wait=True), at.compare(0, 7), octets.of(event).map_least(0))


@on("tcp", "end")
def end(event: Any) -> None:
    if octets.of(event).map_read(1) is None:
        octets.of(event).drop()


@at_end
def report() -> None:
    print(packets.all().read(), contacts.at("10.1.0.1").contains(1))
