"""What assets finds: hosts, services and clients with versions, operating systems; signatures of the user's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.engine.box import RunError
from tests.functions.boxes.test_fakereset import hops
from tests.functions.detect.boxes import MISSING
from tests.functions.security import Ran, icmp4, run
from tests.support.connection import goodbye, handshake, pair
from tests.support.packets import A4, B4, eth, ip4, ip6, udp

pytestmark = pytest.mark.skipif(bool(MISSING) and "PCRE2" in MISSING, reason=MISSING)

LINUX = b"\2\4\5\xb4\4\2\x08\x0a\0\0\0\1\0\0\0\0\1\3\3\7"
WINDOWS = b"\2\4\5\xb4\1\3\3\x08\1\1\4\2"


def talk(asked: bytes, answered: bytes, port: int = 80, cut: int = 1460, version: int = 4) -> list[bytes]:
    client, server = pair(version=version)
    server.port = port
    frames = handshake(client, server)
    frames += [client.data(asked[at : at + cut]) for at in range(0, len(asked), cut)]
    frames += [server.data(answered[at : at + cut]) for at in range(0, len(answered), cut)]
    return [*frames, *goodbye(client, server)]


def found(ran: Ran, kind: str, *names: str) -> list[tuple[object, ...]]:
    return [tuple(row.get(name) for name in names) for row in ran.rows if row["asset"] == kind]


def test_hosts() -> None:
    frames = [
        *talk(b"x", b"y"),
        eth(ip4(udp(1, 53, b"x"), 17, A4, B4)),
        icmp4(8, 0, b"\0\1\0\1", bytes([10, 0, 0, 9]), B4),
    ]
    frames += [eth(ip6(udp(1, 2, b"x"), 17))] * 2
    hosts = found(run("assets", frames), "host", "address", "mac")
    mac = "02:00:00:00:00:02"
    assert hosts == [("10.0.0.1", mac), ("10.0.0.2", mac), ("10.0.0.9", mac), ("2001:db8::1", mac)]


@pytest.mark.parametrize(
    ("asked", "answered", "port", "service", "client"),
    [
        (
            b"GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: curl/8.5.0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nDate: x\r\nServer: nginx/1.22.1\r\n\r\nbody",
            8080,
            ("http", "nginx", "1.22.1", None),
            ("http", "curl", "8.5.0"),
        ),
        (
            b"SSH-2.0-PuTTY_0.79\r\n",
            b"SSH-2.0-OpenSSH_9.2p1 Debian\r\n",
            2222,
            ("ssh", "OpenSSH", "9.2p1", "protocol 2.0"),
            ("ssh", "PuTTY", "0.79"),
        ),
        (b"USER x\r\n", b"220 (vsFTPd 3.0.3)\r\n", 21, ("ftp", "vsFTPd", "3.0.3", None), None),
        (b"EHLO x\r\n", b"220 mail ESMTP Postfix (Debian)\r\n", 25, ("smtp", "Postfix", None, None), None),
        (b"x", b"J\0\0\0\x0a8.0.36-debian\0rest", 3306, ("mysql", "MySQL", "8.0.36-debian", None), None),
    ],
)
def test_services_and_clients(
    asked: bytes, answered: bytes, port: int, service: tuple[str | None, ...], client: tuple[str, ...] | None
) -> None:
    for cut in (1460, 1):
        ran = run("assets", talk(asked, answered, port, cut))
        named = [row for row in found(ran, "service", "service", "product", "version", "info") if row[0]]
        assert named == [service]
        assert found(ran, "client", "service", "product", "version") == ([client] if client else [])
        assert found(ran, "service", "port", "protocol")[0] == (port, "tcp")


def test_each_thing_is_written_once() -> None:
    frames = talk(b"GET / HTTP/1.1\r\nUser-Agent: a/1\r\n\r\n", b"HTTP/1.1 200 OK\r\nServer: b/2\r\n\r\n")
    once, twice = run("assets", frames), run("assets", frames * 3)
    assert [row | {"time": 0} for row in once.rows] == [row | {"time": 0} for row in twice.rows]
    assert once.reports["assets_named"] == 1


def test_systems() -> None:
    client, server = pair()
    linux = client.send("S", options=LINUX, window=64240)
    windows = hops(server.send("S", options=WINDOWS, window=64240), 121)
    marked = [frame[:20] + b"\x40\0" + frame[22:] for frame in (linux, windows)]  # do not fragment
    ran = run("assets", [*marked, server.send("S")])
    assert found(ran, "system", "address", "system", "by", "distance") == [
        ("10.0.0.1", "Linux", "syn", 0),
        ("10.0.0.2", "Windows", "syn", 7),
    ]
    assert ran.reports["assets_unknown_systems"] == 1


def test_signatures_of_files(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s").write_text(
        "# ours\nown,v/Thing/$2/by $1/,^I am (\\S+) version ([0-9.]+)\nbad line\nbad,v/x//,(unclosed\n"
    )
    (tmp_path / "o").write_text(
        "S40:64:0:44:M1460:.:@Toy:one:two\n%8192:255:0:40:.:.:Other:\nnonsense\n65535:64:2:40:.:.:x:y\n"
    )
    client, server = pair()
    frames = [client.send("S", options=b"\2\4\5\xb4", window=40 * 1460), server.send("SA"), client.send("A")]
    frames += [client.data(b"x"), server.data(b"I am Bob version 1.2\n")]
    ran = run("assets", frames, f"services={tmp_path}/s,systems={tmp_path}/o")
    named = [row for row in found(ran, "service", "service", "product", "version", "info") if row[0]]
    assert found(ran, "system", "system", "details") == [("Toy", "one:two")]
    assert named == [("own", "Thing", "1.2", "by Bob")] and ran.reports["assets_skipped"] == 4
    assert f"{tmp_path}/s:3: it is not of the form" in capfd.readouterr().err
    with pytest.raises(RunError):
        run("assets", frames, "services=/nowhere/at")


def test_bounds(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("own,v/x///,^(a+)+$\n")
    frames = talk(b"q", b"a" * 300 + b"!")
    assert run("assets", frames, "flows=1").reports["assets_left_out"] == 1
    assert run("assets", frames, f"services={tmp_path}/s").reports["assets_bounded"] == 1
