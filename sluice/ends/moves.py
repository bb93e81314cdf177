"""A server that moves with its connections: CRIU (criu(8)) writes its processes, and the TCP of their sockets by
TCP_REPAIR, to a folder, and makes them from it again.

They are saved from within the namespaces that they have, and made in a PID namespace of their own, where the numbers
that they know are free. Their output is a pipe to us, as CRIU cannot save the other end of one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from pathlib import Path

from sluice.ends.space import SpaceError

OUTPUT = "output"
"""The file with the number of the pipe of the server's output."""
LOG = "log"
PARTIAL = ".part"
"""Follows the name of a folder while the server is written to it."""
IMAGE = "inventory.img"
"""What every folder of CRIU has."""
_CHECK, _SAVE = 60.0, 600.0
"""Seconds that CRIU may take: the memory of the server is written."""
_OPTIONS = ("--tcp-established", "--file-locks", "--manage-cgroups=ignore", "--log-file", LOG)
_ADVICE = "it needs CRIU (Debian: criu), from Linux 6.13 on in version 4.1 or later"


class MoveError(SpaceError):
    """A server cannot move; the message has the advice."""


def check() -> None:
    """Raises MoveError where CRIU does not work."""
    if shutil.which("criu") is None:
        raise MoveError(f"there is no criu: {_ADVICE}")
    done = subprocess.run(["criu", "check"], capture_output=True, text=True, timeout=_CHECK)
    if done.returncode:
        raise MoveError(f"criu does not work here ({_error(done.stderr + done.stdout)}): {_ADVICE}")


def children(process: int) -> list[int]:
    """The processes that one has started."""
    return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def server_of(process: int) -> int:
    """The server that a command of `restoring` has continued. Raises IndexError, OSError."""
    return children(children(process)[0])[0]


@contextlib.contextmanager
def copied() -> Generator[int]:
    """A pipe, of which everything is copied to the standard output."""
    read, write = os.pipe()

    def copy() -> None:
        while piece := os.read(read, 1 << 16):
            with contextlib.suppress(OSError):  # as for a server whose output has no reader
                os.write(1, piece)

    copying = threading.Thread(target=copy, daemon=True)
    copying.start()
    try:
        yield write
    finally:
        os.close(write)
        copying.join(1)


def save(server: int, folder: Path, output: int) -> Path:
    """Write a server and its descendants to a new folder, and end them. output: the pipe that they write to. Returns
    the folder: where `folder` exists meanwhile, it has the name of an attempt. Raises MoveError, and they go on.
    """
    attempt = folder.with_name(folder.name + PARTIAL)
    try:
        status = Path(f"/proc/{server}/status").read_text()
        number = next(line.split()[-1] for line in status.splitlines() if line.startswith("NSpid:"))
        _remove(attempt)
        attempt.mkdir(mode=0o700)  # what it knows is for no other user
        (attempt / OUTPUT).write_text(str(os.fstat(output).st_ino))
        words = ["criu", "dump", "--tree", number, "--images-dir", str(attempt), "--skip-in-flight", *_OPTIONS]
        failed = _ended(["nsenter", f"--target={server}", "--mount", "--net", "--pid", *words])
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MoveError(f"the server cannot be saved to {attempt}: {error}") from error
    if failed:
        raise MoveError(f"the server cannot be saved ({_logged(attempt)}); {attempt}/{LOG} has more")
    try:
        attempt.rename(folder)
    except OSError:  # the server has ended: what was written is all that there is of it
        return attempt
    return folder


def _remove(attempt: Path) -> None:
    """Remove what an attempt that failed has written. What another user, or something else, has made remains."""
    if (attempt / OUTPUT).is_file() and attempt.lstat().st_uid == os.geteuid():
        shutil.rmtree(attempt)


def _ended(command: list[str]) -> int:
    """Run CRIU. Its exit status; raises OSError, and TimeoutExpired, once all of its processes have ended."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(_SAVE)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)  # nsenter has started it
        process.wait()
        raise


def restoring(folder: Path, output: int) -> list[str]:
    """The command that continues a server from such a folder; it prints a line then, and ends with the server. output:
    the pipe to which that writes.
    """
    pipe = f"fd[{output}]:pipe[{(folder / OUTPUT).read_text()}]"
    words = ["criu", "restore", "--images-dir", str(folder), "--inherit-fd", pipe, *_OPTIONS]
    parent = ["--exec-cmd", "--", sys.executable, "-m", "sluice.ends.parent"]
    return ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", *words, *parent]


def why_not_restored(folder: Path) -> str:
    """The error of the last command, for a message."""
    return f"the server cannot be continued ({_logged(folder)}); {folder}/{LOG} has more"


def _logged(folder: Path) -> str:
    try:
        return _error((folder / LOG).read_text(errors="replace"))
    except OSError:
        return "no log"


def _error(text: str) -> str:
    """The first error in the output of CRIU that is its reason: what it may not set for itself is none."""
    errors = (line for line in text.splitlines() if "Error (" in line)
    found = [line for line in errors if "RLIMIT_NOFILE" not in line] or ["no error in its log"]
    return found[0].partition("Error ")[2] or found[0]
