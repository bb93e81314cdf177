"""Control groups of the processes of an isolated chain: limits of memory, CPU time and the number of processes.

A chain has a folder in each hierarchy that it uses, next to the processes that started it, with a folder for each
function. They are removed when the chain ends. A process that outlives the controller removes them if that is killed;
groups left by a killed one are removed by the next chain.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

CONTROLLERS = {"memory": "memory", "cpu": "CPU time", "pids": "the number of processes"}
PERIOD = 100_000
"""Microseconds in which a process may run for the part given by its limit of CPU time."""
_FOLDER = re.compile(r"sluice-chain-(\d+)-(\d+)")
_BUSY = 2.0
"""Seconds for which the folders of processes that are being killed cannot be removed."""


@dataclass(frozen=True)
class Base:
    """Where folders of a controller can be made."""

    folder: Path
    is_v2: bool


@dataclass(frozen=True)
class Quota:
    """The limits of a function. memory: bytes with those that it shares; 0 for no limit. cpu: cores; 0 for no limit."""

    memory: int = 0
    cpu: float = 0.0

    def values(self) -> dict[str, list[tuple[str, str, str]]]:
        """By controller the files of v1 and v2, and their values."""
        quota = int(self.cpu * PERIOD)
        found = {"pids": [("pids.max", "pids.max", "1")]}
        if self.memory:
            found["memory"] = [("memory.limit_in_bytes", "memory.max", str(self.memory))]
            found["memory"] += [("memory.memsw.limit_in_bytes", "memory.swap.max", "0")]
        if quota:
            found["cpu"] = [("cpu.cfs_period_us", "", str(PERIOD)), ("cpu.cfs_quota_us", "", str(quota))]
            found["cpu"] += [("", "cpu.max", f"{quota} {PERIOD}")]
        return found


@dataclass
class Cgroups:
    """The control groups of a chain. root: where the file systems proc and sys are mounted."""

    root: Path = Path("/")
    name: str = ""
    """Of the chain's folders."""
    made: list[Path] = field(default_factory=lambda: [])
    """The folders of functions."""
    enabled: list[tuple[Path, str]] = field(default_factory=lambda: [])
    """Controllers that were switched on for the folders of a group, for the chain."""
    bases: dict[str, Base] = field(default_factory=lambda: {})
    _cleaner: int = 0

    def open(self) -> None:
        """Find the hierarchies, and remove groups of chains that were killed."""
        self.name = f"sluice-chain-{os.getpid()}-{_start_of(os.getpid())}"
        self.bases = {name: base for name in CONTROLLERS if (base := self._base(name)) is not None}
        for folder in {base.folder for base in self.bases.values()}:
            _remove_stale(folder)

    def _base(self, controller: str) -> Base | None:
        """The group of this process in the hierarchy of a controller; in v2 the one above, where this one cannot divide
        what it has (cgroup-v2, "No Internal Process Constraint": a group with processes has no controllers to give).
        """
        own = self._own_groups()
        for folder, options, is_v2 in self._mounts():
            path = own.get("" if is_v2 else controller)
            if path is None or (not is_v2 and controller not in options):
                continue
            group = folder / path.lstrip("/")
            if not is_v2 and os.access(group, os.W_OK):
                return Base(group, False)
            for one in (group, group.parent) if is_v2 else ():
                if one.is_relative_to(folder) and self._enable(one, controller):
                    return Base(one, True)
        return None

    def _enable(self, group: Path, controller: str) -> bool:
        """Whether groups in a group of v2 have a controller."""
        file = group / "cgroup.subtree_control"
        with contextlib.suppress(OSError):
            if controller in file.read_text().split():
                return os.access(group, os.W_OK)
            if controller in (group / "cgroup.controllers").read_text().split():
                file.write_text(f"+{controller}")
                self.enabled.append((file, controller))
                return True
        return False

    def _own_groups(self) -> dict[str, str]:
        """The path of this process's group by controller; that in v2 as ""."""
        found: dict[str, str] = {}
        with contextlib.suppress(OSError):
            for line in (self.root / "proc/self/cgroup").read_text().splitlines():
                _, names, path = line.split(":", 2)
                found |= dict.fromkeys(names.split(","), path)
        return found

    def _mounts(self) -> list[tuple[Path, list[str], bool]]:
        """Mount point, options and whether it is v2, of each hierarchy."""
        found: list[tuple[Path, list[str], bool]] = []
        with contextlib.suppress(OSError):
            for line in (self.root / "proc/self/mounts").read_text().splitlines():
                _, point, kind, options, *_ = line.split(" ")
                if kind in ("cgroup", "cgroup2"):
                    found.append((self.root / point.lstrip("/"), options.split(","), kind == "cgroup2"))
        return found

    # --- folders of functions ---

    def make(self, name: str, quota: Quota) -> tuple[list[Path], list[str]]:
        """The folders of a function, which its process has to enter, and what has no limit, with the reason."""
        folders: dict[Path, None] = {}
        missing: list[str] = []
        for controller, values in quota.values().items():
            what = f"a limit of {CONTROLLERS[controller]} by cgroup"
            base = self.bases.get(controller)
            if base is None:
                missing.append(f"{what} ({'the system has none for it' if os.geteuid() == 0 else 'not root'})")
                continue
            try:
                folder = self._folder(base, name, controller)
                for v1, v2, value in values:
                    _set(folder, v2 if base.is_v2 else v1, value)
                folders[folder] = None
            except OSError as error:
                missing.append(f"{what} ({error.strerror})")
        return list(folders), missing

    def _folder(self, base: Base, name: str, controller: str) -> Path:
        """The folder of a function in a hierarchy."""
        chain = base.folder / self.name
        folder = chain / name
        if folder not in self.made:
            for one in (chain, folder):
                one.mkdir(exist_ok=True)
            self.made.append(folder)
        if base.is_v2:
            (chain / "cgroup.subtree_control").write_text(f"+{controller}")
        return folder

    def remove(self, name: str) -> None:
        """Remove the folders of a function that has ended."""
        for folder in [one for one in self.made if one.name == name]:
            _remove(folder)
            self.made.remove(folder)

    # --- the end ---

    def watch(self, others: Iterable[int], *files: str) -> None:
        """Start the process that removes the folders, and `files`, if this process is killed. others: open files that
        it must not have.
        """
        self._cleaner = os.fork()
        if self._cleaner:
            return
        try:
            os.setsid()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            watched = os.pidfd_open(os.getppid())
            nothing = os.open(os.devnull, os.O_RDWR)
            for file in (0, 1, 2):  # a pipe that is one of them ends with the chain
                os.dup2(nothing, file)
            for file in others:
                os.close(file)
            select.select([watched], [], [])
            self._clean()
            for path in files:
                Path(path).unlink(missing_ok=True)
        finally:
            os._exit(0)

    def close(self) -> None:
        """Remove all folders."""
        if self._cleaner:
            os.kill(self._cleaner, signal.SIGKILL)
            os.waitpid(self._cleaner, 0)
            self._cleaner = 0
        self._clean()

    def _clean(self) -> None:
        for folder in {base.folder for base in self.bases.values()}:
            _remove(folder / self.name)
        self.made.clear()
        for file, controller in self.enabled:
            with contextlib.suppress(OSError):
                file.write_text(f"-{controller}")
        self.enabled.clear()


def _set(folder: Path, file: str, value: str) -> None:
    """Write a limit. Swap is not counted on every system."""
    if not file:
        return
    try:
        (folder / file).write_text(value)
    except OSError:
        if "swap" not in file and "memsw" not in file:
            raise


def _start_of(process: int) -> int:
    """When a process started, in ticks since the system did; 0 if there is no such process."""
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


def _remove_stale(base: Path) -> None:
    """Remove the folders of chains whose controller does not run any more."""
    with contextlib.suppress(OSError):
        for folder in base.iterdir():
            found = _FOLDER.fullmatch(folder.name)
            if found and _start_of(int(found[1])) != int(found[2]):
                _remove(folder, kills=False)


def _remove(folder: Path, kills: bool = True) -> None:
    """Remove a group with those in it. kills: processes that are left are killed; else the group stays."""
    end = time.monotonic() + (_BUSY if kills else 0)
    for one in [*_children(folder), folder]:
        while one.is_dir():
            try:
                one.rmdir()
            except OSError:
                if time.monotonic() > end:
                    return
                _kill(one)
                time.sleep(0.005)


def _children(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return [one for one in folder.iterdir() if one.is_dir()]
    return []


def _kill(folder: Path) -> None:
    with contextlib.suppress(OSError, ValueError):
        for process in map(int, (folder / "cgroup.procs").read_text().split()):
            if process > 0:  # it is 0 for one of another namespace
                os.kill(process, signal.SIGKILL)
