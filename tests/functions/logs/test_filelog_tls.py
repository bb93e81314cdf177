"""filelog with a key log: files that HTTP/1, HTTP/2 and SMTP carry within TLS."""

from __future__ import annotations

import hashlib
import shutil
import ssl
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from sluice.engine.box import CompiledStack
from tests.functions.logs.boxes import Row, Talk, connection, lasting, needs_parsers
from tests.functions.logs.hellos import other_keys
from tests.functions.logs.http2 import Found, compiled_with, needs_nghttp2, run, run_packets
from tests.functions.logs.test_http2 import talks
from tests.functions.logs.test_http_tls import ASKED, CAPTURE, KEYS, needs_libcrypto, needs_openssl, secured_talk

pytestmark = [needs_parsers, needs_nghttp2, needs_libcrypto]


@cache
def program() -> CompiledStack:
    return compiled_with("filelog")


def opened(talk: Talk, keys: Path, cut: int = 1460, port: int = 443) -> Found:
    return run_packets(connection(talk, cut, port=port), f",keylog={keys}", program=program())


def counted(found: Found) -> dict[str, int]:
    return {name: count for name, count in found.reports.items() if name.startswith("file_tls") and count}


def files() -> list[Row]:
    return run(lambda box: box.run(CAPTURE), f",keylog={KEYS}", program=program()).rows


def test_files_of_the_capture() -> None:
    rows = files()
    assert Counter(row["name"] for row in rows)["big.txt"] == 3
    assert all(row["complete"] and row["source"] == "http" for row in rows)
    assert [row["length"] for row in rows if row["name"] == "big.txt"] == [40000] * 3
    without = run(lambda box: box.run(CAPTURE), program=program())
    assert not without.rows and not counted(without)


@pytest.mark.skipif(shutil.which("tshark") is None, reason="no tshark, with which files are compared")
def test_files_are_those_that_tshark_exports(tmp_path: Path) -> None:
    command = [
        "tshark",
        "-q",
        "-r",
        str(CAPTURE),
        "-o",
        f"tls.keylog_file:{KEYS}",
        "--export-objects",
        f"http,{tmp_path}",
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    theirs = {hashlib.sha256(path.read_bytes()).hexdigest() for path in tmp_path.iterdir()}
    assert theirs and theirs <= {row["sha256"] for row in files()}


def test_segments_of_any_size() -> None:
    said = talks(CAPTURE)
    for number in (0, 2, 3, 8, 9, 10):
        whole = lasting(opened(said[number], KEYS).rows)
        assert whole
        for cut in (1, 23, 700):
            assert lasting(opened(said[number], KEYS, cut).rows) == whole, (number, cut)


MAIL: Talk = [
    (">", b"EHLO a.example\r\n"),
    ("<", b"250 mail.example\r\n"),
    (">", b"MAIL FROM:<a@a.example>\r\n"),
    ("<", b"250 ok\r\n"),
    (">", b"RCPT TO:<b@b.example>\r\n"),
    ("<", b"250 ok\r\n"),
    (">", b"DATA\r\n"),
    ("<", b"354 go on\r\n"),
    (
        ">",
        b'Subject: x\r\nContent-Type: application/pdf; name="a.pdf"\r\nContent-Transfer-Encoding: base64\r\n'
        b"Content-Disposition: attachment\r\n\r\nJVBERi0xLjQK\r\n.\r\n",
    ),
    ("<", b"250 ok\r\n"),
    (">", b"QUIT\r\n"),
    ("<", b"221 bye\r\n"),
]
GREETING: Talk = [("<", b"220 mail.example ESMTP\r\n")]
STARTTLS: Talk = [
    *GREETING,
    (">", b"EHLO a.example\r\n"),
    ("<", b"250-mail.example\r\n250 STARTTLS\r\n"),
    (">", b"STARTTLS\r\n"),
    ("<", b"220 go on\r\n"),
]


@needs_openssl
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_mail_after_starttls_and_within_tls_from_the_beginning(tmp_path: Path, version: ssl.TLSVersion) -> None:
    (plain,) = run_packets(connection([*GREETING, *MAIL], port=25), program=program()).rows
    assert (plain["name"], plain["length"], plain["complete"]) == ("a.pdf", 9, True)
    secured, keys = secured_talk(tmp_path, version, MAIL)
    for cut in (1, 7, 1460):
        found = opened([*STARTTLS, *secured], keys, cut, port=25)
        assert lasting(found.rows) == lasting([plain]), cut
        assert counted(found) == {"file_tls_opened": 1}
    implicit, keys = secured_talk(tmp_path, version, [*GREETING, *MAIL])
    found = opened(implicit, keys, port=465)
    assert [(row["name"], row["sha256"]) for row in found.rows] == [("a.pdf", plain["sha256"])]


@needs_openssl
def test_a_file_within_tls_after_connect(tmp_path: Path) -> None:
    body = b"HTTP/1.1 200 OK\r\nContent-Length: 300\r\n\r\n" + b"y" * 300
    secured, keys = secured_talk(tmp_path, ssl.TLSVersion.TLSv1_3, [(">", ASKED), ("<", body)])
    connect = [(">", b"CONNECT a.example:443 HTTP/1.1\r\n\r\n"), ("<", b"HTTP/1.1 200 OK\r\n\r\n")]
    for cut in (1, 1460):
        found = opened([*connect, *secured], keys, cut)
        assert [(row["name"], row["length"]) for row in found.rows] == [("a", 300)], cut
    after = [(who, b"".join(text for by, text in secured if by == who)) for who in "><"]
    together = [(who, head + text) for (who, head), (_, text) in zip(connect, after, strict=True)]
    assert len(opened(together, keys).rows) == 1


def test_a_gap_and_missing_keys(tmp_path: Path) -> None:
    said = talks(CAPTURE)[2]
    frames = connection(said, 1000, port=443)
    large = [at for at, one in enumerate(frames) if len(one) > 1000]
    del frames[large[len(large) // 2]]
    row = run_packets(frames, f",keylog={KEYS}", program=program()).rows[-1]
    assert row["name"] == "big.txt" and 0 < row["missing"] <= 1 << 14 and not row["complete"]
    assert row["length"] + row["missing"] == 40000
    keys = other_keys(tmp_path / "keys")
    found = opened(said, keys)
    assert not found.rows and counted(found) == {"file_tls_without_key": 2}
