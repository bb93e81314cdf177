"""Rules inline between two interfaces: curl gets what no rule is about, and nothing of what a rule drops or rejects.

The namespaces are those of tests/live/wire.py.
"""

from __future__ import annotations

import http.server
import json
import subprocess
import time
from collections.abc import Generator
from pathlib import Path
from typing import ClassVar

import pytest

from tests.chain import test_inline
from tests.functions.detect.boxes import needs_ids, rule
from tests.live.wire import PATIENCE, SERVER, Inline, Wire, serve

pytestmark = [*test_inline.pytestmark, needs_ids]

PORT = 8080
RULES = (
    rule('content:"/secret"; http_uri;', sid=1).replace("alert", "drop", 1)
    + rule('content:"virus"; flow:to_client;', sid=2).replace("alert", "drop", 1)
    + rule('content:"/refused"; http_uri;', sid=3).replace("alert", "reject", 1)
    + rule('content:"/watched"; http_uri;', sid=4)
)


class Site(http.server.BaseHTTPRequestHandler):
    """Answers with its path, after many bytes, which are in many segments."""

    requested: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.requested.append(self.path)
        body = b"." * 50_000 + self.path.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def wire() -> Generator[Wire]:
    with Wire("detecti") as made:
        yield made


def fetch(wire: Wire, path: str, seconds: int = 20) -> tuple[int, bytes]:
    """The exit status of curl, and what it got."""
    command = ["curl", "-s", "--noproxy", "*", "--max-time", str(seconds), f"http://{SERVER}:{PORT}{path}"]
    with wire.start(wire.client, command, stdout=subprocess.PIPE) as done:
        text, _ = done.communicate(timeout=PATIENCE)
    return done.returncode, text.encode() if isinstance(text, str) else text


def test_curl_through_rules(wire: Wire, tmp_path: Path) -> None:
    (tmp_path / "a.rules").write_text(RULES)
    words = ["ids", str(tmp_path / "a.rules"), "--stack", "tcp_ip", "-o", str(tmp_path / "alerts")]
    with Inline(wire, tmp_path, *words) as running:
        server = serve(wire, PORT, Site)
        assert fetch(wire, "/plain") == (0, b"." * 50_000 + b"/plain")
        assert fetch(wire, "/watched") == (0, b"." * 50_000 + b"/watched")
        status, got = fetch(wire, "/secret", 3)
        assert status == 28 and not got  # curl: it timed out
        status, got = fetch(wire, "/a-virus", 3)
        assert status == 28 and b"virus" not in got and len(got) > 10_000
        started = time.monotonic()
        status, got = fetch(wire, "/refused")
        assert status == 56 and not got and time.monotonic() - started < 15  # curl: the connection was reset
        assert fetch(wire, "/plain/again")[0] == 0
        server.shutdown()
        server.server_close()
        summary = running.stop()
    assert "/secret" not in Site.requested and "/refused" not in Site.requested
    rows = [json.loads(line) for line in (tmp_path / "alerts").read_text().splitlines()]
    decided = [(row["alert"]["signature_id"], row["alert"]["action"]) for row in rows]
    assert decided == [(4, "allowed"), (1, "blocked"), (2, "blocked"), (3, "blocked")]
    assert {each["sid"] for each in summary["alerts"]} == {1, 2, 3, 4}
