"""Where the shared objects of functions are: the value of --store."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

FORMS = "local, embedded, valkey://HOST:PORT, valkey://HOST:PORT,HOST:PORT or valkey+unix:///PATH"
PORT = 6379
SAFETY = ("memory", "replica", "disk")
"""Where an update must be before it counts as stored: in the memory of one server, of a replica, too, or in the
append-only files of the server and, in a cluster, of a replica.
"""


class LocationError(ValueError):
    """A text that is no location of a store; the message lists the forms."""


DISK_TIMEOUT = 2000
"""The least timeout with `disk`, in milliseconds: appendfsync everysec writes each second (Valkey's valkey.conf)."""


@dataclass(frozen=True)
class Location:
    """A store: `kind` is local, embedded or server.

    path: of a server's Unix socket, else "". wait: a packet waits for every update, not only for results that it needs.
    cache: flow-scoped objects are cached. timeout: milliseconds that a packet waits for a reply.
    """

    kind: str
    host: str = ""
    port: int = PORT
    path: str = ""
    user: str = ""
    password: str = ""
    wait: bool = False
    cache: bool = True
    timeout: int = 5000
    nodes: tuple[tuple[str, int], ...] = ()
    """Of a cluster: nodes that are known."""
    safety: str = ""
    """One of SAFETY; else `replica` of a cluster, and `memory`."""
    waits_disk: bool = False
    """Whether WAITAOF is needed for `disk`: see sluice/state/safety.py."""

    @property
    def replicas(self) -> int:
        """Replicas that must have an update before it counts as stored."""
        return int(self.safety == "replica" or (self.safety != "memory" and bool(self.nodes)))

    @property
    def name(self) -> str:
        """Its name in messages; without the password."""
        if self.kind != "server":
            return f"the {self.kind} store"
        return f"the store {self.path}" if self.path else f"the store {self.host}:{self.port}"


def read_location(text: str, safety: str = "") -> Location:
    """The store that a text names. safety: one of SAFETY, if the text has none. Raises LocationError.

    Options follow a `?`, with `&` between them: wait=all, cache=no, timeout=MILLISECONDS, safety=memory|replica|disk.
    """
    name, _, query = text.partition("?")
    wait, cache, timeout = False, True, 5000
    for key, value in parse_qsl(query, keep_blank_values=True):
        match key, value:
            case "wait", "all" | "results":
                wait = value == "all"
            case "cache", "yes" | "no":
                cache = value == "yes"
            case "timeout", _ if value.isascii() and value.isdigit() and 1 <= int(value) <= 3_600_000:
                timeout = int(value)
            case "safety", _ if value in SAFETY and safety in ("", value):
                safety = value
            case _:
                raise LocationError(
                    f"'{key}={value}': a store's options are wait=all, wait=results, cache=yes, cache=no, "
                    f"timeout=MILLISECONDS and safety={', safety='.join(SAFETY)}"
                )
    if safety == "disk" and timeout < DISK_TIMEOUT:
        raise LocationError(
            f"'{text}': a file to which a server writes each second has an update only after that: give a timeout of "
            f"at least {DISK_TIMEOUT} with safety=disk"
        )
    if name in ("local", "embedded"):
        if name == "local" and (query or safety):
            raise LocationError(f"'{text}': local objects are waited for by no one: no options follow 'local'")
        if safety == "replica" and name == "embedded":
            raise LocationError(f"'{text}': an embedded store has no replicas: give a cluster")
        if safety == "disk" and name == "embedded":
            raise LocationError(f"'{text}': an embedded store has nothing on disk: give a server that has a file")
        return Location(name, wait=wait, cache=cache, timeout=timeout, safety=safety)
    try:
        parts = urlsplit(name)
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        nodes = _nodes(parts.scheme, parts.netloc.rpartition("@")[2])
        host, port = nodes[0]
    except ValueError as error:
        raise LocationError(f"'{text}': {error}; a store is {FORMS}") from error
    if parts.scheme in ("valkey", "redis") and all(each for each, _ in nodes) and parts.path in ("", "/"):
        several = nodes if len(nodes) > 1 else ()
        return Location("server", host, port, "", user, password, wait, cache, timeout, several, safety)
    if parts.scheme in ("valkey+unix", "redis+unix") and not host and len(parts.path) > 1:
        return Location("server", "", 0, unquote(parts.path), user, password, wait, cache, timeout, (), safety)
    raise LocationError(f"'{text}' is no store: it is {FORMS}")


def _nodes(scheme: str, text: str) -> tuple[tuple[str, int], ...]:
    """The servers of HOST:PORT,HOST:PORT,... Raises ValueError."""
    found = [urlsplit(f"{scheme}://{one}") for one in text.split(",")]
    return tuple((one.hostname or "", one.port or PORT) for one in found)
