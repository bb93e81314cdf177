"""The addresses of a compiled service, and their command line."""

from __future__ import annotations

import dataclasses
import ipaddress
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sluice.service.bounds import Limits
from sluice.service.lang.check.scope import Signature
from sluice.service.lang.errors import ServiceError, suggest

Address = tuple[str, int]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
NETWORKS = 256
"""Networks whose PROXY headers count; runtime/prelude.c has the same number."""
COMMON = ("workers", "slice", "events", "body", "http2_memory", "tls_memory")
"""Limits of all services of a process."""


class AddressError(Exception):
    """An invalid address, or an unknown name; the message has the advice."""


class Backend(NamedTuple):
    """The target of a channel: an address, or a folder with the port 0. One with a name is connected by TLS, and its
    certificate has to have that name. `http2`: it uses HTTP/2.
    """

    host: str
    port: int
    name: str = ""
    http2: bool = False


@dataclass(frozen=True)
class Tls:
    """TLS of a service. `certificates`: files of a chain and of its key; without any, clients use no TLS. `protocols`:
    those of ALPN. `authorities`: a file of the certificates that sign those of backends; empty: those of the system.
    """

    certificates: tuple[tuple[str, str], ...] = ()
    protocols: tuple[str, ...] = ()
    authorities: str = ""


@dataclass(frozen=True)
class Wiring:
    """The target of each channel of a process: the number of the one that is accepted, and its address; the
    addresses of the others by their number.
    """

    accept: int
    listen: Address
    backends: dict[int, list[Backend]]
    tls: Tls = Tls()
    trusted: tuple[Network, ...] = ()
    """Whose PROXY headers count."""

    @property
    def channels(self) -> int:
        """Channels of an instance."""
        return 1 + sum(len(each) for each in self.backends.values())

    @property
    def folders(self) -> bool:
        """Whether a backend is a folder."""
        return any(_is_folder(each) for backends in self.backends.values() for each in backends)

    @property
    def uplinks(self) -> int:
        """Backends of HTTP/2."""
        return sum(each.http2 for backends in self.backends.values() for each in backends)

    @property
    def encrypted(self) -> bool:
        """Whether clients or backends use TLS."""
        return bool(self.tls.certificates) or any(each.name for every in self.backends.values() for each in every)


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


SCHEMES = ("tls://", "h2://", "h2c://")
"""Of backends that are connected by TLS, by TLS with HTTP/2, and with HTTP/2 alone (RFC 7540, section 3.1)."""


def split_scheme(text: str) -> tuple[str, str]:
    """The scheme of a backend, of SCHEMES or empty, and the rest."""
    scheme = next((each for each in SCHEMES if text.startswith(each)), "")
    return scheme, text.removeprefix(scheme)


def read_backend(text: str) -> Backend:
    """An address; tls://HOST:PORT and h2://HOST:PORT, whose name is HOST; h2c://HOST:PORT; or a folder. Raises
    AddressError.
    """
    scheme, place = split_scheme(text)
    if scheme:
        name = "" if scheme == "h2c://" else place.rpartition(":")[0].removeprefix("[").removesuffix("]")
        if not name and scheme != "h2c://":
            raise AddressError(f"'{text}' has no name that a certificate could have: write {scheme}HOST:PORT")
        return Backend(*read_address(place), name, scheme != "tls://")
    if not text.startswith(("/", "./", "../")) and text not in (".", ".."):
        return Backend(*read_address(text))
    path = Path(text).resolve()
    if not path.is_dir():
        raise AddressError(f"'{text}' is no folder: give an address, or a folder whose files are sent")
    return Backend(str(path), 0)


def _is_folder(backend: Backend) -> bool:
    return backend.host.startswith("/")


def read_certificate(text: str) -> tuple[str, str]:
    """CHAIN,KEY, or a file with both: the files, which are tried. Raises AddressError."""
    chain, _, key = text.partition(",")
    key = key or chain
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(chain, key, password=lambda: "")
    except ssl.SSLError as error:
        why = (error.reason or "no PEM").replace("_", " ").lower()
        raise AddressError(
            f"'{text}' is no chain of certificates with its key ({why}); give PEM files, CHAIN,KEY; encrypt no key"
        ) from error
    except OSError as error:
        raise AddressError(f"'{text}': {error.strerror or error}; give PEM files: CHAIN,KEY") from error
    return str(Path(chain).resolve()), str(Path(key).resolve())


def read_authorities(text: str) -> str:
    """A file of certificates, which is tried. Raises AddressError."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(text)
    except ssl.SSLError as error:
        raise AddressError(f"'{text}' has no certificates; give a PEM file of them") from error
    except OSError as error:
        raise AddressError(f"'{text}': {error.strerror or error}; give a PEM file of certificates") from error
    return str(Path(text).resolve())


def read_networks(text: str) -> tuple[Network, ...]:
    """Addresses and networks, separated by commas. Raises AddressError."""
    found: list[Network] = []
    for each in filter(None, map(str.strip, text.split(","))):
        try:
            found.append(ipaddress.ip_network(each, strict=False))
        except ValueError as error:
            raise AddressError(f"'{each}' is no address or network: write 10.0.0.1, 10.0.0.0/8, or ::/0") from error
    if len(found) > NETWORKS:
        raise AddressError(f"{len(found)} networks: at most {NETWORKS}")
    return tuple(found)


def wire(
    process: Signature,
    listen: tuple[str, Address],
    backends: Sequence[tuple[str, Sequence[Backend]]],
    tls: Tls = Tls(),
    trusted: tuple[Network, ...] = (),
) -> Wiring:
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
    found: dict[int, list[Backend]] = {}
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
        most = process.channels[names.index(name)].value
        if most is not None and len(addresses) > most:
            raise ServiceError(
                place, f"'{name}' has at most {most} channels, and {len(addresses)} backends are given",
                "give it fewer, or a larger cardinality.",
            )  # fmt: skip
        found[names.index(name)] = list(addresses)
    missing = [each for each in names if each != accepted and names.index(each) not in found]
    if missing:
        raise ServiceError(
            place, f"nothing is connected to '{missing[0]}'", f"give --backends {missing[0]}=ADDRESS,...."
        )
    return Wiring(names.index(accepted), listen[1], found, tls, trusted)


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
    for name in reversed(COMMON):  # the memory of TLS is bounded before TLS is used
        out += [f"--{name.replace('_', '-')}", str(getattr(services[0][1], name))]
    if metrics is not None:
        out += ["--metrics", metrics[0], str(metrics[1])]
    for number, (wiring, limits) in enumerate(services):
        host, port = wiring.listen
        out += ["--service", str(number), "--listen", host, str(port), "--accept", str(wiring.accept)]
        for each in listeners[number] if listeners else ():
            out += ["--listener", str(each)]
        out += _tls_options(wiring)
        for network in wiring.trusted:
            out += ["--proxy-protocol", str(network.network_address), str(network.prefixlen)]
        for channel, backends in sorted(wiring.backends.items()):
            for each in backends:
                if _is_folder(each):
                    out += ["--folder", str(channel), each.host]
                elif each.http2:
                    out += ["--h2-backend", str(channel), each.host, str(each.port), each.name]
                elif each.name:
                    out += ["--tls-backend", str(channel), each.host, str(each.port), each.name]
                else:
                    out += ["--backend", str(channel), each.host, str(each.port)]
        for name in (each.name for each in dataclasses.fields(limits) if each.name not in COMMON):
            out += [f"--{name.replace('_', '-')}", str(getattr(limits, name))]
    return out


def _tls_options(wiring: Wiring) -> list[str]:
    out: list[str] = []
    for chain, key in wiring.tls.certificates:
        out += ["--tls", chain, key]
    if any(each.name for every in wiring.backends.values() for each in every):
        out += ["--ca", wiring.tls.authorities]
    if wiring.encrypted and wiring.tls.protocols:
        out += ["--alpn", ",".join(wiring.tls.protocols)]
    return out
