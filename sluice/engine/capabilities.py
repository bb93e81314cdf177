"""Gives up rights of this process that it does not need any more (capabilities(7))."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Collection

_NAMES = (
    "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE "
    "NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN "
    "SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE "
    "MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE"
)
CAPABILITIES = {f"CAP_{name}": number for number, name in enumerate(_NAMES.split())}
"""By name, the number that linux/capability.h gives it."""
_HIGHEST = 63
_VERSION_3 = 0x20080522
_PR_SET_KEEPCAPS, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 8, 24, 38


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("process", ctypes.c_int))


class _Data(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def drop_capabilities(keep: Collection[str], become: Callable[[], None] | None = None) -> list[str]:
    """Drop all capabilities of the calling thread but those of CAPABILITIES that are named, for good. Returns those
    that are left: of the named ones, what it had. become: changes the user meanwhile.

    Raises OSError if the kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    header = _Header(_VERSION_3, 0)
    data = (_Data * 2)()
    _check(libc.capget(ctypes.byref(header), data))
    permitted = data[0].permitted | data[1].permitted << 32
    left = {name: number for name, number in CAPABILITIES.items() if name in keep and permitted >> number & 1}
    for number in range(_HIGHEST + 1):
        if number not in left.values():
            libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)  # refused for numbers that the kernel does not have
    if become is not None:
        _check(libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0))
        become()
    _check(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    mask = sum(1 << number for number in left.values())
    for i, word in enumerate((mask & 0xFFFFFFFF, mask >> 32)):
        data[i].effective, data[i].permitted, data[i].inheritable = word, word, 0
    _check(libc.capset(ctypes.byref(header), data))
    return list(left)


def _check(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
