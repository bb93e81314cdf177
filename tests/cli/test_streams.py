"""Streams and exit: what goes where, how a run is stopped, and what its status says."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import DATAGRAMS, FIRST, ROOT, Command
from tests.support.capture import pcap

CAPTURE = FIRST / "capture.pcap"
RUN = [sys.executable, "-m", "sluice", "run", str(DATAGRAMS), "-r", str(CAPTURE)]
FLOWS = [sys.executable, "-m", "sluice", "flows", "--stack", str(DATAGRAMS), "-r", str(CAPTURE)]
PRINTING = """
import sys
from sluice.functions import on, at_end

print("loaded")

@on("udp", "packet")
def saw(event):
    print("saw")

@at_end
def ended():
    print("ended")
"""
C_PRINTING = """
#include "sluice.h"
SLUICE_ON(udp, packet) { (void)event; (void)data; puts("seen in C"); }
"""
ENDLESS = """
import sys, time
from sluice.functions import on, at_end

@on("udp", "packet")
def saw(event):
    print("waiting", file=sys.stderr, flush=True)
    while True:
        pass

@at_end
def ended():
    print("ended", file=sys.stderr)
"""


@pytest.fixture
def functions(tmp_path: Path) -> list[str]:
    (tmp_path / "p.py").write_text(PRINTING)
    (tmp_path / "c.c").write_text(C_PRINTING)
    return ["-f", str(tmp_path / "p.py"), "-f", str(tmp_path / "c.c")]


def run(*command: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(x) for x in command], capture_output=True, text=True, cwd=ROOT, **options)  # type: ignore[call-overload]


def test_json_never_shares_a_stream_with_what_functions_print(functions: list[str], tmp_path: Path) -> None:
    done = run(*RUN, *functions, "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["packets"] == 22
    assert done.stderr.count("saw") == done.stderr.count("seen in C") == 12
    assert "loaded" in done.stderr and "ended" in done.stderr
    done = run(*RUN, *functions, "--json", "-o", tmp_path / "out")
    assert json.loads(done.stdout)["packets"] == 22 and done.stderr == ""
    assert (tmp_path / "out").read_text().count("seen in C") == 12


def test_rows_never_share_a_stream_with_what_functions_print(functions: list[str]) -> None:
    done = run(*RUN, "-f", "flow_log:holes=7", *functions)
    rows = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert len([json.loads(row) for row in rows]) == 3
    assert "saw" not in done.stdout and "seen in C" not in done.stdout
    assert done.stderr.count("saw") == done.stderr.count("seen in C") == 12


def test_without_json_functions_print_to_standard_output(functions: list[str]) -> None:
    done = run(*RUN, *functions)
    assert done.stdout.count("saw") == done.stdout.count("seen in C") == 12 and "22 packets" in done.stdout
    assert done.stderr == ""


def test_rows_are_appended_where_the_shell_appends(tmp_path: Path) -> None:
    with open(tmp_path / "rows", "a") as out:
        out.write("first\n")
        out.flush()
        subprocess.run(FLOWS, stdout=out, cwd=ROOT, check=True)
    assert (tmp_path / "rows").read_text().splitlines()[0] == "first"
    assert len((tmp_path / "rows").read_text().splitlines()) == 4


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_prints_what_it_saw_and_ends_its_functions(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "f.py").write_text(ENDLESS)
    with subprocess.Popen([*RUN, "-f", str(tmp_path / "f.py"), "--json"], cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:  # fmt: skip
        assert child.stderr is not None
        assert child.stderr.readline() == "waiting\n"
        child.send_signal(number)
        out, err = child.communicate(timeout=60)
    assert child.returncode == 130
    found = json.loads(out)
    assert found["stopped"] is True and found["packets"] == 22
    assert err == "ended\nsluice: stopped\n"


@pytest.mark.parametrize("seconds", [0, 0.3, 1, 2])
def test_there_is_no_traceback_at_any_moment(tmp_path: Path, seconds: float) -> None:
    """While everything is imported, while the stack is built, or compiled, or run."""
    environment = {**os.environ, "SLUICE_CACHE": str(tmp_path)}
    start = """
import sys
from sluice.cli.start import main
try:
    print("ready", file=sys.stderr, flush=True)
except KeyboardInterrupt:
    sys.exit(130)
sys.exit(main())
"""
    command = [sys.executable, "-c", start, *RUN[3:], "--json"]
    with subprocess.Popen(command, cwd=ROOT, text=True, env=environment, start_new_session=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:  # fmt: skip
        assert child.stderr is not None and child.stderr.readline() == "ready\n"
        time.sleep(seconds)
        os.killpg(child.pid, signal.SIGINT)
        out, err = child.communicate(timeout=120)
    assert child.returncode in (0, 130)
    assert "Traceback" not in err and "Error" not in err
    if out:
        assert json.loads(out)["stopped"] is (child.returncode == 130)


def test_head_ends_quietly(functions: list[str]) -> None:
    for command in ([*FLOWS], [*RUN, *functions], [*RUN, "-f", "flow_log"]):
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, cwd=ROOT)
        os.close(writing)
        assert done.stderr == "", command


@pytest.mark.parametrize("command", [FLOWS, RUN, [sys.executable, "-m", "sluice", "show", str(DATAGRAMS)]])
def test_a_closed_standard_output_gives_a_clear_message(command: list[str]) -> None:
    done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *command], stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert done.returncode == 1
    assert done.stderr == "sluice: standard output is closed; redirect it to a file, or to /dev/null\n"


def test_a_closed_standard_error_does_not_reach_any_file(tmp_path: Path) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" 2>&- 0<&-', "sh", *FLOWS], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert done.returncode == 0 and len([json.loads(line) for line in done.stdout.splitlines()]) == 3


def test_a_full_disk_is_told() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(RUN, stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert done.returncode == 1 and "No space left" in done.stderr and "Traceback" not in done.stderr


def test_a_refused_link_type_is_named(sluice: Command, tmp_path: Path) -> None:
    path = tmp_path / "usb.pcap"
    path.write_bytes(pcap([bytes(64)] * 3, link_type=220))
    done = sluice("run", "tcp_ip", "-r", path)
    assert done.status == 1
    assert "3 packets of a link type that the stack does not begin with: 220 (USB_LINUX_MMAPPED)" in done.out
    assert "no packet could be read: link type 220 (USB_LINUX_MMAPPED); the stack begins with 1 (ETHERNET)" in done.err
    found = sluice("run", "tcp_ip", "-r", path, "--json")
    assert found.status == 1 and json.loads(found.out)["refused_link_types"] == {"220": 3}
    assert sluice("flows", "--stack", "tcp_ip", "-r", path).status == 1


MAGIC = {
    "gzip": "1f8b08", "zstd": "28b52ffd", "xz": "fd377a585a00", "lz4": "04224d18", "bzip2": "425a6839",
    "compress": "1f9d90",
    "lzip": "4c5a4950", "zip": "504b0304", "7z": "377abcaf271c", "rar": "526172211a07",
    "lzop": "894c5a4f", "lzma": "5d00008000", "lzma of another dictionary": "5d00001000", "lrzip": "4c525a49",
    "snappy": "ff060000734e6150", "lz4, legacy frame": "02214c18", "zlib": "789c",
}  # fmt: skip


@pytest.mark.parametrize("name", MAGIC)
def test_every_compressed_format_gets_the_same_hint(mistake: Command, tmp_path: Path, name: str) -> None:
    if name in ("gzip", "zstd", "xz", "lz4"):
        pytest.skip("may be readable; tested with the reader")
    path = tmp_path / "in.pcap"
    path.write_bytes(bytes.fromhex(MAGIC[name]) + bytes(64))
    assert (
        f"({name.removesuffix(' of another dictionary')}: decompress it first)"
        in mistake("run", "tcp_ip", "-r", path).err
    )
