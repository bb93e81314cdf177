"""Drops the capabilities that are not needed once the programs are loaded."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Collection

CAPABILITIES = {
    "CAP_DAC_OVERRIDE": 1,
    "CAP_NET_ADMIN": 12,
    "CAP_SYS_PTRACE": 19,
    "CAP_SYS_ADMIN": 21,
    "CAP_PERFMON": 38,
    "CAP_BPF": 39,
}
ACCOUNTING = ("CAP_NET_ADMIN", "CAP_SYS_PTRACE", "CAP_PERFMON", "CAP_BPF")
ENFORCING = (*ACCOUNTING, "CAP_SYS_ADMIN", "CAP_DAC_OVERRIDE")
"""What remains: CAP_BPF updates the programs' tables, CAP_PERFMON reads the counters through a program of type raw_tp,
CAP_SYS_PTRACE finds the network namespaces of other users' processes, CAP_NET_ADMIN attaches the program that sees the
sockets of received packets, once containers share a namespace. To enforce, CAP_SYS_ADMIN enters the network namespaces
of containers, and CAP_DAC_OVERRIDE writes the limits of cgroups that belong to other users.
"""
_HIGHEST = 63
_VERSION_3 = 0x20080522
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 24, 38


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("process", ctypes.c_int))


class _Data(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def drop_capabilities(keep: Collection[str] = ACCOUNTING) -> list[str]:
    """Drop all capabilities of the calling thread but those of CAPABILITIES that are named, for good. Returns those
    that are left: of the named ones, what it had.

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
