"""ftplog and filelog: FTP in TLS (RFC 4217) whose secrets are known, after AUTH and from its beginning."""

from __future__ import annotations

import hashlib
import shutil
import ssl
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from tests.functions.logs.boxes import Talk, needs_parsers
from tests.functions.logs.hellos import LIKE_HELLO
from tests.functions.logs.more_boxes import Rows, run
from tests.functions.logs.test_http_tls import needs_libcrypto, needs_openssl, secured_talk
from tests.functions.logs.truth import fields_of
from tests.support.capture import pcap
from tests.support.connection import Host, pair, shuffled
from tests.support.packets import A4, B4

pytestmark = [needs_parsers, needs_libcrypto, needs_openssl]

FILE = b"text of a file\n" * 400
GREETING: Talk = [("<", b"220 there\r\n")]
AUTH: Talk = [*GREETING, (">", b"AUTH TLS\r\n"), ("<", b"234 go on\r\n")]
LOGIN: Talk = [
    (">", b"USER me\r\n"), ("<", b"331 password\r\n"), (">", b"PASS secret\r\n"), ("<", b"230 in\r\n"),
    (">", b"PBSZ 0\r\n"), ("<", b"200 ok\r\n"),
]  # fmt: skip
TRANSFER: Talk = [
    (">", b"EPSV\r\n"), ("<", b"229 entering (|||51210|)\r\n"), (">", b"RETR dir/a.txt\r\n"), ("<", b"150 opening\r\n"),
]  # fmt: skip
END: Talk = [("<", b"226 done\r\n"), (">", b"QUIT\r\n"), ("<", b"221 bye\r\n")]
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


def protection(level: bytes) -> Talk:
    return [(">", b"PROT " + level + b"\r\n"), ("<", b"200 ok\r\n")]


def frames_of(control: Talk, data: Talk, cut: int = 1460, port: int = 21, after: int = len(END)) -> list[bytes]:
    """A control connection, and a passive data connection before its last messages."""
    client, server = pair()
    server.port = port
    frames = [client.send("S"), server.send("SA"), client.send("A")]

    def say(ends: dict[str, Host], talk: Talk) -> None:
        for who, said in talk:
            frames.extend(ends[who].data(said[at : at + cut]) for at in range(0, len(said), cut))

    say({">": client, "<": server}, control[:-after])
    one, other = Host(A4, 50000, 7), Host(B4, 51210, 9)
    one.peer, other.peer = other, one
    frames += [one.send("S"), other.send("SA"), one.send("A")]
    say({">": one, "<": other}, data)
    frames += [one.send("FA"), other.send("FA"), one.send("A")]
    say({">": client, "<": server}, control[-after:])
    return [*frames, client.send("FA"), server.send("FA"), client.send("A")]


def secured(folder: Path, version: ssl.TLSVersion, talk: Talk, data: Talk | None) -> tuple[Talk, Talk, Path]:
    """The records of a control connection and of a data connection, and the log with the keys of both."""
    records: list[Talk] = []
    keys = folder / "all.keys"
    for name, said in (("control", talk), ("data", data)):
        (folder / name).mkdir()
        sent, log = secured_talk(folder / name, version, said) if said is not None else ([], None)
        records.append(sent)
        with keys.open("a") as out:
            out.write(log.read_text() if log else "")
    return records[0], records[1], keys


def found(frames: list[bytes], keys: Path | None) -> Rows:
    return run(frames, {log: f",keylog={keys}" for log in ("ftplog", "filelog")} if keys else None)


def check(rows: Rows) -> None:
    commands = {(row["command"], row["argument"], row["reply_code"], row["user"]) for row in rows["ftplog"]}
    assert {("USER", "me", 331, "me"), ("PASS", "<hidden>", 230, "me"), ("QUIT", None, 221, "me")} <= commands
    (row,) = [row for row in rows["ftplog"] if row["command"] == "RETR"]
    assert (row["argument"], row["reply"], row["data_bytes"], row["data_missing"]) == (
        "dir/a.txt",
        "done",
        len(FILE),
        0,
    )
    assert row["tls"] and {row["command"] for row in rows["ftplog"] if not row["tls"]} <= {None, "AUTH"}
    (file,) = rows["filelog"]
    assert (file["source"], file["name"], file["flow"], file["complete"]) == ("ftp", "a.txt", row["data_flow"], True)
    assert file["sha256"] == hashlib.sha256(FILE).hexdigest()


def counted(rows: Rows, log: str = "ftp_tls") -> dict[str, int]:
    counts: dict[str, Any] = rows["counted"][0]
    return {name: number for name, number in counts.items() if name.startswith(log)}


@pytest.mark.parametrize("version", VERSIONS)
def test_explicit_and_implicit_tls(tmp_path: Path, version: ssl.TLSVersion) -> None:
    talk = [*LOGIN, *protection(b"P"), *TRANSFER, *END]
    (tmp_path / "a").mkdir()
    control, data, keys = secured(tmp_path / "a", version, talk, [("<", FILE)])
    for cut in (1, 7, 1460):
        rows = found(frames_of([*AUTH, *control], data, cut), keys)
        check(rows)
        assert counted(rows) == {"ftp_tls_opened": 2} and counted(rows, "file_tls") == {"file_tls_opened": 2}, cut
    assert [row["command"] for row in rows["ftplog"] if row["data_tls"]] == ["RETR"]
    for seed in range(3):
        check(found(shuffled(frames_of([*AUTH, *control], data, 300), seed, 3), keys))
    (tmp_path / "b").mkdir()
    control, data, keys = secured(tmp_path / "b", version, [*GREETING, *talk], [("<", FILE)])
    check(found(frames_of(control, data, port=990), keys))


@pytest.mark.skipif(shutil.which("tshark") is None, reason="no tshark, with which commands are compared")
def test_commands_and_replies_are_those_that_tshark_shows(tmp_path: Path) -> None:
    talk = [*LOGIN, *protection(b"P"), *TRANSFER, *END]
    control, data, keys = secured(tmp_path, VERSIONS[0], talk, [("<", FILE)])
    frames = frames_of([*AUTH, *control], data)
    (tmp_path / "in.pcap").write_bytes(pcap(frames))
    names = ("ftp.request.command", "ftp.response.code")
    theirs = Counter[str]()
    for packet in fields_of(tmp_path / "in.pcap", names, "-o", f"tls.keylog_file:{keys}"):
        theirs.update(one for name in names for one in packet[name])
    ours = Counter[str]()
    for row in found(frames, keys)["ftplog"]:
        ours.update(str(one) for one in (row["command"], row["reply_code"]) if one)
    assert ours == theirs - Counter({"150": 1})  # a preliminary reply has no row


def test_data_in_the_clear_and_uploads(tmp_path: Path) -> None:
    """PROT C; and STOR with PROT P, of which the client sends the file."""
    (tmp_path / "a").mkdir()
    control, _, keys = secured(tmp_path / "a", VERSIONS[1], [*LOGIN, *protection(b"C"), *TRANSFER, *END], None)
    rows = found(frames_of([*AUTH, *control], [("<", FILE)]), keys)
    check(rows)
    assert counted(rows) == {"ftp_tls_opened": 1} and not any(row["data_tls"] for row in rows["ftplog"])
    hello = LIKE_HELLO + FILE  # a file that begins as TLS does
    (row,) = found(frames_of([*AUTH, *control], [("<", hello)]), keys)["filelog"]
    assert row["sha256"] == hashlib.sha256(hello).hexdigest()
    (tmp_path / "b").mkdir()
    store = [(who, said.replace(b"RETR", b"STOR")) for who, said in TRANSFER]
    control, data, keys = secured(tmp_path / "b", VERSIONS[1], [*LOGIN, *protection(b"P"), *store, *END], [(">", FILE)])
    (file,) = found(frames_of([*AUTH, *control], data), keys)["filelog"]
    assert (file["src"], file["sha256"]) == ("10.0.0.1", hashlib.sha256(FILE).hexdigest())


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    """Without a key log, without the keys of the data connection, and with missing segments of each."""
    halves: Talk = [("<", FILE[:3000]), ("<", FILE[3000:])]
    control, data, keys = secured(tmp_path, VERSIONS[1], [*LOGIN, *protection(b"P"), *TRANSFER, *END], halves)
    rows = found(frames_of([*AUTH, *control], data), None)
    assert [row["command"] for row in rows["ftplog"]] == [None, "AUTH"] and not rows["filelog"]
    assert counted(rows) == {"ftp_tls_unread": 1}
    only = tmp_path / "control" / "keys"
    rows = found(frames_of([*AUTH, *control], data), only)
    (row,) = [row for row in rows["ftplog"] if row["command"] == "RETR"]
    assert (row["data_bytes"], row["reply"]) == (None, "done") and not rows["filelog"]
    assert counted(rows) == {"ftp_tls_opened": 1, "ftp_tls_without_key": 2}
    frames = frames_of([*AUTH, *control], data, 700)
    large = [at for at, one in enumerate(frames) if len(one) > 700]
    rows = found([one for at, one in enumerate(frames) if at != large[-3]], keys)
    (file,) = rows["filelog"]
    assert not file["complete"] and file["missing"] and file["length"] + file["missing"] == len(FILE)
    broken = [
        (who, said[:-1] + b"~") if number == len(control) - 9 else (who, said)
        for number, (who, said) in enumerate(control)
    ]
    rows = found(frames_of([*AUTH, *broken], data), keys)
    assert counted(rows)["ftp_tls_refused"] == 1 and "QUIT" not in [row["command"] for row in rows["ftplog"]]


def test_the_first_segments_of_a_protected_data_connection_are_missing(tmp_path: Path) -> None:
    """What follows is no file in the clear, whichever side's hello was not captured."""
    control, data, keys = secured(tmp_path, VERSIONS[1], [*LOGIN, *protection(b"P"), *TRANSFER, *END], [("<", FILE)])
    frames = frames_of([*AUTH, *control], data, 200)
    for source, target in ((A4, B4), (B4, A4)):
        port = 34 + (2 if source == A4 else 0)
        of_data = [
            at for at, one in enumerate(frames)
            if one[26:34] == source + target and one[port : port + 2] == struct.pack(">H", 51210) and len(one) > 60
        ]  # fmt: skip
        rows = found([one for at, one in enumerate(frames) if at != of_data[0]], keys)
        (row,) = [row for row in rows["ftplog"] if row["command"] == "RETR"]
        assert row["data_bytes"] is None and row["data_missing"] and not rows["filelog"], source
        assert counted(rows)["ftp_tls_gaps"] and counted(rows, "file_tls")["file_tls_gaps"]


def test_a_command_that_looks_like_tls_hides_nothing(tmp_path: Path) -> None:
    """Without AUTH, after one that is refused, and together with it; what follows is read."""
    _, _, keys = secured(tmp_path, VERSIONS[1], [*LOGIN, *END], None)
    hello = LIKE_HELLO + b"x" * 60 + b"\r\n"
    what: Talk = [("<", b"500 what\r\n")]
    for begin in (
        [*GREETING, *LOGIN[:2], (">", hello), *what, *LOGIN],
        [*GREETING, (">", b"AUTH TLS\r\n"), ("<", b"502 no\r\n"), (">", hello), *what, *LOGIN],
        [*GREETING, (">", b"AUTH TLS\r\n" + hello), ("<", b"502 no\r\n500 what\r\n"), *LOGIN],
    ):
        rows = found(frames_of([*begin, *TRANSFER, *END], [("<", FILE)]), keys)
        (row,) = [row for row in rows["ftplog"] if row["command"] == "RETR"]
        assert (row["data_bytes"], row["user"], row["tls"]) == (len(FILE), "me", False)
        (file,) = rows["filelog"]
        assert file["sha256"] == hashlib.sha256(FILE).hexdigest()
        assert not counted(rows) and not counted(rows, "file_tls")


def test_a_hello_that_comes_before_the_reply_to_auth(tmp_path: Path) -> None:
    """And TLS after more bytes than filelog searches for HTTP in."""
    control, data, keys = secured(tmp_path, VERSIONS[1], [*LOGIN, *protection(b"P"), *TRANSFER, *END], [("<", FILE)])
    frames = frames_of([*AUTH, *control], data)
    at = 3 + len(AUTH)
    assert b"234 go on" in frames[at - 1]
    check(found([*frames[: at - 1], frames[at], frames[at - 1], *frames[at + 1 :]], keys))
    check(found(frames_of([*GREETING, (">", AUTH[1][1] + control[0][1]), AUTH[2], *control[1:]], data), keys))
    idle: Talk = [
        each for _ in range(200) for each in ((">", b"NOOP with some words\r\n"), ("<", b"200 yes, I am here\r\n"))
    ]
    rows = found(frames_of([*GREETING, *idle, *AUTH[1:], *control], data), keys)
    (file,) = rows["filelog"]
    assert file["sha256"] == hashlib.sha256(FILE).hexdigest()


class Direction:
    """The application data of a side, in TLS 1.3 with AES-256-GCM and SHA-384."""

    def __init__(self, secret: bytes) -> None:
        def expand(label: bytes, size: int) -> bytes:
            info = struct.pack(">HB", size, 6 + len(label)) + b"tls13 " + label + b"\0"
            return HKDFExpand(SHA384(), size, info).derive(secret)

        self.cipher, self.iv = AESGCM(expand(b"key", 32)), int.from_bytes(expand(b"iv", 12), "big")
        self.read, self.written = 0, 0

    def opened(self, record: bytes) -> bytes:
        text = self.cipher.decrypt((self.iv ^ self.read).to_bytes(12, "big"), record[5:], record[:5])
        self.read += 1
        return text

    def sealed(self, text: bytes) -> bytes:
        head = struct.pack(">BHH", 23, 0x0303, len(text) + 16)
        self.written += 1
        return head + self.cipher.encrypt((self.iv ^ (self.written - 1)).to_bytes(12, "big"), text, head)


def with_empty_records(talk: Talk, keys: Path) -> Talk:
    """The same records, with one without content before each that has application data (RFC 8446, 5.1)."""
    secrets = dict(line.split()[::2] for line in keys.read_text().splitlines() if line.startswith(("C", "S")))
    names = {">": "CLIENT_TRAFFIC_SECRET_0", "<": "SERVER_TRAFFIC_SECRET_0"}
    ends = {who: Direction(bytes.fromhex(secrets[name])) for who, name in names.items()}
    out: Talk = []
    for who, records in talk:
        said, rest, end = b"", records, ends[who]
        while rest:
            size = 5 + int.from_bytes(rest[3:5], "big")
            record, rest = rest[:size], rest[size:]
            try:
                text = end.opened(record) if record[0] == 23 else b""
            except InvalidTag:  # of the handshake
                text = b""
            if text[-1:] == b"\x17":
                said += end.sealed(b"\x17")
            said += end.sealed(text) if text else record
        out.append((who, said))
    return out


def test_records_without_content(tmp_path: Path) -> None:
    control, data, keys = secured(tmp_path, VERSIONS[1], [*LOGIN, *protection(b"P"), *TRANSFER, *END], [("<", FILE)])
    control = with_empty_records(control, tmp_path / "control" / "keys")
    data = with_empty_records(data, tmp_path / "data" / "keys")
    for cut in (7, 1460):
        rows = found(frames_of([*AUTH, *control], data, cut), keys)
        check(rows)
        assert counted(rows) == {"ftp_tls_opened": 2}


def test_commands_without_replies_after_auth_are_bounded(tmp_path: Path) -> None:
    _, _, keys = secured(tmp_path, VERSIONS[1], LOGIN, None)
    rows = found(frames_of([*AUTH, (">", b"NOOP\r\n" * 400), *END], [("<", FILE)]), keys)
    assert counted(rows, "ftp_too_many") == {"ftp_too_many": 1}
