"""safety=disk: whether servers can report that updates are on their disks.

Redis and Valkey from 7.2 on have WAITAOF. An older server has updates on disk before it replies if it synchronizes its
append-only file with each command (appendfsync always).
"""

from __future__ import annotations

from dataclasses import replace

from sluice.state.cluster import Cluster
from sluice.state.errors import StoreError
from sluice.state.location import Location
from sluice.state.peer import Peer, ReplyError, info_fields

WAITAOF = (7, 2)
"""The first version that has it, of either server."""


def with_safety(peer: Peer | Cluster, location: Location) -> Location:
    """The location, with how clients wait for the disk, if they do. Raises StoreError where servers do not allow it."""
    if location.safety != "disk":
        return location
    waits = True
    for one in peer.every():
        fields = info_fields(one.call("INFO"))
        if fields.get("aof_enabled") != "1":
            raise StoreError(
                f"{one.name} has no append-only file, which safety=disk waits for: start it with --appendonly yes, or "
                "use safety=memory"
            )
        if not _has_waitaof(fields):
            waits = False
            if (mode := _appendfsync(one)) != "always":
                raise StoreError(
                    f"{one.name} is of a version before 7.2, which cannot say when updates are on disk, and its "
                    f"appendfsync is {mode}: set it to always, or use a newer server"
                )
    return replace(location, waits_disk=waits)


def _has_waitaof(fields: dict[str, str]) -> bool:
    version = fields.get("valkey_version") or fields.get("redis_version", "")
    parts = [int(part) if part.isdigit() else 0 for part in version.split(".")]
    return tuple(parts[:2]) >= WAITAOF


def _appendfsync(peer: Peer) -> str:
    try:
        found = peer.call("CONFIG", "GET", "appendfsync")
    except ReplyError as error:
        return f"unknown ({error.code})"
    match found:
        case [_, bytes(mode)]:
            return mode.decode(errors="replace")
        case _:
            return "unknown"
