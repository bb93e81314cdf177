"""A running box is shown: --metrics, --control with `sluice top`, and the summary so far on SIGUSR1."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, cast

import pytest

from sluice.cli.common import monitoring
from sluice.cli.common.dashboard import dashboard
from sluice.cli.common.metrics import label, metrics
from sluice.cli.common.top_text import lines_of, rates, short
from sluice.cli.main import main
from sluice.engine.observed import Snapshot
from tests.support.bounded import until

ROOT = Path(__file__).resolve().parents[2]
CAPTURE = ROOT / "examples" / "first" / "capture.pcap"
STACK = "from tests.chain.running import small_stack\n\nstack = small_stack()\n"
SAMPLE = re.compile(r'[a-z_]+(\{([a-z]+="([^"\\]|\\.)*",?)*\})? [0-9.e+-]+')


def snapshot(seconds: float, packets: int, busy: float = 0.0) -> Snapshot:
    layers = {
        "box": {"packets": packets},
        "tcp": {"packets": packets, "bytes": 100 * packets, "instances": 9, "ended:eof": 2, "malformed:checksum": 3},
    }
    workers = [{"packets": packets, "busy": busy, "longest": 0.002}]
    received = {"dropped_kernel": 5, "forwarded": packets}
    return Snapshot(
        1e9 + seconds, seconds, "small", packets, received, layers, workers, {"f": {"found": packets // 10}}
    )


def test_a_running_box(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "stack.py").write_text(STACK)
    at, errors = tmp_path / "box.sock", tmp_path / "errors"
    words = ["run", str(tmp_path / "stack.py"), "-r", "-", "-f", "none", "--control", str(at), "--metrics", "0"]
    with errors.open("w") as taken, subprocess.Popen(
        [sys.executable, "-m", "sluice", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=taken,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, text=False,
    ) as box:  # fmt: skip
        assert box.stdin is not None
        box.stdin.write(CAPTURE.read_bytes())
        box.stdin.flush()
        until(lambda: at.exists() or box.poll() is not None)
        assert stat.S_IMODE(at.stat().st_mode) == 0o600
        found = re.search(r"metrics at port (\d+)", errors.read_text())
        assert found
        page = f"http://127.0.0.1:{found[1]}/metrics"
        browser = urllib.request.build_opener(urllib.request.ProxyHandler({}))

        def text() -> str:
            with browser.open(page, timeout=20) as answer:
                return answer.read().decode()

        until(lambda: 'sluice_layer_packets_total{layer="ipv4"} 22' in text())
        assert 'sluice_worker_packets_total{worker="0"} 22' in text()
        with pytest.raises(urllib.error.HTTPError):
            browser.open(page + "/other", timeout=20)
        assert main(["top", str(at), "--once", "--json", "--interval", "0.3"]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert shown["packets"] == 22 and shown["layers"]["tcp"]["packets_per_second"] == 0
        with socket.socket(socket.AF_UNIX) as rude:
            rude.connect(str(at))
            rude.sendall(b"[1]\n")
            assert b"the request is" in rude.recv(1000)
        box.send_signal(signal.SIGUSR1)
        until(lambda: "22 packets, 2,939 bytes" in errors.read_text())
        assert main(["run", str(tmp_path / "stack.py"), "-r", str(CAPTURE), "-f", "none", "--control", str(at)]) == 1
        assert "another box has this socket" in capsys.readouterr().err
        box.stdin.close()
        assert box.stdout is not None
        assert b"22 packets, 2,939 bytes" in box.stdout.read()
    assert box.returncode == 0 and not at.exists()


def test_a_client_that_sends_byte_by_byte_does_not_hold_up_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitoring, "PATIENCE", 0.5)
    server = monitoring.control_server(str(tmp_path / "at"), cast(Any, None))
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    ended = threading.Thread(target=server.shutdown, daemon=True)
    serving.start()
    with socket.socket(socket.AF_UNIX) as slow, server:
        slow.connect(str(tmp_path / "at"))
        for number in range(100):
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                slow.send(b" ")
            if number == 1:
                ended.start()
            ended.join(0.1) if number else time.sleep(0.2)
            if number and not ended.is_alive():
                break
        assert not ended.is_alive()


@pytest.mark.parametrize("kind", ["fifo", "link", "file"])
def test_only_a_socket_is_replaced(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As root, `--control /dev/null` would remove a device."""
    (tmp_path / "stack.py").write_text(STACK)
    at = tmp_path / "at"
    if kind == "fifo":
        os.mkfifo(at)
    elif kind == "link":
        at.symlink_to(tmp_path / "stack.py")
    else:
        at.write_text("")
    before = at.lstat()
    assert main(["run", str(tmp_path / "stack.py"), "-r", str(CAPTURE), "-f", "none", "--control", str(at)]) == 1
    assert f"--control {at}: Address already in use" in capsys.readouterr().err
    assert at.lstat().st_ino == before.st_ino


def test_numbers_for_prometheus() -> None:
    """Each line is a sample or a comment, and every name that the dashboard uses is served."""
    text = metrics(snapshot(3, 50, 0.5))
    assert all(line.startswith("# ") or SAMPLE.fullmatch(line) for line in text.splitlines())
    assert 'sluice_layer_instances{layer="tcp"} 7' in text
    assert 'sluice_lost_packets_total{reason="dropped_kernel"} 5' in text
    assert 'sluice_function_total{function="f",counter="found"} 5' in text
    used = set(re.findall(r"sluice_[a-z_]+", json.dumps(dashboard())))
    assert used <= set(re.findall(r"sluice_[a-z_]+", text))
    assert label('a"b\\c\n') == 'a\\"b\\\\c\\n'


def test_the_picture() -> None:
    shown = rates(snapshot(1, 100, 0.1), snapshot(3, 300, 0.2))
    assert shown["workers"][0] == {
        "packets_per_second": 100, "busy_percent": 5.0, "nanoseconds_per_packet": 500000.0,
        "longest_stall_seconds": 0.002,
    }  # fmt: skip
    lines = lines_of(shown)
    assert lines[0] == "small  up 0:00:03  300 packets  100 pkt/s  100 forwarded/s"
    assert lines[1] == "lost: dropped kernel 5"
    assert lines[-1].split() == ["f", "10", "30", "found"]
    assert any(line.split()[:5] == ["tcp", "100", "80k", "7", "0"] and "checksum 3" in line for line in lines)
    assert "NO NEW NUMBERS FOR 9 s" in lines_of(shown, age=9)[0]


@pytest.mark.parametrize("number, text", [(0, "0"), (950, "950"), (999.7, "1k"), (12345, "12.3k"), (4.56e6, "4.56M")])
def test_short_numbers(number: float, text: str) -> None:
    assert short(number) == text


@pytest.mark.parametrize(
    "words, said",
    [
        (["top"], "give the socket"),
        (["top", "x", "--json"], "--json: is for --once"),
        (["top", "/no/box"], "is a box running"),
    ],
)
def test_what_cannot_be_shown(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) in (1, 2)
    assert said in capsys.readouterr().err
