"""The server-side functions of a store: the text of `store/operations.lua`, with the operations of functions."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from sluice.hooks.shared import Operation
from sluice.state.cluster import Cluster
from sluice.state.errors import StoreError
from sluice.state.peer import Peer, ReplyError, info_fields

OPERATIONS = Path(__file__).resolve().parent / "store" / "operations.lua"
VERSIONS = {"redis": (7, 0), "valkey": (7, 2)}
"""The first version of each server that has server-side functions."""


@dataclass(frozen=True)
class Library:
    """A library: its functions are called PREFIX_NAME. The prefix depends on the text, so several may be loaded."""

    prefix: str
    text: str


def make_library(operations: Sequence[Operation] = (), without: Collection[str] = ()) -> Library:
    """The functions of a run, with these operations of its functions. without: checks that tests switch off: of updates
    that are `repeated`, of `ownership`, of the `sequence` of calls.
    """
    custom = "".join(
        f"custom('{item.full_name}', function(value, argument, other)\n{item.lua}\nend)\n" for item in operations
    )
    text = OPERATIONS.read_text(encoding="utf-8").replace("--@CUSTOM@\n", custom)
    for check in ("repeated", "ownership", "sequence"):
        text = text.replace(f"@{check.upper()}@", str(check not in without).lower())
    prefix = f"sluice{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    return Library(prefix, f"#!lua name={prefix}\n" + text.replace("@PREFIX@", prefix))


def check_version(peer: Peer | Cluster) -> str:
    """The server's name and version. Raises StoreError for one without server-side functions."""
    fields = info_fields(peer.call("INFO", "server"))
    kind = "valkey" if "valkey_version" in fields else "redis"
    text = fields.get(f"{kind}_version", "")
    parts = text.split(".")
    if len(parts) < 2 or not all(part.isdigit() for part in parts[:2]):
        raise StoreError(f"{peer.name} does not say which version it is; is it a Valkey or Redis server?")
    if (int(parts[0]), int(parts[1])) < VERSIONS[kind]:
        raise StoreError(
            f"{peer.name} is {kind} {text}, which has no server-side functions: use Redis 7.0 or Valkey 7.2, or later"
        )
    if isinstance(peer, Peer) and "cluster" in (fields.get("redis_mode"), fields.get("server_mode")):
        raise StoreError(
            f"{peer.name} is a node of a cluster: give the host and port of nodes, valkey://HOST:PORT,HOST:PORT"
        )
    return f"{kind} {text}"


def load_library(peer: Peer | Cluster, library: Library) -> None:
    """Load the functions, if they are not there. Raises StoreError."""
    try:
        peer.call("FUNCTION", "LOAD", "REPLACE", library.text)
    except ReplyError as error:
        raise StoreError(
            f"{error}\n    the server refuses the functions that operate on shared objects; the user needs the "
            "commands FUNCTION and FCALL, and an operation of a function must be correct Lua"
        ) from error
