"""`-f edit` between two hosts: the kernel's TCP, curl and nginx on both sides of edits that change the length."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.live.wire import SERVER, Inline, LossyWire, Wire, why_no_wire
from tests.support.bounded import joined
from tests.support.budget import in_matrix
from tests.support.unoptimised import UNOPTIMISED

MISSING = why_no_wire() or ("" if shutil.which("nginx") else "there is no nginx (Debian: nginx-light)")
pytestmark = [pytest.mark.skipif(bool(MISSING), reason=MISSING), pytest.mark.root]

STACK = """
from tests.support.small_stacks import small_stack

stack = small_stack()
"""
NGINX = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/log;
events {{ }}
http {{
    access_log off; client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
    uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
    keepalive_requests 100000; postpone_output 0;
    server {{ listen {server}:8080; root {folder}/site; ssi on; default_type text/html; }}
}}
"""
PAGES = 100


@pytest.fixture(autouse=True)
def fast_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests are not about speed."""
    monkeypatch.setenv("SLUICE_CFLAGS", UNOPTIMISED)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("edit")
    (made / "stack.py").write_text(STACK)
    site = made / "site"
    site.mkdir()
    made.chmod(0o755)
    (site / "big").write_bytes(page("big"))
    (site / "chunked.shtml").write_bytes(page("chunked"))
    for number in range(PAGES):
        (site / f"{number}").write_bytes(page(str(number)))
    (made / "nginx.conf").write_text(NGINX.format(folder=made, server=SERVER))
    return made


def page(name: str) -> bytes:
    if name == "big":
        return b"".join(b"%d a secret line\n" % number for number in range(60000))
    if name == "chunked":
        return b"the sec<!--#set var='a' value='b' -->ret, a secret" * 500
    return b"page " + name.encode() + b" has a secret" + b"." * int(name or 0)


def fetch(wire: Wire, pages: list[str], folder: Path) -> list[bytes]:
    """The pages as curl gets them, one after the other over one connection."""
    out = folder / "got"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    words = ["curl", "-sS", "--noproxy", "*", "--max-time", "60", "-w", "%{num_connects}\n"]
    for number, name in enumerate(pages):
        words += ["-o", str(out / str(number)), f"http://{SERVER}:8080/{name}"]
    with wire.start(wire.client, words, stdout=subprocess.PIPE) as done:
        try:
            text, _ = done.communicate(timeout=90)
        finally:
            done.kill()
    assert done.returncode == 0
    assert sum(map(int, text.split())) == 1, "all pages came over one connection"
    return [(out / str(number)).read_bytes() for number in range(len(pages))]


class Nginx:
    def __init__(self, wire: Wire, folder: Path) -> None:
        self.process = wire.start(wire.server, ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")])
        for _ in range(200):
            with suppress(OSError), wire.socket(wire.server) as end:
                end.connect((SERVER, 8080))
                return
            time.sleep(0.05)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(timeout=60)


@pytest.fixture
def wire() -> Generator[Wire]:
    with Wire("liveedit") as made:
        yield made


def edited(text: bytes, mode: str) -> bytes:
    return text.replace(b"secret", {"mask": b"******", "remove": b"", "replace": b"<public knowledge>"}[mode])


@pytest.mark.parametrize("mode", [in_matrix("mask"), in_matrix("remove"), "replace"])
def test_curl_gets_edited_pages_and_the_connection_goes_on(wire: Wire, folder: Path, mode: str) -> None:
    """A large page, and after it a hundred more requests on the same connection."""
    options = f"edit:pattern=secret,mode={mode},with=<public knowledge>"
    names = ["big", *map(str, range(PAGES))]
    with Inline(wire, folder, "run", str(folder / "stack.py"), "-f", options) as running, Nginx(wire, folder):
        *got, last = fetch(wire, [*names, "chunked.shtml"], folder)
        summary = running.stop()
    for name, text in zip(names, got, strict=True):
        assert text == edited(page(name), mode), name
    assert last == edited(page("chunked").replace(b"<!--#set var='a' value='b' -->", b""), mode), (
        "the match lies across chunks"
    )
    assert summary["reports"]["not_mapped"] == summary["reports"]["no_room"] == summary["reports"]["not_edited"] == 0


def test_edits_on_a_link_that_loses_and_reorders(folder: Path) -> None:
    """A beginning of the pattern waits as long as a retransmission takes, and so is not output unedited."""
    options = "edit:pattern=secret,mode=replace,with=<public knowledge>,wait=30"
    with LossyWire("liveedit", 0.01, 0.02) as wire:
        with Inline(wire, folder, "run", str(folder / "stack.py"), "-f", options) as running, Nginx(wire, folder):
            got = fetch(wire, ["big", "1", "2"], folder)
            running.stop()
    assert got == [edited(page(name), "replace") for name in ("big", "1", "2")]


def test_close(wire: Wire, folder: Path) -> None:
    """The connection is reset before the client gets the page."""
    with Inline(wire, folder, "run", str(folder / "stack.py"), "-f", "edit:pattern=secret,mode=close") as running:
        with Nginx(wire, folder):
            words = ["curl", "-s", "--noproxy", "*", "--max-time", "30", f"http://{SERVER}:8080/1"]
            with wire.start(wire.client, words, stdout=subprocess.PIPE) as done:
                text, _ = done.communicate(timeout=60)
            assert (done.returncode, text) == (56, "")
        assert running.stop()["reports"]["closed"] == 1


def test_close_while_data_is_on_its_way(wire: Wire, folder: Path) -> None:
    """The client says the pattern while the server sends without end, so that it has another number than the one that
    the first reset has when that arrives; its next packet is answered with one that it accepts.
    """
    ended: list[str] = []

    def send(listener: socket.socket) -> None:
        end, _ = listener.accept()
        end.settimeout(60)
        try:
            while True:
                end.sendall(bytes(1 << 16))
        except OSError as error:
            ended.append(type(error).__name__)

    with Inline(wire, folder, "run", str(folder / "stack.py"), "-f", "edit:pattern=secret,mode=close") as running:
        with wire.socket(wire.server) as listener, wire.socket(wire.client) as client:
            listener.bind((SERVER, 8081))
            listener.listen()
            thread = threading.Thread(target=send, args=(listener,), daemon=True)
            thread.start()
            client.settimeout(60)
            client.connect((SERVER, 8081))
            for _ in range(50):
                client.recv(1 << 16)
            client.sendall(b"secret")
            with pytest.raises(ConnectionResetError):
                while client.recv(1 << 16):
                    pass
            joined(thread)
        reports = running.stop()["reports"]
    assert ended == ["ConnectionResetError"] and reports["closed"] == 1 and reports["reset_again"] >= 1
