"""Permissions of an isolated function's process, once it has opened its files: a separate user, no new privileges,
limits of resources, its control groups, and the system calls that a function needs (seccomp).

Each part is applied where the system allows; `Limits.apply` returns those that failed.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import platform
import resource
import signal
import struct
from dataclasses import dataclass
from pathlib import Path

from sluice.chain.processes.cgroups import Quota
from sluice.chain.processes.memory import LOG_BYTES, SLOTS
from sluice.chain.processes.program import Part

_SHARED = (SLOTS * LOG_BYTES) + (32 << 20)
"""Bytes of the log of a function, and of pages that its process copies as it writes to them."""

FIRST_USER = 61184
"""The user of the first function; systemd gives users from this number on to services that have none."""

_PDEATHSIG, _NO_NEW_PRIVS, _SECCOMP = 1, 38, 22
_FILTER = 2

_CALLS = {  # name: numbers for x86_64 and aarch64; None where the processor has no such call
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "fstat": (5, 80), "lseek": (8, 62), "mmap": (9, 222),
    "mprotect": (10, 226), "munmap": (11, 215), "brk": (12, 214), "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "ioctl": (16, 29), "pwrite64": (18, 68),
    "readv": (19, 65), "writev": (20, 66), "sched_yield": (24, 124), "mremap": (25, 216), "madvise": (28, 233),
    "nanosleep": (35, 101), "getpid": (39, 172), "exit": (60, 93), "fsync": (74, 82), "ftruncate": (77, 46),
    "gettimeofday": (96, 169), "getuid": (102, 174), "sigaltstack": (131, 132), "gettid": (186, 178),
    "futex": (202, 98), "restart_syscall": (219, 128), "clock_gettime": (228, 113), "clock_nanosleep": (230, 115),
    "exit_group": (231, 94), "tgkill": (234, 131), "set_robust_list": (273, 99), "getrandom": (318, 278),
    "rseq": (334, 293), "pread64": (17, 67), "fcntl": (72, 25),
    "newfstatat": (262, 79),
}  # fmt: skip
_FILES = {  # a function in Python may import modules
    "openat": (257, 56), "stat": (4, None), "lstat": (6, None), "readlink": (89, None),
    "readlinkat": (267, 78), "getdents64": (217, 61), "getcwd": (79, 17), "access": (21, None), "open": (2, None),
    "statx": (332, 291), "faccessat": (269, 48), "sysinfo": (99, 179), "sched_getaffinity": (204, 123),
}  # fmt: skip
_CONNECTION = {  # to the store; it is made again when it is lost
    "socket": (41, 198), "connect": (42, 203), "sendto": (44, 206), "recvfrom": (45, 207), "setsockopt": (54, 208),
    "getsockopt": (55, 209), "poll": (7, None), "ppoll": (271, 73),
}  # fmt: skip
_TCGETS, _FIONREAD = 0x5401, 0x541B
_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Limits:
    """The limits of the process of function `number`. memory: bytes of its own memory; 0 for no limit. python: whether
    it runs functions in Python. store: whether it has a connection to a store. user: whether it gets a separate user.
    groups: folders of its control groups. unlimited: resources that these do not limit.
    """

    number: int
    memory: int = 0
    python: bool = False
    store: bool = False
    user: bool = True
    groups: tuple[Path, ...] = ()
    unlimited: tuple[str, ...] = ()

    def apply(self) -> list[str]:
        """Apply them to this process. Returns those that the system did not allow."""
        missing: list[str] = [*self.unlimited]
        for group in self.groups:
            try:
                (group / "cgroup.procs").write_text("0")
            except OSError as error:
                missing.append(f"a control group in {group.parent.parent} ({error.strerror})")
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if self.memory:
            most = _data() + self.memory
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))
        if self.user and os.geteuid() == 0:
            own = FIRST_USER + self.number
            try:
                os.setgroups([])
                os.setresgid(own, own, own)
                os.setresuid(own, own, own)
                resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
            except OSError as error:
                missing.append(f"a user of its own ({error.strerror})")
        elif self.user:
            missing.append("a user of its own (not root)")
        # a change of the user clears it
        _libc.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if _libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0):
            missing.append("no new privileges")
        elif (why := self._filter()) is not None:
            missing.append(f"a filter of system calls ({why})")
        return missing

    def _filter(self) -> str | None:
        """Allow the system calls that a function needs; others fail with EPERM."""
        machine = platform.machine()
        if machine not in _ARCHITECTURES:
            return f"not known for {machine}"
        architecture, column = _ARCHITECTURES[machine]
        calls = _CALLS | (_FILES if self.python else {}) | (_CONNECTION if self.store else {})
        restricted = {"tgkill": (0, (os.getpid(),)), "ioctl": (1, (_TCGETS, _FIONREAD))}  # an argument, and its values
        allowed = [
            numbers[column] for name, numbers in calls.items() if numbers[column] is not None and name not in restricted
        ]
        load, equal, give = 0x20, 0x15, 0x06
        program = [(load, 0, 0, 4), (equal, 1, 0, architecture), (give, 0, 0, 0x80000000), (load, 0, 0, 0)]
        for name, (argument, values) in restricted.items():
            program += [(equal, 0, len(values) + 3, int(calls[name][column] or 0)), (load, 0, 0, 16 + 8 * argument)]
            program += [(equal, len(values) - place, 0, value) for place, value in enumerate(values)]
            program += [(give, 0, 0, 0x00050001), (give, 0, 0, 0x7FFF0000)]
        for place, number in enumerate(allowed):
            program.append((equal, len(allowed) - place, 0, int(number or 0)))
        program += [(give, 0, 0, 0x00050001), (give, 0, 0, 0x7FFF0000)]
        code = b"".join(struct.pack("HBBI", *row) for row in program)
        kept = ctypes.create_string_buffer(code, len(code))
        whole = struct.pack("HxxxxxxP", len(program), ctypes.addressof(kept))
        if _libc.prctl(_SECCOMP, _FILTER, ctypes.c_char_p(whole), 0, 0):
            return os.strerror(ctypes.get_errno())
        return None


def group_name(part: Part) -> str:
    """The folder of the control groups of a process."""
    return f"{part.number}-{part.label}"


def quota_of(part: Part) -> Quota:
    """The limits of control groups: memory that a process shares counts too, which is that of its log."""
    return Quota(part.memory + _SHARED if part.memory else 0, part.cpu)


def _data() -> int:
    """Bytes of memory that this process may write, and shares with no other; the box's mapped memory is part of it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) << 10
    return 0


def end_with_controller() -> None:
    """This process is killed when the controller ends."""
    _libc.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def begin_process(session: bool = False) -> None:
    """In a new process: it ends with the controller, and Ctrl-C is the controller's. session: it has no terminal."""
    with contextlib.suppress(OSError):
        if session:
            os.setsid()
        else:
            os.setpgid(0, 0)
    end_with_controller()
    faulthandler.disable()  # the controller reports that a process crashed
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
