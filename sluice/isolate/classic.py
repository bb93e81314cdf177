"""Programs that tc runs as classifiers (clsact), on kernels without tcx, which is new in Linux 6.6.

The kernel does not remove such a program when the process ends that attached it. Each is therefore recorded before it
is attached, and the watchdog removes it (restore.py). Until then it passes all packets: the gate opens with time.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from collections.abc import Callable, Generator
from ctypes import c_int, c_size_t, c_uint32
from dataclasses import dataclass
from pathlib import Path

from sluice.isolate.cgroups import processes
from sluice.isolate.errors import IsolateError
from sluice.isolate.interfaces import entered, has_filters
from sluice.isolate.libbpf import has_type, library

_INGRESS, _EGRESS = 1, 2
_FIRST, _HANDLES = 0x5100, 16
_PRIORITY = 1
_EXISTS = {-errno.EEXIST, -errno.ENOSPC}


class _Hook(ctypes.Structure):
    _fields_ = (("size", c_size_t), ("interface", c_int), ("point", c_int), ("parent", c_uint32))


class _Options(ctypes.Structure):
    _fields_ = (
        ("size", c_size_t),
        ("program", c_int),
        ("flags", c_uint32),
        ("identifier", c_uint32),
        ("handle", c_uint32),
        ("priority", c_uint32),
    )


@dataclass(frozen=True)
class Filter:
    """A program at one interface."""

    folder: str
    """Of the container's cgroup: by one of its processes the namespace is entered. Empty for the host's interfaces."""
    namespace: int
    """Inode of the network namespace; 0 for the host's."""
    interface: int
    egress: bool
    handle: int
    program: int
    """The kernel's identifier of it, by which another program with this handle is left."""
    makes_queue: bool
    """Whether clsact was not there before: it is removed with the last filter."""


def has_tcx() -> bool:
    """Whether the kernel attaches programs for tc by links, which end with their process."""
    return has_type("tcx_link")


def attach(
    descriptor: int, interface: int, egress: bool, owner: tuple[str, int], keep: Callable[[Filter], None]
) -> Filter:
    """Attach a program to an interface of the calling thread's network namespace.

    descriptor: of the program. owner: folder and namespace of the Filter. keep: records it before it is attached; what
    was recorded and is not attached may be removed as well. Raises IsolateError.
    """
    hook = _hook(interface, egress)
    made = library().bpf_tc_hook_create(ctypes.byref(hook))
    if made and made not in _EXISTS:
        raise IsolateError(f"clsact cannot be added to interface {interface}: {os.strerror(-made)}")
    failed = 0
    for handle in range(_FIRST, _FIRST + _HANDLES):
        found = Filter(*owner, interface, egress, handle, _identifier(descriptor), not made)
        keep(found)
        options = _Options(ctypes.sizeof(_Options), descriptor, 0, 0, handle, _PRIORITY)
        failed = library().bpf_tc_attach(ctypes.byref(hook), ctypes.byref(options))
        if not failed:
            return found
        if failed not in _EXISTS:
            break
    raise IsolateError(f"attaching a classifier to interface {interface}: {os.strerror(-failed)}")


def remove(found: Filter) -> None:
    """Detach it, if it is still there, and clsact, if it was added for it and has no other filter."""
    with contextlib.suppress(IsolateError), _namespace(found):
        hook = _hook(found.interface, found.egress)
        options = _Options(ctypes.sizeof(_Options), 0, 0, 0, found.handle, _PRIORITY)
        there = not library().bpf_tc_query(ctypes.byref(hook), ctypes.byref(options))
        if there and options.identifier == found.program:
            options = _Options(ctypes.sizeof(_Options), 0, 0, 0, found.handle, _PRIORITY)
            library().bpf_tc_detach(ctypes.byref(hook), ctypes.byref(options))
        if found.makes_queue and not has_filters(found.interface):
            hook.point = _INGRESS | _EGRESS
            library().bpf_tc_hook_destroy(ctypes.byref(hook))


def _hook(interface: int, egress: bool) -> _Hook:
    return _Hook(ctypes.sizeof(_Hook), interface, _EGRESS if egress else _INGRESS, 0)


def _identifier(descriptor: int) -> int:
    """The kernel's identifier of a program: the second field of struct bpf_prog_info."""
    words, length = (c_uint32 * 2)(), c_uint32(8)
    if library().bpf_obj_get_info_by_fd(descriptor, ctypes.byref(words), ctypes.byref(length)):
        raise IsolateError(f"the program's identifier cannot be read: {os.strerror(ctypes.get_errno())}")
    return int(words[1])


@contextlib.contextmanager
def _namespace(found: Filter) -> Generator[None]:
    """In the network namespace of a filter. Raises IsolateError if no process of the container has it any more."""
    if not found.folder:
        yield
        return
    for process in processes(Path(found.folder), below=True):
        with contextlib.suppress(OSError):
            descriptor = os.open(f"/proc/{process}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            if os.fstat(descriptor).st_ino == found.namespace:
                break
            os.close(descriptor)
    else:
        raise IsolateError(f"no process of {found.folder} is in that network namespace")
    try:
        with entered(descriptor):
            yield
    finally:
        os.close(descriptor)
