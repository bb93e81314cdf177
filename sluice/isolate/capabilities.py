"""The capabilities that are needed once the programs are loaded."""

from __future__ import annotations

from collections.abc import Collection

from sluice.engine import capabilities

ACCOUNTING = ("CAP_NET_ADMIN", "CAP_SYS_PTRACE", "CAP_PERFMON", "CAP_BPF")
ENFORCING = (*ACCOUNTING, "CAP_SYS_ADMIN", "CAP_DAC_OVERRIDE")
"""Remaining: CAP_BPF updates the programs' tables, CAP_PERFMON reads the counters through a program of type raw_tp,
CAP_SYS_PTRACE finds the network namespaces of other users' processes, CAP_NET_ADMIN attaches the program that sees the
sockets of received packets, once containers share a namespace. To enforce, CAP_SYS_ADMIN enters the network namespaces
of containers, and CAP_DAC_OVERRIDE writes the limits of cgroups that belong to other users.
"""


def drop_capabilities(keep: Collection[str] = ACCOUNTING) -> list[str]:
    """Drop all others, see engine/capabilities.py."""
    return capabilities.drop_capabilities(keep)
