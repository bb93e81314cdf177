"""The tree of cgroups in which CPU time is controlled, and which of its cgroups are containers."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sluice.isolate.errors import IsolateError

_DEPTH = 12
_CGROUPS = 20_000
"""Bounds of a walk: cgroups beyond them are not looked at."""

_ID = r"(?P<id>[0-9a-f]{64})"
_ENGINES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (engine, re.compile(pattern))
    for engine, pattern in (
        ("docker", rf"(?:^|.*/)docker[/-]{_ID}(?:\.scope)?"),
        ("podman", rf"(?:^|.*/)libpod-(?!conmon-){_ID}(?:\.scope)?"),
        ("containerd", rf"(?:^|.*/)(?:[^/]*:cri-containerd:|cri-containerd-){_ID}(?:\.scope)?"),
        ("crio", rf"(?:^|.*/)crio-(?!conmon-){_ID}(?:\.scope)?"),
        ("kubernetes", rf"(?:^|.*/)kubepods[^/]*(?:/.*)?/{_ID}"),
        ("containerd", rf"(?:default|k8s\.io|moby)/{_ID}"),
        ("lxc", r"(?:^|.*/)(?:lxc\.payload[./]|lxc/)(?P<id>[^/]+)"),
        ("nspawn", r"machine\.slice/(?:machine-|systemd-nspawn@)(?P<id>[^/]+)\.(?:scope|service)"),
    )
)
_SYSTEM = ("system.slice", "user.slice", "machine.slice", "init.scope", "kubepods*", "lxc.monitor*", "libpod_parent")
"""Folders in which a cgroup is a container only by the rule of an engine, or by the user's pattern."""


@dataclass(frozen=True)
class Hierarchy:
    """Where cgroups with the cpu controller are mounted."""

    folder: Path
    is_v1: bool
    v2_folder: Path | None
    """The mount of cgroup v2, if there is one: with it, the cgroups of sockets are known."""


@dataclass(frozen=True)
class Cgroup:
    """A cgroup that is a container."""

    path: str
    """From the root of the hierarchy, without a leading slash."""
    identifier: int
    """The kernel's number of it, the inode of its folder."""
    engine: str
    """`docker`, `podman`, ...; `plain` for one that no engine made."""
    name: str
    """For people: the first digits of an engine's identifier, or the path."""


def find_hierarchy(mounts: str | None = None) -> Hierarchy:
    """The hierarchy with the cpu controller: v1 if a v1 mount has it, else v2.

    mounts: the text of /proc/self/mountinfo. Raises IsolateError if no cgroups are mounted.
    """
    v1: Path | None = None
    v2: Path | None = None
    text = Path("/proc/self/mountinfo").read_text(encoding="utf-8") if mounts is None else mounts
    for line in text.splitlines():
        place, _, kind = line.partition(" - ")
        folder = Path(place.split()[4].encode().decode("unicode_escape"))
        kind, _, options = kind.partition(" ")
        if kind == "cgroup2":
            v2 = v2 or folder
        elif kind == "cgroup" and "cpu" in options.split()[-1].split(","):
            v1 = v1 or folder
    if v1 is not None:
        return Hierarchy(v1, True, v2)
    if v2 is not None:
        return Hierarchy(v2, False, v2)
    raise IsolateError(
        "no cgroup with the cpu controller is mounted; mount cgroup v2: mount -t cgroup2 none /sys/fs/cgroup"
    )


def require_cpu_controller(hierarchy: Hierarchy) -> None:
    """Raises IsolateError if limits cannot be set in a hierarchy, because it does not have the cpu controller."""
    if hierarchy.is_v1:
        return
    controllers = hierarchy.folder / "cgroup.controllers"
    if not controllers.exists() or "cpu" not in controllers.read_text().split():
        raise IsolateError(
            f"the cpu controller is not available in {hierarchy.folder}, so that limits cannot be enforced;\n"
            "    mount cgroup v1 with it, or free it for v2. `sluice isolate watch` accounts without it"
        )


def engine_of(path: str) -> tuple[str, str] | None:
    """Engine and name of a container by the path of its cgroup; None if no engine makes such paths."""
    for engine, pattern in _ENGINES:
        found = pattern.fullmatch(path)
        if found:
            name = found["id"]
            return engine, name[:12] if re.fullmatch("[0-9a-f]{64}", name) else name
    return None


def find_containers(hierarchy: Hierarchy, patterns: Sequence[str] = ()) -> list[Cgroup]:
    """All cgroups that are containers now.

    With patterns (as of a shell, of paths from the root), exactly the cgroups that match one. Without, those that an
    engine made, and any other cgroup with tasks outside of systemd's own. Cgroups below a container belong to it.
    """
    found: list[Cgroup] = []
    _collect(hierarchy, "", 0, patterns, found)
    return found


def _collect(hierarchy: Hierarchy, path: str, depth: int, patterns: Sequence[str], found: list[Cgroup]) -> None:
    for name in _children(hierarchy.folder / path):
        if len(found) >= _CGROUPS or depth >= _DEPTH:
            return
        child = f"{path}/{name}".lstrip("/")
        cgroup = _container(hierarchy, child, patterns)
        if cgroup is None:
            _collect(hierarchy, child, depth + 1, patterns, found)
        else:
            found.append(cgroup)


def _container(hierarchy: Hierarchy, path: str, patterns: Sequence[str]) -> Cgroup | None:
    if patterns:
        if not any(fnmatch.fnmatchcase(path, pattern.strip("/")) for pattern in patterns):
            return None
        engine, name = engine_of(path) or ("plain", path)
    else:
        known = engine_of(path)
        if known is None and (_is_systems(path) or not has_tasks(hierarchy, path)):
            return None
        engine, name = known or ("plain", path)
    with contextlib.suppress(OSError):  # it may be removed meanwhile
        return Cgroup(path, (hierarchy.folder / path).stat().st_ino, engine, name)
    return None


def _is_systems(path: str) -> bool:
    top = path.split("/")[0]
    return any(fnmatch.fnmatchcase(top, pattern) for pattern in _SYSTEM)


def _children(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


def has_tasks(hierarchy: Hierarchy, path: str) -> bool:
    """Whether a cgroup itself has a process."""
    return next(processes(hierarchy.folder / path), None) is not None


def processes(folder: Path, below: bool = False) -> Iterator[int]:
    """Processes of a cgroup, by its folder; with `below` also of its descendants."""
    with contextlib.suppress(OSError, ValueError):  # a threaded cgroup of v2 does not list processes
        for line in (folder / "cgroup.procs").read_text().split():
            if line != "0":  # a process of another PID namespace
                yield int(line)
    if below:
        for name in _children(folder):
            yield from processes(folder / name, below=True)


def v2_path_of(process: int) -> str | None:
    """The path of a process in cgroup v2, without a leading slash; None if it has ended, or is in the root."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/cgroup").read_text(encoding="utf-8").splitlines():
            if line.startswith("0::"):
                return line[3:].strip("/") or None
    return None
