"""A server that CRIU does not save at once: what is left of the attempt. A script has the place of CRIU."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from sluice.ends import moves
from tests.live.wire import why_no_wire
from tests.support.bounded import until

pytestmark = [pytest.mark.skipif(bool(why_no_wire()), reason=why_no_wire()), pytest.mark.root]


@pytest.fixture
def server() -> Generator[int]:
    """The PID of a process that does nothing."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process.pid
        process.kill()


def criu(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a script be the command `criu`."""
    folder.mkdir(exist_ok=True)
    (folder / "criu").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "criu").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/sbin:/usr/bin:/sbin:/bin")


def test_a_server_that_was_not_saved_is_saved_later(
    server: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, attempt = tmp_path / "saved", tmp_path / "saved.part"
    criu(tmp_path / "bin", f"echo 'Error (here): no' > {attempt}/log; exit 1", monkeypatch)
    for _ in range(2):
        with pytest.raises(moves.MoveError, match=r"\(here\): no.*saved\.part/log"):
            moves.save(server, folder, 1)
        assert attempt.is_dir() and not folder.exists()
    criu(tmp_path / "bin", f"test ! -e {attempt}/log && touch {attempt}/{moves.IMAGE}", monkeypatch)
    assert moves.save(server, folder, 1) == folder
    assert (folder / moves.IMAGE).is_file() and folder.stat().st_mode & 0o777 == 0o700 and not attempt.exists()


def test_what_is_no_attempt_is_not_removed(server: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    criu(tmp_path / "bin", "true", monkeypatch)
    (tmp_path / "saved.part").mkdir()
    with pytest.raises(moves.MoveError, match="File exists"):
        moves.save(server, tmp_path / "saved", 1)
    (tmp_path / "saved.part" / moves.OUTPUT).touch()
    os.chown(tmp_path / "saved.part", 65534, -1)
    with pytest.raises(moves.MoveError, match="File exists"):
        moves.save(server, tmp_path / "saved", 1)


def test_a_folder_that_exists_meanwhile_is_not_replaced(
    server: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    criu(tmp_path / "bin", "true", monkeypatch)
    (tmp_path / "saved" / "another").mkdir(parents=True)
    assert moves.save(server, tmp_path / "saved", 1) == tmp_path / "saved.part"
    assert (tmp_path / "saved" / "another").is_dir()


def test_an_attempt_that_takes_too_long_ends(server: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what the first process has started."""
    monkeypatch.setattr(moves, "_SAVE", 1.0)
    criu(
        tmp_path / "bin", f"echo $$ > {tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; sleep 600", monkeypatch
    )
    with pytest.raises(moves.MoveError, match="timed out"):
        moves.save(server, tmp_path / "saved", 1)
    number = (tmp_path / "pid").read_text().strip()
    until(lambda: not Path(f"/proc/{number}").exists() or "\nState:\tZ" in Path(f"/proc/{number}/status").read_text())
