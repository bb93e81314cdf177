"""smtplog: SMTP in TLS whose secrets are known, after STARTTLS and from its beginning."""

from __future__ import annotations

import shutil
import ssl
from pathlib import Path
from typing import Any

import pytest

from tests.functions.logs.boxes import Row, Talk, connection, needs_parsers
from tests.functions.logs.hellos import LIKE_HELLO, other_keys
from tests.functions.logs.more_boxes import Rows, lasting, run
from tests.functions.logs.test_filelog_tls import GREETING, MAIL, STARTTLS
from tests.functions.logs.test_http_tls import needs_libcrypto, needs_openssl, secured_talk
from tests.functions.logs.truth import fields_of
from tests.support.capture import pcap
from tests.support.connection import shuffled

pytestmark = [needs_parsers, needs_libcrypto, needs_openssl]

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
OPENED = {"smtp_tls_opened": 1}


def found(frames: list[bytes], keys: Path | None) -> Rows:
    return run(frames, {log: f",keylog={keys}" for log in ("smtplog", "filelog")} if keys else None)


def counted(rows: Rows) -> dict[str, int]:
    counts: dict[str, Any] = rows["counted"][0]
    return {name: number for name, number in counts.items() if name.startswith("smtp_")}


def check(rows: Rows, server: str | None = "mail.example ESMTP") -> None:
    (row,) = rows["smtplog"]
    assert (row["mail_from"], row["recipients"], row["subject"]) == ("a@a.example", ["b@b.example"], "x")
    assert (row["server"], row["helo"], row["reply"], row["tls"]) == (server, "a.example", "ok", True)
    (file,) = rows["filelog"]
    assert (file["name"], file["source"], file["complete"]) == ("a.pdf", "smtp", True)


@pytest.mark.parametrize("version", VERSIONS)
def test_after_starttls_and_from_the_beginning(tmp_path: Path, version: ssl.TLSVersion) -> None:
    secured, keys = secured_talk(tmp_path, version, MAIL)
    for cut in (1, 7, 1460):
        rows = found(connection([*STARTTLS, *secured], cut, port=25), keys)
        check(rows)
        assert counted(rows) == OPENED, cut
    for seed in range(4):
        check(found(shuffled(connection([*STARTTLS, *secured], 300, port=587), seed, 3), keys))
    implicit, keys = secured_talk(tmp_path, version, [*GREETING, *MAIL])
    for cut in (7, 1460):
        check(found(connection(implicit, cut, port=465), keys))


def test_a_hello_that_comes_before_the_reply_to_starttls(tmp_path: Path) -> None:
    """The client's bytes wait for the reply, which is captured later; and where they come together with the command."""
    secured, keys = secured_talk(tmp_path, VERSIONS[1], MAIL)
    frames = connection([*STARTTLS, *secured], port=25)
    at = 3 + len(STARTTLS)
    assert b"220 go on" in frames[at - 1]
    check(found([*frames[: at - 1], frames[at], frames[at - 1], *frames[at + 1 :]], keys))
    asked = STARTTLS[-2][1] + secured[0][1]
    joined = [*STARTTLS[:-2], (">", asked), STARTTLS[-1], *secured[1:]]
    check(found(connection(joined, port=25), keys))


@pytest.mark.skipif(shutil.which("tshark") is None, reason="no tshark, with which commands are compared")
def test_what_tshark_shows(tmp_path: Path) -> None:
    secured, keys = secured_talk(tmp_path, VERSIONS[0], MAIL)
    frames = connection([*STARTTLS, *secured], port=25)
    (tmp_path / "in.pcap").write_bytes(pcap(frames))
    names = ("smtp.req.parameter", "imf.subject")
    theirs = {name: list[str]() for name in names}
    for packet in fields_of(tmp_path / "in.pcap", names, "-o", f"tls.keylog_file:{keys}"):
        for name in names:
            theirs[name] += packet[name]
    (row,) = found(frames, keys)["smtplog"]
    assert theirs["imf.subject"] == [row["subject"]]
    assert f"FROM:<{row['mail_from']}>" in theirs["smtp.req.parameter"]
    assert f"TO:<{row['recipients'][0]}>" in theirs["smtp.req.parameter"]


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    secured, keys = secured_talk(tmp_path, VERSIONS[1], MAIL)
    frames = connection([*STARTTLS, *secured], 700, port=25)

    def only(rows: Rows) -> Row:
        (row,) = rows["smtplog"]
        assert (row["mail_from"], row["helo"], row["tls"]) == (None, "a.example", True)
        return row

    only(found(frames, None))
    wrong = other_keys(tmp_path / "wrong")
    rows = found(frames, wrong)
    only(rows)
    assert counted(rows) == {"smtp_tls_without_key": 1}
    refused = [
        (who, said[:-1] + b"~") if at == len(secured) - 9 else (who, said) for at, (who, said) in enumerate(secured)
    ]
    rows = found(connection([*STARTTLS, *refused], port=25), keys)
    assert counted(rows) == {**OPENED, "smtp_tls_refused": 1} and len(rows["smtplog"]) == 1


def test_commands_after_starttls_in_the_clear_are_none(tmp_path: Path) -> None:
    """What is sent in the clear between STARTTLS and TLS has no meaning (RFC 3207, 4.2; CVE-2011-0411)."""
    secured, keys = secured_talk(tmp_path, VERSIONS[1], MAIL)
    talk = [*STARTTLS[:-2], (">", b"STARTTLS\r\nMAIL FROM:<c@evil.example>\r\n"), STARTTLS[-1], *secured]
    check(found(connection(talk, port=25), keys))


def test_what_looks_like_tls_in_the_clear(tmp_path: Path) -> None:
    """A mail, or a command without an accepted STARTTLS, that begins as TLS does hides nothing."""
    _, keys = secured_talk(tmp_path, VERSIONS[1], MAIL)
    hello = LIKE_HELLO + b"x" * 60 + b"\r\n"
    refused: Talk = [(">", b"STARTTLS\r\n"), ("<", b"454 not now\r\n")]
    before = [*GREETING, *MAIL[:2]]
    for talk in (
        [*before, (">", hello), ("<", b"500 what\r\n"), *MAIL[2:]],
        [*before, *refused, (">", hello), ("<", b"500 what\r\n"), *MAIL[2:]],
        [*before, (">", refused[0][1] + hello), (refused[1][0], b"454 not now\r\n500 what\r\n"), *MAIL[2:]],
        [*before, *MAIL[2:8], (">", hello), *MAIL[8:]],
    ):
        rows = found(connection(talk, port=25), keys)
        (row,) = rows["smtplog"]
        assert (row["mail_from"], row["reply"], row["tls"]) == ("a@a.example", "ok", False), talk[2:5]
    assert lasting(rows)["smtplog"] == lasting(found(connection(talk, port=25), None))["smtplog"]


def test_starttls_within_tls(tmp_path: Path) -> None:
    """RFC 3207, 4.2: it means nothing. What comes with it is not TLS within TLS."""
    again: Talk = [*MAIL[:2], (">", b"STARTTLS\r\nNOOP\r\n"), ("<", b"220 go on\r\n")]
    secured, keys = secured_talk(tmp_path, VERSIONS[1], again)
    counts: dict[str, Any] = found(connection([*STARTTLS, *secured], port=25), keys)["counted"][0]
    assert not counts.get("file_tls_refused") and not counts.get("smtp_tls_refused")
