"""A connection to a Valkey or Redis server from Python, for setting up and for reading its content (RESP 2)."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator

from sluice.state.errors import StoreError
from sluice.state.location import Location

Reply = bytes | int | list["Reply"] | None
REPLY_MOST = 1 << 26
"""Bytes of a reply; more is refused."""
ITEMS_MOST = 1 << 21
DEPTH_MOST = 8


class ReplyError(StoreError):
    """The server replied with an error. code: its text."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.code = text


class Peer:
    """A connection. Raises StoreError, with the reason and the advice, from every method."""

    def __init__(self, location: Location, timeout: float | None = None) -> None:
        self.name, self.location = location.name, location
        seconds = timeout if timeout is not None else location.timeout / 1000
        try:
            if location.path:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                self._socket.settimeout(seconds)
                self._socket.connect(location.path)
            else:
                self._socket = socket.create_connection((location.host, location.port), seconds)
        except OSError as error:
            raise StoreError(
                f"{self.name} cannot be reached: {error.strerror or error}; start a Valkey or Redis server there, or "
                "use --store embedded"
            ) from error
        self._pending = b""
        try:
            if location.password:
                self.call("AUTH", *([location.user] if location.user else []), location.password)
        except StoreError:
            self.close()
            raise

    def call(self, *words: str | bytes | int) -> Reply:
        """The reply to a command."""
        return self.calls([words])[0]

    def calls(self, commands: list[tuple[str | bytes | int, ...]]) -> list[Reply]:
        """The replies to several commands, which are transmitted together."""
        try:
            self._socket.sendall(b"".join(map(_command, commands)))
            return [self._reply() for _ in commands]
        except OSError as error:
            raise StoreError(f"{self.name}: the connection was lost: {error.strerror or error}") from error

    def each(self) -> list[Peer]:
        """A connection with each server that has keys."""
        return [self]

    def every(self) -> list[Peer]:
        """The same: it has no replicas that this connection knows of."""
        return [self]

    def set_timeout(self, seconds: float) -> None:
        """How long it waits for a reply from now on."""
        if self._socket.fileno() >= 0:
            self._socket.settimeout(seconds)

    def keys(self, pattern: str) -> Iterator[bytes]:
        """The keys that match a pattern, in no order."""
        cursor, seen = b"0", set[bytes]()
        while True:
            match self.call("SCAN", cursor, "MATCH", pattern, "COUNT", 1000):
                case [bytes(following), list(found)]:
                    for key in found:
                        if isinstance(key, bytes) and key not in seen:  # a key may be found twice
                            seen.add(key)
                            yield key
                    cursor = following
                case _:
                    raise StoreError(f"{self.name}: its reply to SCAN has an unknown form")
            if cursor == b"0":
                return

    def server_of(self, _key: str) -> str:
        """The identity of the running server that has a key; it changes when the server restarts."""
        return run_id(self.call("INFO", "server"))

    def is_lost(self) -> bool:
        """Whether the server has closed the connection."""
        if self._socket.fileno() < 0:  # it was closed, and there is no other one yet
            return True
        if not select.select([self._socket], [], [], 0)[0]:
            return False
        try:
            return not self._socket.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def close(self) -> None:
        """End it."""
        self._socket.close()

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _fill(self) -> None:
        part = self._socket.recv(1 << 16)
        if not part:
            raise StoreError(f"{self.name} closed the connection")
        self._pending += part

    def _line(self) -> bytes:
        while (end := self._pending.find(b"\r\n")) < 0:
            if len(self._pending) > 1 << 16:
                raise self._unknown()
            self._fill()
        line, self._pending = self._pending[:end], self._pending[end + 2 :]
        return line

    def _unknown(self) -> StoreError:
        return StoreError(f"{self.name}: its replies are no protocol of Valkey; is it such a server?")

    def _number(self, text: bytes, most: int) -> int:
        digits = text.removeprefix(b"-")
        if not digits.isdigit() or len(digits) > 19 or int(text) > most:
            raise self._unknown()
        return int(text)

    def _reply(self, depth: int = 0) -> Reply:
        line = self._line()
        kind, rest = line[:1], line[1:]
        match kind:
            case b"+":
                return rest
            case b"-":
                raise ReplyError(self.name, rest.decode(errors="replace"))
            case b":":
                return self._number(rest, 1 << 63)
            case b"$":
                size = self._number(rest, REPLY_MOST)
                if size < 0:
                    return None
                parts, have = [self._pending], len(self._pending)
                while have < size + 2:
                    self._pending = b""
                    self._fill()
                    parts.append(self._pending)
                    have += len(self._pending)
                whole = b"".join(parts)
                self._pending = whole[size + 2 :]
                return whole[:size]
            case b"*" if depth < DEPTH_MOST:
                count = self._number(rest, ITEMS_MOST)
                return None if count < 0 else [self._reply(depth + 1) for _ in range(count)]
            case _:
                raise self._unknown()


def info_fields(info: Reply) -> dict[str, str]:
    """The fields of a reply to INFO, by name; none of another reply."""
    lines = info.decode(errors="replace").splitlines() if isinstance(info, bytes) else []
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def run_id(info: Reply) -> str:
    """The field `run_id` of a reply to INFO; empty without one."""
    return info_fields(info).get("run_id", "")


def _command(words: tuple[str | bytes | int, ...]) -> bytes:
    out = [b"*%d\r\n" % len(words)]
    for word in words:
        data = word if isinstance(word, bytes) else str(word).encode()
        out.append(b"$%d\r\n%s\r\n" % (len(data), data))
    return b"".join(out)
