"""Where the shared objects of functions are: the value of --store."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

FORMS = "local, embedded, valkey://HOST:PORT or valkey+unix:///PATH"
PORT = 6379


class LocationError(ValueError):
    """A text that is no store; the message says which there are."""


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

    @property
    def name(self) -> str:
        """What messages call it; without the password."""
        if self.kind != "server":
            return f"the {self.kind} store"
        return f"the store {self.path}" if self.path else f"the store {self.host}:{self.port}"


def read_location(text: str) -> Location:
    """The store that a text names. Raises LocationError.

    Options follow a `?`, with `&` between them: wait=all, cache=no, timeout=MILLISECONDS.
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
            case _:
                raise LocationError(
                    f"'{key}={value}': a store's options are wait=all, wait=results, cache=yes, cache=no and "
                    "timeout=MILLISECONDS"
                )
    if name in ("local", "embedded"):
        if name == "local" and query:
            raise LocationError(f"'{text}': local objects are waited for by no one: no options follow 'local'")
        return Location(name, wait=wait, cache=cache, timeout=timeout)
    try:
        parts = urlsplit(name)
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        host, port = parts.hostname or "", parts.port or PORT
    except ValueError as error:
        raise LocationError(f"'{text}': {error}; a store is {FORMS}") from error
    if parts.scheme in ("valkey", "redis") and host and parts.path in ("", "/"):
        return Location("server", host, port, "", user, password, wait, cache, timeout)
    if parts.scheme in ("valkey+unix", "redis+unix") and not host and len(parts.path) > 1:
        return Location("server", "", 0, unquote(parts.path), user, password, wait, cache, timeout)
    raise LocationError(f"'{text}' is no store: it is {FORMS}")
