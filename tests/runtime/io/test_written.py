"""Capture files that are written: compressed by their names, in series, intact whatever ends the process."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sluice.engine.box import compile_stack
from sluice.engine.inputs import Frame, InputError, Inputs, Rotation, Source
from tests.support.small_stacks import small_stack

PROGRAMS = {".gz": "gzip", ".zst": "zstd", ".lz4": "lz4", ".xz": "xz"}
SECOND = 10**9
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def library() -> Any:
    return ctypes.CDLL(str(compile_stack(small_stack(), ()).compiled.path))


def packet(number: int, size: int = 100) -> bytes:
    return number.to_bytes(4, "big") + bytes(size - 4)


def send(library: Any, source: Source, packets: list[bytes], first: int = 0) -> int:
    """Sends packets, a second apart; how many were accepted."""
    frames = (Frame * len(packets))()
    for number, (frame, data) in enumerate(zip(frames, packets, strict=True), first):
        frame.at = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value
        frame.captured = frame.length = len(data)
        frame.time, frame.link_type, frame.number = 10**18 + number * SECOND, 1, number + 1
    return library.sl_source_send(source.handle, frames, ctypes.c_uint32(len(packets)))


def read(library: Any, path: Path) -> tuple[list[int], str | None]:
    """The numbers of the packets of a file, and its fault."""
    try:
        source = Source.open(library, Inputs((f"file:{path}",)))
    except InputError as error:  # a compressing program may not have written anything yet
        return [], str(error)
    frames, found = (Frame * 64)(), list[int]()
    while (got := ctypes.c_int32(library.sl_source_receive(source.handle, frames, ctypes.c_uint32(64))).value) > 0:
        for frame in frames[:got]:
            address = ctypes.c_void_p.from_buffer(frame).value or 0
            found.append(int.from_bytes(ctypes.string_at(address, 4), "big"))
        library.sl_source_release(source.handle)
    fault = source.fault()
    source.close()
    return found, fault


def there(suffix: str) -> Any:
    program = PROGRAMS.get(suffix)
    missing = program is not None and shutil.which(program) is None
    return pytest.param(suffix, marks=pytest.mark.skipif(missing, reason=f"there is no {program}"))


@pytest.mark.parametrize("suffix", [there(suffix) for suffix in ("", *PROGRAMS)])
def test_the_name_says_how_a_file_is_compressed(library: Any, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"out.pcap{suffix}"
    out = Source.create(library, path)
    numbers = list(range(3000))
    assert send(library, out, [packet(number) for number in numbers]) == 3000
    assert out.close() is None
    assert read(library, path) == (numbers, None)
    assert (path.stat().st_size < 3000 * 116) == bool(suffix)


def test_a_packet_larger_than_the_buffer_is_written(library: Any, tmp_path: Path) -> None:
    out = Source.create(library, tmp_path / "out.pcap")
    assert send(library, out, [packet(0), packet(1, 200_000), packet(2)]) == 3
    assert out.close() is None
    assert read(library, tmp_path / "out.pcap") == ([0, 1, 2], None)


@pytest.mark.parametrize("name, second", [("out.pcap", "out-00002.pcap"), ("d.x/out", "d.x/out-00002")])
def test_a_series_by_size(library: Any, tmp_path: Path, name: str, second: str) -> None:
    """Each packet takes 116 bytes, a file's head 24."""
    (tmp_path / "d.x").mkdir()
    out = Source.create(library, tmp_path / name, Rotation(size=24 + 10 * 116 + 115))
    assert send(library, out, [packet(number) for number in range(25)]) == 25
    assert out.statistics()["packets"] == 25 and out.close() is None
    assert read(library, tmp_path / second) == (list(range(10, 20)), None)
    assert len([each for each in tmp_path.rglob("out*")]) == 3


def test_a_packet_larger_than_a_file_has_a_file_of_its_own(library: Any, tmp_path: Path) -> None:
    out = Source.create(library, tmp_path / "out.pcap", Rotation(size=200))
    send(library, out, [packet(0), packet(1, 500), packet(2)])
    assert out.close() is None
    assert [read(library, path)[0] for path in sorted(tmp_path.iterdir())] == [[0], [1], [2]]


def test_a_series_by_time_of_which_the_last_files_are_kept(library: Any, tmp_path: Path) -> None:
    out = Source.create(library, tmp_path / "out.pcap.gz", Rotation(seconds=4.0, files=2))
    for first in range(0, 14, 2):
        send(library, out, [packet(first), packet(first + 1)], first)
    assert out.close() is None
    assert {path.name: read(library, path)[0] for path in sorted(tmp_path.iterdir())} == {
        "out-00003.pcap.gz": [8, 9, 10, 11],
        "out-00004.pcap.gz": [12, 13],
    }


def test_a_full_disk_leaves_whole_packets(library: Any, tmp_path: Path, full: Callable[[], Path]) -> None:
    path = full() / "out.pcap"
    out = Source.create(library, path)
    assert send(library, out, [packet(number, 1000) for number in range(3000)]) < 3000
    assert "No space left on device" in (out.close() or "")
    numbers, fault = read(library, path)
    assert fault is None and numbers == list(range(len(numbers))) and len(numbers) > 100


def test_a_compressed_file_on_a_full_disk_is_said_to_be_incomplete(
    library: Any, tmp_path: Path, full: Callable[[], Path]
) -> None:
    out = Source.create(library, full() / "out.pcap.gz")
    for first in range(0, 4000, 100):
        send(library, out, [os.urandom(1000) for _ in range(100)], first)
    assert "out.pcap.gz" in (lost := out.close() or "") and ("gzip ended" in lost or "program has ended" in lost)


@pytest.fixture
def full(tmp_path: Path) -> Any:
    """Mounts a file system of 1 MiB."""
    mounted: list[Path] = []

    def mount() -> Path:
        place = tmp_path / "full"
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
        if os.geteuid() != 0 or subprocess.run(command, capture_output=True, timeout=300).returncode:
            pytest.skip("no file system can be mounted")
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", str(place)], check=True, timeout=300)


def test_without_the_program_the_message_names_its_package(
    library: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"out.pcap.xz: cannot be compressed: .* xz .Debian: xz-utils"):
        Source.create(library, tmp_path / "out.pcap.xz")


KILLED = """
import ctypes, os, signal, sys
from pathlib import Path
from tests.runtime.io.test_written import packet, send
from sluice.engine.inputs import Source
library = ctypes.CDLL(sys.argv[1])
out = Source.create(library, sys.argv[2])
send(library, out, [packet(number) for number in range(5000)])
library.sl_source_flush(out.handle)
send(library, out, [packet(5000)])
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("suffix", ["", there(".gz"), there(".zst")])
def test_after_a_crash_a_file_has_every_packet_up_to_the_last_flush(library: Any, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"out.pcap{suffix}"
    command = [sys.executable, "-c", KILLED, library._name, str(path)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=ROOT, timeout=300)
    assert done.returncode == -signal.SIGKILL
    end = time.monotonic() + 30
    while (found := read(library, path)) != (list(range(5000)), None):  # the compressing program finishes its file
        assert time.monotonic() < end, found[1]
        time.sleep(0.05)
