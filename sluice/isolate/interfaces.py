"""Network interfaces of a container, and the host's ends of its links, by rtnetlink(7)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from sluice.isolate.errors import IsolateError

_NEWLINK, _GETLINK, _NEWNSID, _GETNSID, _DONE, _ERROR = 16, 18, 88, 90, 3, 2
_REQUEST, _DUMP = 0x001, 0x300
_IFNAME, _LINK, _LINKINFO, _NETNSID, _KIND = 3, 5, 18, 37, 1
_NSID, _NSID_FD = 1, 3
_NEW_FILTER, _GET_FILTER = 44, 46
_TYPE_MASK = 0x3FFF
_UP, _LOOPBACK = 0x1, 0x8
_CLONE_NEWNET = 0x40000000
_INTERFACES = 4096
"""Of one namespace that are looked at."""


@dataclass(frozen=True)
class Interface:
    """An interface in its namespace."""

    name: str
    index: int
    kind: str
    """`veth`, `macvlan`, ...; empty for a device."""
    peer: int
    """Index of the other end of a link, or of the device below; 0 for none."""
    peer_namespace: int
    """The namespace of `peer`, by the identifier that this one has for it; -1 for this one."""
    is_up: bool = True
    """Without it, no packet passes: tunnel drivers put an interface of theirs into every namespace."""


@contextlib.contextmanager
def entered(namespace: int) -> Generator[None]:
    """The calling thread is in a network namespace, by its descriptor. Raises IsolateError without CAP_SYS_ADMIN."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _set_namespace(namespace)
        try:
            yield
        finally:
            _set_namespace(own)
    finally:
        os.close(own)


def _set_namespace(descriptor: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, _CLONE_NEWNET):
        text = os.strerror(ctypes.get_errno())
        raise IsolateError(f"the network namespace of a container cannot be entered: {text} (CAP_SYS_ADMIN is needed)")


def interfaces() -> list[Interface]:
    """All interfaces of the calling thread's network namespace but loopback."""
    found: list[Interface] = []
    for kind, body in _request(_GETLINK, _DUMP, struct.pack("=BxHiII", 0, 0, 0, 0, 0)):
        if kind != _NEWLINK or len(found) == _INTERFACES:
            continue
        _, _, index, flags, _ = struct.unpack_from("=BxHiII", body)
        attributes = dict(_attributes(body[16:]))
        if flags & _LOOPBACK:
            continue
        info = dict(_attributes(attributes.get(_LINKINFO, b"")))
        found.append(
            Interface(
                attributes.get(_IFNAME, b"").rstrip(b"\0").decode(errors="replace"),
                index,
                info.get(_KIND, b"").rstrip(b"\0").decode(errors="replace"),
                _number(attributes.get(_LINK), 0),
                _number(attributes.get(_NETNSID), -1),
                bool(flags & _UP),
            )
        )
    return found


def namespace_identifier(namespace: int) -> int:
    """The calling thread's identifier of another network namespace, given by a descriptor; -1 if no name is known, as
    when it has no link there.
    """
    attribute = struct.pack("=HHI", 8, _NSID_FD, namespace)
    for kind, body in _request(_GETNSID, 0, struct.pack("=Bxxx", 0) + attribute):
        if kind == _NEWNSID:
            return _number(dict(_attributes(body[4:])).get(_NSID), -1)
    return -1


def host_end(inside: Interface, outside: list[Interface], identifier: int) -> Interface | None:
    """The host's end of a container's veth; None if it has none there.

    outside: interfaces of the host. identifier: the container's in the host's namespace.
    """
    if inside.kind != "veth" or identifier < 0:
        return None
    for other in outside:
        if (other.kind, other.index, other.peer, other.peer_namespace) == (
            "veth",
            inside.peer,
            inside.index,
            identifier,
        ):
            return other
    return None


def has_filters(index: int) -> bool:
    """Whether tc has a filter at the ingress or egress (clsact) of an interface of this namespace."""
    return any(
        kind == _NEW_FILTER
        for parent in (0xFFFFFFF2, 0xFFFFFFF3)  # TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS and TC_H_MIN_EGRESS)
        for kind, _ in _request(_GET_FILTER, _DUMP, struct.pack("=BxxxiIII", 0, index, 0, parent, 0))
    )


def _request(kind: int, flags: int, body: bytes) -> Iterator[tuple[int, bytes]]:
    """Send a request, and yield the types and bodies of the answer. Raises IsolateError if the kernel refuses it."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE) as link:
        link.sendto(struct.pack("=IHHII", 16 + len(body), kind, _REQUEST | flags, 1, 0) + body, (0, 0))
        while True:
            data = link.recv(1 << 17)
            position = 0
            while position + 16 <= len(data):
                length, found, _, _, _ = struct.unpack_from("=IHHII", data, position)
                if length < 16:
                    return
                answer = data[position + 16 : position + length]
                position += length + -length % 4
                if found == _DONE:
                    return
                if found == _ERROR:
                    number = -struct.unpack_from("=i", answer)[0]
                    if number:
                        raise IsolateError(f"interfaces cannot be listed: {os.strerror(number)}")
                    return
                yield found, answer
            if not flags & _DUMP:
                return


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, position)
        if length < 4:
            return
        yield kind & _TYPE_MASK, data[position + 4 : position + length]
        position += length + -length % 4


def _number(value: bytes | None, default: int) -> int:
    return struct.unpack("=i", value)[0] if value is not None and len(value) == 4 else default
