"""An isolated chain inline between two interfaces: hosts talk through it while functions are killed and exchanged."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from sluice.cli.main import main
from tests.chain.test_inline import CHAIN, COUNT, GUARD, pytestmark
from tests.live.wire import Inline, Wire, content, fetch, ping, serve

__all__ = ["pytestmark"]

FLOWS = """
#include "sluice.h"
SLUICE_COUNTER(bytes, "of streams")
SLUICE_ON(tcp, data) { SLUICE_COUNTER_OF(event->box, bytes) += data->bytes.captured; }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chain and its functions, which are compiled once."""
    made = tmp_path_factory.mktemp("isolated")
    for name, text in (("guard.c", GUARD), ("count.c", COUNT), ("more.c", FLOWS), ("chain.py", CHAIN)):
        (made / name).write_text(text)
    return made


@pytest.fixture
def wire() -> Generator[Wire]:
    with Wire("chainiso") as made:
        yield made


class Control:
    """`sluice chainctl` of a chain."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.socket = str(folder / "control")
        self.capsys = capsys

    def __call__(self, *words: str, status: int = 0) -> str:
        assert main(["chainctl", self.socket, *words]) == status
        return "".join(self.capsys.readouterr())

    def list(self) -> dict[str, dict[str, Any]]:
        return {function["name"]: function for function in json.loads(self("list", "--json"))}

    def until(self, name: str, **values: object) -> None:
        """Wait until a function has these values."""
        end = time.monotonic() + 60
        while any(self.list()[name][key] != value for key, value in values.items()):
            assert time.monotonic() < end, self.list()[name]
            time.sleep(0.02)


def test_functions_are_killed_and_exchanged_while_hosts_talk(
    wire: Wire, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    control = Control(folder, capsys)
    good = content("/x/300000")

    def fetched(port: int = 8080, size: int = 300_000, seconds: int = 60) -> bool:
        status, digest = fetch(wire, port, f"/x/{size}", seconds)
        return (status, digest) == (0, hashlib.sha256(content(f"/x/{size}")).hexdigest())

    with Inline(wire, folder, "chain", str(folder / "chain.py"), "--isolate", "--control", control.socket) as running:
        assert ping(wire, 3) == 3
        site, refused = serve(wire, 8080), serve(wire, 8023)
        try:
            assert fetched()
            assert not fetched(8023, 9, 2)
            guard = control.list()["guard"]
            assert guard["state"] == "running" and "tcp.packet" in guard["receives"]
            os.kill(guard["process"], signal.SIGKILL)
            assert fetched()
            control.until("guard", crashes=1, state="running")
            assert not fetched(8023, 9, 2)
            assert "has no function 'gard'; it has guard, count" in control("remove", "gard", status=1)
            assert "the stack sends" in control("add", "new", str(write(folder, "udp", "created")), status=1)
            control("replace", "guard", str(folder / "guard.c"), "port=8080")  # now the other port is refused
            control.until("guard", state="running")
            assert fetched(8023, 9, 30)
            control("remove", "guard")
            control.until("guard", state="removed")
            assert fetched()
            control("add", "more", str(folder / "more.c"))
            control.until("more", state="running")
            assert fetched()
            control("unsubscribe", "count", "tcp.data")
            assert sorted(control.list()["count"]["receives"]) == ["ipv4.end", "ipv4.packet", "tcp.end"]
            before = json.loads(control("list", "--json"))
            assert fetched() and before
            control("subscribe", "count", "tcp.data", "--flow", "1")  # a flow that has ended: nothing comes of it
            assert "does not handle tcp.state" in control("subscribe", "count", "tcp.state", status=1)
        finally:
            for server in (site, refused):
                server.shutdown()
                server.server_close()
        summary = running.stop()
    reports = summary["reports"]
    assert reports["more.bytes"] > 2 * len(good)
    assert reports["count.bytes"] < summary["layers"]["tcp"]["bytes:delivered"] - len(good)
    assert reports["guard.crashes"] == 1
    assert summary["received"]["not_forwarded"] == 0
    assert not Path(control.socket).exists()


def write(folder: Path, layer: str, event: str) -> Path:
    """A function that subscribes to an event."""
    path = folder / f"{layer}_{event}.c"
    path.write_text(f'#include "sluice.h"\nSLUICE_ON({layer}, {event}) {{ (void)event; }}\n')
    return path
