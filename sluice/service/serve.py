"""What a compiled service is connected to, and the command line that says so."""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sluice.service.bounds import Limits
from sluice.service.lang.check.scope import Signature
from sluice.service.lang.errors import ServiceError, suggest

Address = tuple[str, int]
COMMON = ("workers", "slice", "events")
"""Limits of all services of a process."""


class AddressError(Exception):
    """An address that is none, or a name that is not known; the message says what to do."""


@dataclass(frozen=True)
class Wiring:
    """What each channel of a process is connected to: the number of the one that is accepted, and its address; the
    addresses of the others by their number.
    """

    accept: int
    listen: Address
    backends: dict[int, list[Address]]

    @property
    def channels(self) -> int:
        """Channels of an instance."""
        return 1 + sum(len(each) for each in self.backends.values())

    @property
    def folders(self) -> bool:
        """Whether a backend is a folder."""
        return any(_is_folder(each) for addresses in self.backends.values() for each in addresses)


def read_address(text: str) -> Address:
    """HOST:PORT or [HOST]:PORT, with the host's first address. Raises AddressError."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise AddressError(f"'{text}' is no address: write HOST:PORT, such as 127.0.0.1:11211")
    host = host.removeprefix("[").removesuffix("]")
    try:
        found = socket.getaddrinfo(host or "0.0.0.0", int(port), type=socket.SOCK_STREAM)
    except OSError as error:
        raise AddressError(f"'{text}': {error.strerror or error}; give a name that is known, or an address") from error
    return str(found[0][4][0]), int(found[0][4][1])


def read_backend(text: str) -> Address:
    """An address, or a folder: its path, with the port 0. Raises AddressError."""
    if not text.startswith(("/", "./", "../")) and text not in (".", ".."):
        return read_address(text)
    path = Path(text).resolve()
    if not path.is_dir():
        raise AddressError(f"'{text}' is no folder: give an address, or a folder whose files are sent")
    return str(path), 0


def _is_folder(backend: Address) -> bool:
    return backend[0].startswith("/")


def wire(process: Signature, listen: tuple[str, Address], backends: list[tuple[str, list[Address]]]) -> Wiring:
    """Connect the channels of a process. A name that is empty means the channel that is left: the one that is accepted
    is called `client`, or is the first single one. Raises ServiceError.
    """
    place = process.declaration.place
    names = [each.name for each in process.channels]
    single = [each.name for each in process.channels if each.kind == "channel"]
    accepted = listen[0] or ("client" if "client" in single else next(iter(single), ""))
    if not accepted:
        raise ServiceError(
            place, "this process has only arrays of channels", "name one to accept: --listen NAME=ADDRESS."
        )
    if accepted not in names:
        raise ServiceError(place, f"'{process.name}' has no channel '{accepted}'", suggest(accepted, names))
    if accepted not in single:
        raise ServiceError(place, f"'{accepted}' is an array: a single channel is accepted", "name another.")
    found: dict[int, list[Address]] = {}
    for name, addresses in backends:
        left = [each for each in names if each != accepted and names.index(each) not in found]
        if not name and len(left) != 1:
            raise ServiceError(
                place, "these backends fit several channels" if left else "no channel is left for these backends",
                f"write --backends NAME=ADDRESS,...; the channels are {', '.join(names)}.",
            )  # fmt: skip
        name = name or left[0]
        if name not in left:
            raise ServiceError(place, f"'{process.name}' has no channel '{name}' that is left", suggest(name, left))
        if name in single and len(addresses) != 1:
            raise ServiceError(
                place, f"'{name}' is a single channel, and has {len(addresses)} backends", "give it one."
            )
        found[names.index(name)] = addresses
    missing = [each for each in names if each != accepted and names.index(each) not in found]
    if missing:
        raise ServiceError(
            place, f"nothing is connected to '{missing[0]}'", f"give --backends {missing[0]}=ADDRESS,...."
        )
    return Wiring(names.index(accepted), listen[1], found)


def command_of(
    program: Path,
    *services: tuple[Wiring, Limits],
    metrics: Address | None = None,
    listeners: Sequence[Sequence[int]] = (),
) -> list[str]:
    """The command line of compiled services, with the wiring and limits of each, and where metrics are read.
    `listeners`: for each service the descriptors of its listening sockets, if the process does not make its own.
    """
    out = [str(program)]
    if metrics is not None:
        out += ["--metrics", metrics[0], str(metrics[1])]
    for name in COMMON:
        out += [f"--{name}", str(getattr(services[0][1], name))]
    for number, (wiring, limits) in enumerate(services):
        host, port = wiring.listen
        out += ["--service", str(number), "--listen", host, str(port), "--accept", str(wiring.accept)]
        for each in listeners[number] if listeners else ():
            out += ["--listener", str(each)]
        for channel, addresses in sorted(wiring.backends.items()):
            for each in addresses:
                if _is_folder(each):
                    out += ["--folder", str(channel), each[0]]
                else:
                    out += ["--backend", str(channel), each[0], str(each[1])]
        for name in (each.name for each in dataclasses.fields(limits) if each.name not in COMMON):
            out += [f"--{name.replace('_', '-')}", str(getattr(limits, name))]
    return out
