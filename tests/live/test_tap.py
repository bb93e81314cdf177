"""`-i tap:NAME`: the box is the wire of an interface of its host, and forwards to another one."""

from __future__ import annotations

import hashlib
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from sluice.cli.common.monitoring import ask
from sluice.cli.main import main
from tests.live.wire import CLIENT, SERVER, Inline, Wire, content, ip, serve, why_no_wire
from tests.support.bounded import until
from tests.support.network import why_not

MISSING = why_no_wire() or why_not()
pytestmark = [pytest.mark.skipif(bool(MISSING), reason=MISSING), pytest.mark.root]
STACK = "from tests.support.small_stacks import small_stack\n\nstack = small_stack()\n"
PATH = "/x/700000"


def test_bytes_through_a_tap_device(tmp_path: Path) -> None:
    """The kernel of the box's namespace is the client; what curl gets is intact, and each packet is counted."""
    (tmp_path / "stack.py").write_text(STACK)
    words = ["run", str(tmp_path / "stack.py"), "-f", "none"]
    with Wire("livetap") as wire, Inline(wire, tmp_path, *words, between=("tap:t0", "b1")) as running:
        ip("-n", wire.box, "addr", "add", f"{CLIENT}/24", "dev", "t0")
        site = serve(wire, 8080)
        try:
            curl = ["curl", "-sS", "--noproxy", "*", "--max-time", "60", f"http://{SERVER}:8080{PATH}"]
            got = subprocess.run(
                ["ip", "netns", "exec", wire.box, *curl], capture_output=True, check=True, timeout=300
            ).stdout
        finally:
            site.shutdown()
            site.server_close()
        summary = running.stop()
        assert (
            "t0"
            not in subprocess.run(["ip", "-n", wire.box, "link"], capture_output=True, text=True, timeout=300).stdout
        )
    assert hashlib.sha256(got).digest() == hashlib.sha256(content(PATH)).digest()
    assert summary["received"]["forwarded"] == summary["packets"] > 100


def test_a_device_that_is_removed_and_made_again(tmp_path: Path) -> None:
    """By the host, which then uses it as before. What the first one dropped is counted."""
    (tmp_path / "stack.py").write_text(STACK)
    control = tmp_path / "box.sock"
    words = ["run", str(tmp_path / "stack.py"), "-f", "none", "--control", str(control)]
    with Wire("livetap") as wire, Inline(wire, tmp_path, *words, between=("tap:t0", "b1")) as running:
        running.process.send_signal(signal.SIGSTOP)
        with wire.socket(wire.box, socket.AF_PACKET, socket.SOCK_RAW) as raw:
            raw.bind(("t0", 0))
            for _ in range(3000):  # more than its queue has room for
                raw.send(bytes.fromhex("020000000002 020000000001 88b5") + bytes(60))
        running.process.send_signal(signal.SIGCONT)
        until(lambda: ask(str(control)).received.get("dropped_kernel", 0) > 1000)  # cannot be read later
        ip("-n", wire.box, "link", "del", "t0")
        running.wait_for("warning: t0 was removed")
        ip("netns", "exec", wire.box, "ip", "tuntap", "add", "t0", "mode", "tap")
        running.wait_for("note: t0 was made again")
        ip("-n", wire.box, "addr", "add", f"{CLIENT}/24", "dev", "t0")
        ip("-n", wire.box, "link", "set", "t0", "up")
        done = subprocess.run(
            ["ip", "netns", "exec", wire.box, "ping", "-c", "2", "-W", "10", SERVER], capture_output=True, timeout=300
        )
        received = running.stop()["received"]
    assert done.returncode == 0 and (received["removals"], received["returns"]) == (1, 1)
    assert received["dropped_kernel"] > 1000


def test_a_removed_device_in_whose_place_is_another_interface(tmp_path: Path) -> None:
    """The run ends with that fault: nothing would ever be received."""
    (tmp_path / "stack.py").write_text(STACK)
    words = ["run", str(tmp_path / "stack.py"), "-f", "none"]
    with Wire("livetap") as wire, Inline(wire, tmp_path, *words, between=("tap:t0", "b1")) as running:
        ip("-n", wire.box, "link", "del", "t0")
        running.wait_for("warning: t0 was removed")
        ip("-n", wire.box, "link", "add", "t0", "type", "veth", "peer", "name", "t1")
        summary = running.ended(status=1)
    assert summary["fault"] == "t0: an interface of that name exists, and is no TAP device"
    assert (summary["received"]["removals"], summary["received"]["returns"]) == (1, 0)


def test_a_name_of_another_interface(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "stack.py").write_text(STACK)
    assert main(["run", str(tmp_path / "stack.py"), "-f", "none", "-i", "tap:lo"]) == 1
    assert "lo: an interface of that name exists, and is no TAP device" in capsys.readouterr().err
