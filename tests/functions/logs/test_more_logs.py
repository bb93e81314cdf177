"""icmplog, dhcplog, ntplog, sshlog, smtplog, ftplog, filelog and gtplog: their rows, however the input is cut."""

from __future__ import annotations

import base64
import ctypes
import hashlib
import json
import os
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from sluice.report.logs import schema_of
from tests.functions.logs.boxes import Talk, connection, needs_parsers
from tests.functions.logs.more_boxes import LOGS, Row, Rows, lasting, run, run_capture
from tests.functions.logs.test_cuts import gre, gtp, vlan, vxlan
from tests.support.connection import Host, pair
from tests.support.packets import A4, B4, eth, ip4, udp

pytestmark = needs_parsers


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


MAGIC = _loads("libmagic.so.1")
"""Whether filelog can tell types of files."""

# --- SSH ---

OFFER = ("curve25519-sha256,ecdh-sha2-nistp256", "ssh-ed25519,rsa-sha2-512", "aes128-ctr,chacha20-poly1305@openssh.com")
ANSWER = ("ecdh-sha2-nistp256", "rsa-sha2-512", "chacha20-poly1305@openssh.com,aes128-ctr")


def kexinit(kex: str, key: str, cipher: str) -> bytes:
    """An offer of algorithms in its packet."""
    lists = (kex, key, cipher, cipher + ",c", "hmac-sha1", "hmac-md5", "none", "none,zlib", "", "")
    payload = b"\x14" + bytes(16) + b"".join(struct.pack(">I", len(one)) + one.encode() for one in lists) + bytes(5)
    padding = 8 - (len(payload) + 5) % 8 + 4
    return struct.pack(">IB", len(payload) + padding + 1, padding) + payload + bytes(padding)


SSH: Talk = (
    ("<", b"a notice\r\nSSH-2.0-server_1 comment\r\n"),
    (">", b"SSH-2.0-client_1\r\n" + kexinit(*OFFER)),
    ("<", kexinit(*ANSWER) + b"encrypted"),
    (">", b"encrypted"),
)


def test_ssh() -> None:
    (row,) = run(connection(SSH, port=22))["sshlog"]
    assert (row["client"], row["server"]) == ("SSH-2.0-client_1", "SSH-2.0-server_1 comment")
    algorithms = f"{OFFER[0]};{OFFER[2]};hmac-sha1;none"
    assert (row["hassh"], row["hassh_algorithms"]) == (hashlib.md5(algorithms.encode()).hexdigest(), algorithms)
    algorithms = f"{ANSWER[0]};{ANSWER[2]},c;hmac-md5;none,zlib"
    assert row["hassh_server"] == hashlib.md5(algorithms.encode()).hexdigest()
    assert (row["kex"], row["host_key"], row["client_cipher"]) == ("ecdh-sha2-nistp256", "rsa-sha2-512", "aes128-ctr")
    assert (row["client_error"], row["server_error"]) == (None, None)


def test_ssh_with_many_names() -> None:
    many = ",".join(f"n{i}" for i in range(300))
    talk = tuple(
        (side, b"SSH-2.0-x\r\n" + kexinit(f"{many},{last}", f"a,{many}", "c"))
        for side, last in ((">", "x"), ("<", "x"))
    )
    rows = run(connection(talk, port=22))
    assert (rows["sshlog"][0]["kex"], rows["sshlog"][0]["host_key"]) == ("n0", "a")
    assert rows["counted"][0]["ssh_names_left_out"] == 4


@pytest.mark.parametrize("bad", [b"\xff\xff\xff\xff\x01", b"\0\0\0\x01\0", struct.pack(">IB", 12, 200) + bytes(11)])
def test_ssh_with_a_wrong_packet(bad: bytes) -> None:
    rows = run(connection(((">", b"SSH-2.0-x\r\n" + bad), ("<", b"SSH-2.0-y\r\n")), port=22))
    assert rows["sshlog"][0]["client_error"] in ("packet length", "padding")
    assert rows["counted"][0]["ssh_bad_packets"] == 1


# --- SMTP ---

ATTACHED = bytes(range(256)) * 40
MAIL = (
    b'From: A <a@one.example>\r\nTo: D <d@two.example>,\r\n "E, F" <e@two.example>\r\nSubject: a\r\n folded one\r\n'
    b'Message-ID: <1@one.example>\r\nX-Mailer: x\r\nContent-Type: multipart/mixed; boundary="==b"\r\n\r\n'
    b"--==b\r\nContent-Type: text/plain\r\n\r\nhello\r\n..dots\r\n"
    b'--==b\r\nContent-Type: application/x-y; name="other"\r\nContent-Transfer-Encoding: base64\r\n'
    b'Content-Disposition: attachment;\r\n filename="bytes.bin"\r\n\r\n'
    + base64.encodebytes(ATTACHED).replace(b"\n", b"\r\n")
    + b"--==b\r\nContent-Disposition: attachment; filename*=UTF-8''t.txt\r\n"
    b"Content-Transfer-Encoding: quoted-printable\r\n\r\na=3Db=\r\nc\r\n--==b--\r\n.\r\n"
)
SMTP: Talk = (
    ("<", b"220 mx.two.example ready\r\n"),
    (">", b"EHLO one.example\r\n"),
    ("<", b"250-mx.two.example\r\n250-PIPELINING\r\n250 8BITMIME\r\n"),
    (">", b"MAIL FROM:<a@one.example>\r\nRCPT TO:<d@two.example>\r\nRCPT TO:<no@two.example>\r\nDATA\r\n"),
    ("<", b"250 ok\r\n250 ok\r\n550 unknown\r\n354 go on\r\n"),
    (">", MAIL + b"MAIL FROM:<>\r\nRCPT TO:<x@y>\r\nQUIT\r\n"),
    ("<", b"250 queued\r\n250 ok\r\n451 later\r\n221 bye\r\n"),
)


def test_smtp() -> None:
    first, second = run(connection(SMTP, port=25))["smtplog"]
    assert (first["server"], first["helo"]) == ("mx.two.example ready", "one.example")
    assert (first["mail_from"], first["recipients"]) == ("a@one.example", ["d@two.example"])
    assert (first["subject"], first["user_agent"]) == ("a folded one", "x")
    assert first["to"] == ["D <d@two.example>", '"E, F" <e@two.example>']
    assert (first["reply_code"], first["reply"]) == (250, "queued")
    assert first["bytes"] == len(MAIL) - len(b".") - len(b".\r\n")
    assert (second["mail_from"], second["recipients"], second["reply_code"]) == (None, [], 221)


def test_smtp_after_starttls_is_not_read_without_keys() -> None:
    talk: Talk = (
        ("<", b"220 x\r\n"),
        (">", b"EHLO c\r\n"),
        ("<", b"250 STARTTLS\r\n"),
        (">", b"STARTTLS\r\n"),
        ("<", b"220 go\r\n"),
        (">", b"\x16\x03\x01MAIL FROM:<a@b>\r\n"),
    )
    (row,) = run(connection(talk, port=2500))["smtplog"]
    assert (row["tls"], row["mail_from"], row["helo"]) == (True, None, "c")


def test_smtp_in_chunks() -> None:
    talk: Talk = (
        ("<", b"220 x\r\n"),
        (">", b"EHLO c\r\n"),
        ("<", b"250 CHUNKING\r\n"),
        (">", b"MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nBDAT 13\r\nSubject: ab\r\nBDAT 7 LAST\r\n\r\nbody\nQUIT\r\n"),
        ("<", b"250 1\r\n250 2\r\n250 3\r\n250 stored\r\n221 bye\r\n"),
    )
    (row,) = run(connection(talk, port=25))["smtplog"]
    assert (row["subject"], row["bytes"], row["reply"]) == ("ab", 20, "stored")


# --- FTP ---


def ftp(passive: bool, command: bytes = b"RETR dir/a.txt\r\n") -> list[bytes]:
    """A control connection, and a transfer over a data connection; without its command, only the latter's bytes."""
    client, server = pair()
    server.port = 21
    frames = [client.send("S"), server.send("SA"), client.send("A")]

    def say(host: Host, text: bytes) -> None:
        frames.append(host.data(text))

    say(server, b"220-hello\r\n220 there\r\n")
    say(client, b"USER me\r\n")
    say(server, b"331 password\r\n")
    say(client, b"PASS secret\r\n")
    say(server, b"230 in\r\n")
    say(client, b"EPSV\r\n" if passive else b"PORT 10,0,0,1,200,10\r\n")
    say(server, b"229 entering (|||51210|)\r\n" if passive else b"200 ok\r\n")
    if command:
        say(client, command)
    one = Host(A4, 50000, 7) if passive else Host(B4, 20, 7)
    other = Host(B4, 51210, 9) if passive else Host(A4, 51210, 9)
    one.peer, other.peer = other, one
    frames += [one.send("S"), other.send("SA"), one.send("A")]
    if command:
        say(server, b"150 opening\r\n")
    sender = other if passive else one
    frames += [sender.data(b"text of a file\n"), one.send("FA"), other.send("FA"), one.send("A")]
    if command:
        say(server, b"226 done\r\n")
    say(client, b"QUIT\r\n")
    say(server, b"221 bye\r\n")
    return [*frames, client.send("FA"), server.send("FA"), client.send("A")]


@pytest.mark.parametrize("passive", [True, False])
def test_ftp_and_its_data_connection(passive: bool) -> None:
    rows = run(ftp(passive))
    commands = [(row["command"], row["argument"], row["reply_code"], row["user"]) for row in rows["ftplog"]]
    assert (None, None, 220, None) in commands and ("USER", "me", 331, "me") in commands
    assert ("PASS", "<hidden>", 230, "me") in commands and ("QUIT", None, 221, "me") in commands
    (row,) = [row for row in rows["ftplog"] if row["command"] == "RETR"]
    assert (row["argument"], row["reply"], row["data_bytes"], row["user"]) == ("dir/a.txt", "done", 15, "me")
    assert (row["data_mode"], row["data_port"]) == ("passive" if passive else "active", 51210)
    (file,) = rows["filelog"]
    assert (file["source"], file["name"], file["flow"]) == ("ftp", "a.txt", row["data_flow"])
    assert file["sha1"] == hashlib.sha1(b"text of a file\n").hexdigest() and file["complete"]


def test_texts_in_place_of_others_need_no_more_memory() -> None:
    """Users and preliminary replies, many of one connection."""
    users = [each for _ in range(40) for each in ((">", b"USER " + b"u" * 2000 + b"\r\n"), ("<", b"331 go on\r\n"))]
    rows = run(connection([("<", b"220 there\r\n"), *users], port=21), {"ftplog": ",memory=60000"})
    assert [row["user"] for row in rows["ftplog"]] == [None] + 40 * ["u" * 2000]
    begun: Talk = [(">", b"EPSV\r\n"), ("<", b"229 entering (|||51210|)\r\n"), (">", b"RETR a\r\n")]
    replies: Talk = [*(40 * [("<", b"150 " + b"x" * 2000 + b"\r\n")]), ("<", b"226 done\r\n")]
    rows = run(connection([("<", b"220 there\r\n"), *begun, *replies], port=21), {"ftplog": ",memory=60000"})
    assert [row["reply"] for row in rows["ftplog"] if row["command"] == "RETR"] == ["done"]


def test_passwords_are_shown_on_request() -> None:
    rows = run(ftp(True), {"ftplog": ",passwords"})
    assert "secret" in [row["argument"] for row in rows["ftplog"]]


# --- files ---

BODY = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\2\0\0\0" + bytes(3000)
HTTP: Talk = (
    (">", b"POST /up/form.bin?q=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nwxyz"),
    (">", b"HEAD /h HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\n"),
    ("<", b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % len(BODY) + BODY),
    ("<", b"\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nHTTP/1.1 200 OK\r\n"),
    ("<", b'Content-Disposition: attachment; filename="../a b.txt"\r\nContent-Length: 2\r\n\r\nok'),
)


def hashes(row: Row) -> tuple[str, str, str]:
    return row["md5"], row["sha1"], row["sha256"]


def digests(data: bytes) -> tuple[str, str, str]:
    return tuple(hashlib.new(kind, data).hexdigest() for kind in ("md5", "sha1", "sha256"))  # pyright: ignore


def test_files_of_http() -> None:
    upload, image, last = run(connection(HTTP))["filelog"]
    assert (upload["name"], upload["src"], hashes(upload)) == ("form.bin", "10.0.0.1", digests(b"wxyz"))
    assert (image["name"], image["src"], hashes(image)) == ("form.bin", "10.0.0.2", digests(BODY))
    assert (image["length"], image["declared_type"]) == (len(BODY), "image/png")
    assert image["type"] == ("image/png" if MAGIC else None)
    assert (last["name"], last["expected"], hashes(last)) == ("../a b.txt", 2, digests(b"ok"))


def test_files_of_smtp() -> None:
    whole, text = run(connection(SMTP, port=25))["filelog"]
    assert (whole["name"], whole["declared_type"], hashes(whole)) == ("bytes.bin", "application/x-y", digests(ATTACHED))
    assert (text["name"], hashes(text)) == ("t.txt", digests(b"a=bc"))


CUT: Talk = (
    ("<", b"220 x\r\n"),
    (">", b"EHLO c\r\n"),
    ("<", b"250 CHUNKING\r\n"),
    (
        ">",
        b"MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nBDAT 51\r\nContent-Disposition: attachment; filename=a\r\n\r\nbody",
    ),
    ("<", b"250 1\r\n250 2\r\n250 3\r\n"),
)


def test_a_mail_that_breaks_off_has_files_that_are_not_complete() -> None:
    rows = run(connection(CUT, port=25))["filelog"]
    assert [(row["name"], row["length"], row["complete"]) for row in rows] == [("a", 4, False)]
    rows = run(connection((*CUT, (">", b"RSET\r\n"), ("<", b"250 ok\r\n")), port=25))["filelog"]
    assert [(row["name"], row["length"], row["complete"]) for row in rows] == [("a", 4, False)]


def test_a_transfer_without_its_command_is_a_file() -> None:
    (file,) = run(ftp(True, b""))["filelog"]
    assert (file["source"], file["name"], file["length"]) == ("ftp", None, 15)


def test_a_body_that_cannot_be_read_further_is_a_file() -> None:
    talk: Talk = (
        (">", b"GET /a HTTP/1.1\r\n\r\n"),
        ("<", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n"),
        (">", b"\0\0\0\r\n\r\n"),
    )
    (file,) = run(connection(talk))["filelog"]
    assert (file["name"], file["length"], file["complete"]) == ("a", 5, False)


def test_a_file_with_a_gap_has_no_hashes() -> None:
    client, server = pair()
    frames = [client.send("S"), server.send("SA"), client.send("A"), client.data(b"GET /f HTTP/1.1\r\n\r\n")]
    server.data(head := b"HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\n0123456789")
    frames += [server.at(0, head), server.at(len(head) + 10, b"0123456789"), client.send("R")]
    rows = run(frames)
    (row,) = rows["filelog"]
    assert (row["length"], row["missing"], row["complete"], row["md5"]) == (20, 10, False, None)
    assert rows["counted"][0]["files that bytes are missing of"] == 1


def test_copies_of_files_have_names_of_our_own(tmp_path: Path) -> None:
    rows = run(connection(HTTP), {"filelog": f",extract={tmp_path}"})["filelog"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(row["extracted"] for row in rows)
    assert [(tmp_path / row["extracted"]).read_bytes() for row in rows] == [b"wxyz", BODY, b"ok"]


# --- datagrams ---


def echo(kind: int, number: int, data: bytes = b"ping") -> bytes:
    src, dst = (A4, B4) if kind == 8 else (B4, A4)
    return eth(ip4(struct.pack(">BBHHH", kind, 0, 0, 77, number) + data, 1, src, dst))


def test_icmp_echoes_are_paired() -> None:
    first, second = run([echo(8, 1), echo(0, 1, b"pong!"), echo(8, 2)])["icmplog"]
    assert (first["id"], first["sequence"], first["bytes"], first["response_bytes"]) == (77, 1, 4, 5)
    assert (first["delay"], first["src"], first["name"]) == ("0.001000000", "10.0.0.1", "echo request")
    assert (second["sequence"], second["delay"]) == (2, None)


def test_icmp_errors_quote_a_packet() -> None:
    quote = ip4(udp(5000, 53, b"query"), 17)
    (row,) = run([eth(ip4(struct.pack(">BBHHH", 3, 4, 0, 0, 1400) + quote, 1))])["icmplog"]
    assert (row["name"], row["mtu"]) == ("destination unreachable", 1400)
    assert row["quoted"] == {"protocol": 17, "src": "10.0.0.1", "sport": 5000, "dst": "10.0.0.2", "dport": 53}


def dhcp(options: bytes) -> bytes:
    head = struct.pack(">BBBBIHH4x4s8x", 2, 1, 6, 0, 0x1234, 3, 0, bytes([10, 0, 0, 9]))
    head += bytes.fromhex("020000000001") + bytes(10 + 192) + b"\x63\x82\x53\x63"
    return eth(ip4(udp(67, 68, head + options), 17))


def test_dhcp() -> None:
    options = (
        b"\x35\x01\x05\x36\x04\x0a\x00\x00\x01\x33\x04\x00\x00\x0e\x10\x0c\x04host\x37\x02\x01\x03\x03\x04\x0a\0\0\x01"
    )
    rows = run([dhcp(options + b"\xff"), dhcp(b"\x35\x09\x05")])
    row, bad = rows["dhcplog"]
    assert (row["type"], row["transaction"], row["client_mac"]) == ("ACK", 0x1234, "02:00:00:00:00:01")
    assert (row["your_address"], row["server"], row["lease_time"]) == ("10.0.0.9", "10.0.0.1", 3600)
    assert (row["host_name"], row["parameters"], row["routers"]) == ("host", [1, 3], ["10.0.0.1"])
    assert bad["malformed"] and rows["counted"][0]["dhcp_malformed"] == 1


def test_ntp() -> None:
    stamp = (2_208_988_800 + 1_700_000_000) << 32 | 1 << 31
    head = struct.pack(">BBbbII4s4Q", 0x24, 1, 6, -20, 1 << 16, 1 << 15, b"GPS\0", 0, 0, 0, stamp)
    rows = run([eth(ip4(udp(123, 5000, head), 17)), eth(ip4(udp(123, 5000, head[:20]), 17))])
    (row,) = rows["ntplog"]
    assert (row["version"], row["mode"], row["stratum"], row["precision"], row["reference"]) == (
        4,
        "server",
        1,
        -20,
        "GPS",
    )
    assert (row["root_delay"], row["root_dispersion"]) == ("1.000000000", "0.500000000")
    assert (row["transmit_time"], row["origin_time"]) == ("1700000000.500000000", None)
    assert rows["counted"][0]["ntp_short"] == 1


def test_gtp_tunnels_and_their_contents() -> None:
    frames = [gtp(frame) for frame in connection(((">", b"abc"),))]
    rows = run(frames)["gtplog"]
    assert sum(row["packets"] for row in rows) == len(frames)
    assert {row["teid"] for row in rows} == {5}
    assert rows[0]["contents"][0] == {"protocol": 6, "src": "10.0.0.1", "dst": "10.0.0.2"}


def test_gtp_messages() -> None:
    cause, fteid = b"\x02\0\x02\0\x10\0", b"\x57\0\x09\0\x87\0\0\0\x07\x0a\0\0\x03"
    elements = cause + fteid + b"\x5d\0\x0d\0" + fteid
    elements += b"\x01\0\x04\0\x21\x43\x65\xf7" + b"\x47\0\x08\0\x03web\x03one"
    head = struct.pack(">BBHII", 0x48, 33, len(elements) + 8, 9, 0x000102 << 8)
    rows = run([eth(ip4(udp(2123, 2123, head + elements), 17)), eth(ip4(udp(2123, 2123, head + elements[:-3]), 17))])
    row, bad = rows["gtplog"]
    assert (row["kind"], row["version"], row["type"], row["sequence"]) == ("message", 2, "Create Session Response", 258)
    assert (row["cause"], row["imsi"], row["apn"]) == (16, "1234567", "web.one")
    assert row["ends"] == [{"teid": 7, "interface": 7, "address": "10.0.0.3"}] * 2
    assert bad["malformed"] and rows["counted"][0]["gtp_malformed"] == 1


# --- all of them ---

TALKS: dict[str, tuple[Talk, int]] = {"ssh": (SSH, 22), "smtp": (SMTP, 25), "http": (HTTP, 80)}


def said(rows: Rows) -> list[object]:
    found = lasting(rows)
    return [found[log] for log in ("sshlog", "smtplog", "ftplog", "filelog")]


@pytest.mark.parametrize("name", TALKS)
def test_segments_of_any_size(name: str) -> None:
    talk, port = TALKS[name]
    whole = said(run(connection(talk, port=port)))
    assert any(whole)
    for cut in (1, 2, 3, 7, 20, 61):
        assert said(run(connection(talk, cut, port=port))) == whole, cut


@pytest.mark.parametrize("name", TALKS)
def test_segments_out_of_order_and_again(name: str) -> None:
    talk, port = TALKS[name]
    whole = said(run(connection(talk, port=port)))
    for seed in range(6):
        dice = random.Random(seed)
        frames = connection(talk, 40, port=port)
        begin, middle, end = frames[:3], frames[3:-3], frames[-3:]
        copies = dice.sample(list(enumerate(middle)), len(middle) // 3)
        placed = sorted((number + dice.uniform(0, 12), frame) for number, frame in [*enumerate(middle), *copies])
        assert said(run([*begin, *(frame for _, frame in placed), *end])) == whole, seed


@pytest.mark.parametrize("wrapped", [gtp, vxlan, gre, vlan])
def test_tunnels_and_tags(wrapped: Callable[[bytes], bytes]) -> None:
    frames = [*ftp(True), *connection(SSH, 61, port=22), echo(8, 1), echo(0, 1), dhcp(b"\x35\x01\x05\xff")]
    plain, within = run(frames), run([wrapped(frame) for frame in frames])
    for log in LOGS:
        if log != "gtplog":
            assert lasting(within)[log] == lasting(plain)[log], log


@pytest.mark.skipif(not MAGIC, reason="no libmagic")
def test_types_of_files_that_come_again() -> None:
    """The same beginnings have the same types, among more different ones than are cached."""
    bodies = {
        b"%PDF-1.4\n%%EOF\n": "application/pdf",
        b"GIF89a" + bytes(20): "image/gif",
        b"plain text\n": "text/plain",
    }
    others = [b"%d numbers\n" % number for number in range(300)]
    sent = [*bodies, *others, *bodies, others[0], *bodies]
    page = [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body for body in sent]
    talk = [each for answer in page for each in ((">", b"GET /a HTTP/1.1\r\n\r\n"), ("<", answer))]
    rows = run(connection(talk, port=80))["filelog"]
    assert [row["type"] for row in rows] == [bodies.get(body, "text/plain") for body in sent]
    assert len({row["magic"] for row in rows if row["type"] == "application/pdf"}) == 1


def test_rows_have_the_columns_of_their_log() -> None:
    frames = [*ftp(True), echo(8, 1), dhcp(b"\x35\x01\x05\xff"), eth(ip4(udp(123, 5, b"\x23" + bytes(47)), 17))]
    frames += [gtp(echo(8, 2)), *connection(SMTP, port=25), *connection(SSH, port=22)]
    rows = run(frames)
    for log in LOGS:
        schema = schema_of(log)
        assert schema is not None and rows[log], log
        assert list(rows[log][0]) == [name for name in schema.columns if name in rows[log][0]]
        assert all(set(row) <= set(schema.columns) and row["community_id"] for row in rows[log])


EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "more_logs"


def test_the_example_shows_the_rows_of_all_these_logs() -> None:
    rows = run_capture(EXAMPLE / "capture.pcap")
    found = [row for log in LOGS for row in rows[log]]
    if os.environ.get("SLUICE_UPDATE_GOLDEN"):
        (EXAMPLE / "expected.jsonl").write_text("".join(f"{json.dumps(row, separators=(',', ':'))}\n" for row in found))
    expected = [json.loads(line) for line in (EXAMPLE / "expected.jsonl").read_text().splitlines()]
    varying = {"magic"} if MAGIC else {"magic", "type"}  # the words of libmagic's versions differ
    for row in (*expected, *(row for row in found if row["log"] == "file")):
        if row["log"] == "file":
            for name in varying:
                row.pop(name, None)
    assert found == expected
