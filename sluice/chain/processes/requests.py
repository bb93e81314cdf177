"""The sources of requests to a controller; commands.py is the socket of `sluice chainctl`."""

from __future__ import annotations

from typing import Protocol, TypeVar

Served = TypeVar("Served", contravariant=True)


class Requests(Protocol[Served]):
    """A file to wait for, and the callback that serves a request to a controller of type `Served`."""

    @property
    def path(self) -> str | None:
        """The socket, which is removed if the controller is killed; None without one."""
        ...

    def fileno(self) -> int:
        """The file to wait for."""
        ...

    def files(self) -> list[int]:
        """All files that are open for requests."""
        ...

    def serve(self, controller: Served) -> None:
        """Serve one request."""
        ...
