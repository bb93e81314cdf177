"""Threaded NAPI: the kernel's own means against work for others. A thread of the kernel polls an interface of a
container in place of softirqs; in the container's cgroup, its time is the container's, and when that is throttled, the
device drops packets that it does not poll in time.

    python -m sluice.isolate.polling PROCESS INTERFACE 0|1      sets it in the network namespace of a process
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sluice.isolate.cgroups import processes
from sluice.isolate.errors import IsolateError
from sluice.isolate.interfaces import Interface, entered

_SIOCETHTOOL = 0x8946
_GET_TSO, _SET_TSO, _GET_GRO, _SET_GRO = 0x1E, 0x1F, 0x2B, 0x2C
_NEW_MOUNTS, _PRIVATE = 0x00020000, 1 << 18 | 1 << 14
_COMM = 15
"""Bytes of a thread's name."""


@dataclass(frozen=True)
class Change:
    """The changes at one interface, with the former values."""

    folder: str
    """Of the container's cgroup: by one of its processes its namespace is entered."""
    namespace: int
    """Inode of its network namespace."""
    interface: str
    gro: int
    """Generic receive offload, without which a veth does not poll."""
    outer: str
    """The host's end of the link; empty if there is none."""
    tso: int
    """Segmentation at the host's end: with it, a veth does not poll for local packets."""


def begin_polling(
    folder: Path, is_v1: bool, process: int, namespace: tuple[int, int], inside: Interface, other: Interface | None,
    keep: Callable[[Change], None],
) -> Change:  # fmt: skip
    """Let a thread poll an interface, in a cgroup. keep: records the change before it is made.

    process: of the container. namespace: descriptor and inode. other: the host's end. Raises IsolateError.
    """
    descriptor, inode = namespace
    with entered(descriptor):
        gro = _offload(inside.name, _GET_GRO)
    outer = other.name if other else ""
    change = Change(str(folder), inode, inside.name, gro, outer, _offload(outer, _GET_TSO) if outer else 0)
    keep(change)
    with entered(descriptor):
        _offload(inside.name, _SET_GRO, 1)
    if outer:
        _offload(outer, _SET_TSO, 0)
    before = _threads(inside.name)
    _set_threaded(process, inside.name, True)
    found = _threads(inside.name) - before
    if not found:
        undo(change)
        raise IsolateError("the driver has no NAPI, or another program made its threads already")
    cpus: set[int] = set()
    for one in processes(folder, below=True):
        with contextlib.suppress(OSError):
            cpus |= os.sched_getaffinity(one)
    for thread in found:
        try:
            (folder / ("tasks" if is_v1 else "cgroup.procs")).write_text(str(thread))
        except OSError as error:
            undo(change)
            raise IsolateError(
                f"the thread that polls cannot be moved to {folder}: {os.strerror(error.errno or 0)}"
            ) from error
        with contextlib.suppress(OSError):
            os.sched_setaffinity(thread, cpus)
    return change


def undo(change: Change) -> None:
    """As it was before. Nothing is left to do where the container has ended."""
    if change.outer:
        with contextlib.suppress(IsolateError):
            _offload(change.outer, _SET_TSO, change.tso)
    for process in processes(Path(change.folder), below=True):
        with contextlib.suppress(OSError, IsolateError):
            descriptor = os.open(f"/proc/{process}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            try:
                if os.fstat(descriptor).st_ino != change.namespace:
                    continue
                _set_threaded(process, change.interface, False)
                with entered(descriptor):
                    _offload(change.interface, _SET_GRO, change.gro)
            finally:
                os.close(descriptor)
            return


def _offload(name: str, command: int, value: int = 0) -> int:
    """Read or set an offload of an interface of the calling thread's namespace (ioctl of ethtool)."""
    data = bytearray(struct.pack("=II", command, value))
    buffer = (ctypes.c_char * len(data)).from_buffer(data)
    request = struct.pack("@16sP8x", name.encode(), ctypes.addressof(buffer))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as end:
        try:
            fcntl.ioctl(end, _SIOCETHTOOL, request)
        except OSError as error:
            raise IsolateError(f"offloads of {name} cannot be set: {os.strerror(error.errno or 0)}") from error
    return struct.unpack("=II", buffer.raw)[1]


def _set_threaded(process: int, interface: str, wanted: bool) -> None:
    """In a separate process, as sysfs shows the network namespace in which it was mounted."""
    command = [sys.executable, "-P", "-m", "sluice.isolate.polling", str(process), interface, str(int(wanted))]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", env=environment)
    if done.returncode:
        raise IsolateError(f"threaded NAPI cannot be set: {done.stderr.strip().splitlines()[-1:] or done.returncode}")


def _threads(interface: str) -> set[int]:
    """Threads that poll interfaces of that name, in any namespace."""
    name = f"napi/{interface}-"[:_COMM]
    found: set[int] = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):
                if (folder / "comm").read_text().startswith(name):
                    found.add(int(folder.name))
    return found


def _write_threaded(process: str, interface: str, value: str) -> None:
    namespace = os.open(f"/proc/{process}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    libc = ctypes.CDLL(None, use_errno=True)
    private = libc.unshare(_NEW_MOUNTS) or libc.mount(b"none", b"/", None, _PRIVATE, None)
    with entered(namespace):
        if private or libc.mount(b"sysfs", b"/sys", b"sysfs", 0, None):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "/sys")
        Path(f"/sys/class/net/{interface}/threaded").write_text(value)


if __name__ == "__main__":
    _write_threaded(*sys.argv[1:])
