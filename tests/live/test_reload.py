"""`sluice reload` of an inline box: a connection of the kernel's TCP goes on through the new version of a function."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.cli.main import main
from tests.live.wire import SERVER, Inline, Wire, why_no_wire
from tests.support.unoptimised import UNOPTIMISED

pytestmark = [pytest.mark.skipif(bool(why_no_wire()), reason=why_no_wire()), pytest.mark.root]
STACK = "from tests.support.small_stacks import small_stack\n\nstack = small_stack()\n"
GUARD = """
#include "sluice.h"
SLUICE_INLINE
struct flow { int segments; };
SLUICE_STATE(struct flow)
SLUICE_COUNTER(passed, "segments with data")
SLUICE_ON(tcp, packet) { SLUICE_STATE_OF(event)->segments++; }
SLUICE_ON(tcp, data) {
    SLUICE_COUNTER_OF(event->box, passed)++;
    if (data->bytes.captured == 6 && memcmp(data->bytes.at, "colour", 6) == 0)
        SLUICE_REWRITE(event->box, data->bytes.at, "COLOUR", 6);
}
"""
NEW = GUARD.replace('"COLOUR"', 'SLUICE_STATE_OF(event)->segments > 4 ? "flavor" : "anew.."')


@pytest.mark.parametrize("workers", [[], ["--workers", "2"]], ids=["one box", "two workers"])
def test_a_connection_goes_on(workers: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every byte arrives; the new version knows how many segments the connection had before."""
    monkeypatch.setenv("SLUICE_CFLAGS", UNOPTIMISED)
    (tmp_path / "stack.py").write_text(STACK)
    guard, control = tmp_path / "guard.c", tmp_path / "box.sock"
    guard.write_text(GUARD)
    words = ["run", str(tmp_path / "stack.py"), "-f", str(guard), "--control", str(control), *workers]
    with Wire("livereload") as wire, Inline(wire, tmp_path, *words) as running:
        listener = wire.socket(wire.server)
        listener.bind((SERVER, 8080))
        listener.listen()
        listener.settimeout(30)
        client = wire.socket(wire.client)
        client.settimeout(30)
        client.connect((SERVER, 8080))
        server, _ = listener.accept()
        server.settimeout(30)

        def says(word: bytes) -> None:
            client.sendall(b"colour")
            assert server.recv(100) == word
            server.sendall(b"heard")
            assert client.recv(100) == b"heard"

        for _ in range(4):
            says(b"COLOUR")
        guard.write_text(NEW)
        assert main(["reload", str(control), "guard", "--trial", "0.3"]) == 0
        for _ in range(4):
            says(b"flavor")
        client.close()
        server.close()
        listener.close()
        summary = running.stop()
    assert summary["reports"]["passed"] >= 16 and summary["received"]["not_forwarded"] == 0
    assert summary["received"]["forwarded"] == summary["packets"]
