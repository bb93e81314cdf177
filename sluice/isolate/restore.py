"""Ordinary limits of containers whose quota is written by a controller: saved in a file before the first write, so that
they are restored however the controller ends.

A watchdog, which is a separate process, restores them as soon as the controller's end of a pipe is closed, or when it
has not written to it for some seconds. If the watchdog is killed, too, the file is still there: the next start of the
controller restores them first, and so does `sluice isolate restore`.

    python -m sluice.isolate.restore FOLDER      the watchdog; standard input is the pipe
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from pathlib import Path

from sluice.isolate import classic
from sluice.isolate.errors import IsolateError
from sluice.isolate.polling import Change, undo
from sluice.isolate.quota import OUR_PERIOD, GoneError, Limit, Quota

FOLDER = Path("/run/sluice-isolate")
_HANGS = 3.0
"""Seconds without a beat after which the controller is taken for stopped."""
_BEAT, _END = b".", b"q"
_DESCRIPTOR = 1000
"""The least number of the controller's end of the pipe, above that of other descriptors. The kernel closes those of a
process that ends from the last to the first (task_work_run), and needs milliseconds to remove each program.
"""


@dataclass(frozen=True)
class Kept:
    """The ordinary limit of one cgroup."""

    folder: str
    inode: int
    is_v1: bool
    limit: Limit


@dataclass(frozen=True)
class Restored:
    """The results of restore()."""

    restored: list[str]
    changed: list[str]
    """Cgroups whose limit another program has set since: it was left."""
    gone: list[str]
    failed: list[str]
    """Limits that could not be restored, with the reason."""
    kept: list[Kept] = field(default_factory=list[Kept])
    """The limits of `failed`: they stay in the file."""


class Record:
    """The file, held by one controller at a time.

    Raises IsolateError if another one has it, or if the folder is not the user's own.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        self.folder = folder
        self.kept: dict[str, Kept] = {}
        self._changes: list[Change | classic.Filter] = []
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = folder.lstat()
            if status.st_uid != os.geteuid() or status.st_mode & 0o022 or not folder.is_dir():
                raise IsolateError(f"{folder}: other users can write there; give another folder by --state")
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise IsolateError(f"{folder}: {os.strerror(error.errno or 0)}; give another folder by --state") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise IsolateError(
                f"another `sluice isolate run` uses {folder}; stop it, or give another folder by --state"
            ) from error

    def close(self) -> None:
        """Let another controller have it."""
        os.close(self._lock)

    def keep(self, quota: Quota, limit: Limit) -> None:
        """Record an ordinary limit. It is in the file when this returns. Raises GoneError, and IsolateError if the file
        cannot be written.
        """
        path = str(quota.folder)
        try:
            inode = quota.folder.stat().st_ino
        except OSError as error:
            raise GoneError(path) from error
        self.kept[path] = Kept(path, inode, quota.is_v1, limit)
        self._write()

    def forget(self, folder: Path) -> None:
        """The limit has been restored, or the cgroup was removed."""
        if self.kept.pop(str(folder), None) is not None:
            self._write()

    def keep_change(self, change: Change | classic.Filter) -> None:
        """Record a change of an interface. It is in the file when this returns. Raises IsolateError."""
        self._changes.append(change)
        self._write_changes()

    def forget_change(self, change: Change | classic.Filter) -> None:
        """It has been undone."""
        if change in self._changes:
            self._changes.remove(change)
            self._write_changes()

    def _write_changes(self) -> None:
        try:
            _replace(
                self.folder / "interfaces.json", [asdict(one) | {"kind": type(one).__name__} for one in self._changes]
            )
        except OSError as error:
            path = self.folder / "interfaces.json"
            raise IsolateError(f"{path}: changes cannot be recorded: {os.strerror(error.errno or 0)}") from error

    def restore(self) -> Restored:
        """Restore the limits that an earlier controller left. One that fails remains in the file, and is in `kept`."""
        done = restore(self.folder)
        self.kept = {one.folder: one for one in done.kept}
        return done

    def has(self, folder: Path, inode: int) -> bool:
        """Whether the ordinary limit of a cgroup is recorded. inode: of the cgroup; another one may have its path."""
        kept = self.kept.get(str(folder))
        return kept is not None and kept.inode == inode

    def _write(self) -> None:
        try:
            _write(self.folder, self.kept.values())
        except OSError as error:
            path = self.folder / "limits.json"
            raise IsolateError(f"{path}: limits cannot be recorded: {os.strerror(error.errno or 0)}") from error


def _write(folder: Path, limits: Collection[Kept]) -> None:
    _replace(folder / "limits.json", {"version": 1, "cgroups": [asdict(one) for one in limits]} if limits else None)


def _replace(target: Path, data: object) -> None:
    """Write a file as a whole; remove it if there is nothing to write."""
    if not data:
        target.unlink(missing_ok=True)
        return
    temporary = target.with_suffix(".new")
    temporary.write_text(json.dumps(data))
    os.replace(temporary, target)


def undo_change(change: Change | classic.Filter) -> None:
    """The interface is as before."""
    if isinstance(change, Change):
        undo(change)
    else:
        classic.remove(change)


def _undo_changes(folder: Path) -> None:
    """Interfaces are as before. An unreadable entry is left for the operator."""
    path = folder / "interfaces.json"
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        for row in json.loads(path.read_text()):
            kind = {"Change": Change, "Filter": classic.Filter}[row.pop("kind", "Change")]
            undo_change(kind(**row))
        path.unlink()


def read_kept(folder: Path) -> list[Kept]:
    """The content of the file; nothing without one. Raises IsolateError if it is not such a file."""
    path = folder / "limits.json"
    try:
        rows = json.loads(path.read_text())["cgroups"]
        return [Kept(str(row["folder"]), int(row["inode"]), bool(row["is_v1"]), _limit(row["limit"])) for row in rows]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise IsolateError(f"{path} cannot be read ({error}): remove it, and set the limits again") from error


def _limit(row: dict[str, int]) -> Limit:
    return Limit(int(row["quota_us"]), int(row["period_us"]), int(row["burst_us"]))


def restore(folder: Path = FOLDER, forget: bool = True) -> Restored:
    """Restore all ordinary limits of the file. A limit that another program has set meanwhile is left.

    forget: only the limits that failed remain in the file. False leaves it to a controller that may still write it.
    """
    found = Restored([], [], [], [])
    try:
        for kept in read_kept(folder):
            try:
                _restore(kept, found)
            except IsolateError as error:
                found.failed.append(str(error))
                found.kept.append(kept)
        if forget:
            with contextlib.suppress(OSError):
                _write(folder, found.kept)
    finally:  # after the limits, as it is slower: a container waits for its limit, and an interface works meanwhile
        if forget:
            _undo_changes(folder)
    return found


def _restore(kept: Kept, found: Restored) -> None:
    quota = None
    try:
        path = Path(kept.folder)
        if path.stat().st_ino != kept.inode:
            raise GoneError
        quota = Quota(path, kept.is_v1)
        now = quota.read()
        if now is None or now.period_us != OUR_PERIOD:
            found.changed.append(kept.folder)
            return
        quota.restore(kept.limit)
        found.restored.append(kept.folder)
    except (GoneError, FileNotFoundError):
        found.gone.append(kept.folder)
    finally:
        if quota is not None:
            quota.close()


class Watchdog:
    """The process that restores limits when this one ends. Start it before anything is changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.starts = 0
        self._start()

    def _start(self) -> None:
        reading, self._pipe = _pipe()
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "sluice.isolate.restore", str(self._folder)],
                stdin=reading,
                stdout=subprocess.DEVNULL,
                cwd="/",
                env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
                start_new_session=True,  # a Ctrl-C, or a closed terminal, ends only the controller
            )
        finally:
            os.close(reading)
        self.starts += 1

    def beat(self) -> None:
        """The controller works. A watchdog that was killed is started again."""
        try:
            os.write(self._pipe, _BEAT)
        except BlockingIOError:
            pass
        except BrokenPipeError:
            os.close(self._pipe)
            self.process.wait()
            self._start()

    def end(self) -> None:
        """All limits are restored: it has nothing to do."""
        with contextlib.suppress(OSError):
            os.write(self._pipe, _END)
        os.close(self._pipe)
        self.process.wait()


def _pipe() -> tuple[int, int]:
    """Both ends of a pipe; the second does not block. A low limit of open files (RLIMIT_NOFILE) leaves its number."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    with contextlib.suppress(OSError):
        high = fcntl.fcntl(writing, fcntl.F_DUPFD_CLOEXEC, _DESCRIPTOR)
        os.close(writing)
        writing = high
    os.set_blocking(writing, False)
    return reading, writing


def watch(folder: Path, pipe: int) -> None:
    """The watchdog's loop."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # it ends after the controller
        signal.signal(number, signal.SIG_IGN)
    stopped = False
    while True:
        ready, _, _ = select.select([pipe], [], [], None if stopped else _HANGS)
        data = os.read(pipe, 4096) if ready else None
        if data is not None and _END in data:
            return
        has_ended = data == b""
        stopped = has_ended or data is None
        if stopped:
            _say(restore(folder, forget=has_ended))
        if has_ended:
            return


def _say(done: Restored) -> None:
    if done.restored:
        print(f"sluice isolate: restored the CPU limits of {len(done.restored)} containers", file=sys.stderr)
    for text in done.failed:
        print(f"sluice isolate: {text}", file=sys.stderr)


if __name__ == "__main__":
    watch(Path(sys.argv[1]), sys.stdin.fileno())
