"""httplog with a key log: HTTP/1 and HTTP/2 within TLS 1.2 and 1.3."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import shutil
import ssl
import struct
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from sluice.engine.box import Box
from tests.functions.logs.boxes import SECOND, Row, Talk, connection, lasting, needs_parsers
from tests.functions.logs.hellos import other_keys
from tests.functions.logs.http2 import Found, needs_nghttp2, run, run_packets
from tests.functions.logs.test_http2 import talks
from tests.functions.logs.truth import fields_of
from tests.runtime.io.test_capture import enhanced, interface, secrets_block, section
from tests.service.certificates import make_certificate
from tests.support.capture import pcap
from tests.support.connection import shuffled


def _has_libcrypto() -> bool:
    for name in ("libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.so"):
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return True
    return False


needs_libcrypto = pytest.mark.skipif(not _has_libcrypto(), reason="no libcrypto, with which records are opened")
pytestmark = [needs_parsers, needs_nghttp2, needs_libcrypto]

CAPTURE = Path(__file__).with_name("http_tls.pcap")
"""On loopback, nginx 1.22 with OpenSSL 3. Clients: curl 7.88, with the ciphers of the table below; `openssl s_client`,
first with an update of both keys between its requests, then with a request in early data."""
KEYS = CAPTURE.with_suffix(".keys")

ROWS = [
    (1, "GET", "/index.html", "2", 200, 6),  # TLS_AES_256_GCM_SHA384
    (1, "GET", "/no", "2", 404, 153),
    (2, "GET", "/big.txt", "2", 200, 40000),
    (3, "GET", "/index.html", "1.1", 200, 6),
    (3, "GET", "/big.txt", "1.1", 200, 40000),
    (4, "POST", "/post", "2", 200, 7),
    (5, "GET", "/a13c", "2", 404, 153),  # TLS_CHACHA20_POLY1305_SHA256
    (6, "GET", "/a13a", "2", 404, 153),  # TLS_AES_128_GCM_SHA256
    (7, "GET", "/b12", "2", 404, 153),  # TLS 1.2, ECDHE-ECDSA-AES256-GCM-SHA384
    (8, "GET", "/b12c", "1.1", 404, 153),  # ECDHE-ECDSA-CHACHA20-POLY1305
    (9, "GET", "/big.txt", "2", 200, 40000),  # ECDHE-ECDSA-AES128-GCM-SHA256
    (10, "GET", "/b12cbc", "1.1", 404, 153),  # ECDHE-ECDSA-AES128-SHA
    (11, "GET", "/ku1", "1.1", 404, 153),
    (11, "GET", "/ku2", "1.1", 404, 153),
    (12, "GET", "/early", "1.1", 404, 153),
]


ASKED = b"GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n"
LENGTHS: Talk = [
    each
    for size in range(18)
    for each in ((">", ASKED), ("<", b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size))
]
"""Requests, whose responses are of each length that the padding of AES-CBC may have."""
NO_ENCRYPT_THEN_MAC = 1 << 19
"""SSL_OP_NO_ENCRYPT_THEN_MAC of OpenSSL."""
needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="no command openssl, which makes the certificate"
)


def opened(talk: Talk, cut: int = 1460, keys: Path = KEYS) -> Found:
    return run_packets(connection(talk, cut, port=443), f",keylog={keys}")


def counted(found: Found) -> dict[str, int]:
    return {name: count for name, count in found.reports.items() if name.startswith("http_tls") and count}


def brief(row: Row) -> tuple[object, ...]:
    return tuple(row[name] for name in ("flow", "method", "path", "request_version", "status", "response_body"))


@pytest.fixture(scope="module")
def said() -> list[Talk]:
    """What the connections of the capture carry."""
    return talks(CAPTURE)


def test_rows_of_the_capture() -> None:
    found = run(lambda box: box.run(CAPTURE), f",keylog={KEYS}")
    assert [brief(row) for row in found.rows] == ROWS
    assert all(row["request_complete"] and row["response_complete"] for row in found.rows)
    assert counted(found) == {"http_tls_opened": 12}


@pytest.mark.skipif(shutil.which("tshark") is None, reason="no tshark, with which rows are compared")
def test_the_capture_has_the_messages_that_tshark_shows() -> None:
    names = ("tcp.stream", "http.request.method", "http.request.uri", "http2.headers.method", "http2.headers.path")
    codes = ("http.response.code", "http2.headers.status")
    theirs: Counter[tuple[str, ...]] = Counter()
    for packet in fields_of(CAPTURE, (*names, *codes), "-o", f"tls.keylog_file:{KEYS}"):
        flow = str(int(packet["tcp.stream"][0]) + 1)
        for method, path in ((names[1], names[2]), (names[3], names[4])):
            theirs.update((flow, *pair) for pair in zip(packet[method], packet[path], strict=True))
        theirs.update((flow, code) for name in codes for code in packet[name])
    ours: Counter[tuple[str, ...]] = Counter()
    for flow, method, path, _, status, _ in ROWS:
        ours.update([(str(flow), str(method), str(path)), (str(flow), str(status))])
    assert ours == theirs


def test_segments_of_any_size(said: list[Talk]) -> None:
    for number in (0, 3, 6, 7, 9, 10, 11):
        whole = lasting(opened(said[number]).rows)
        assert whole
        for cut in (1, 5, 6, 23, 700):
            assert lasting(opened(said[number], cut).rows) == whole, (number, cut)


def test_segments_out_of_order_and_again(said: list[Talk]) -> None:
    for number in (0, 6, 10, 11):
        expected = lasting(opened(said[number]).rows)
        for seed in range(3):
            found = run_packets(shuffled(connection(said[number], 61, port=443), seed), f",keylog={KEYS}")
            assert lasting(found.rows) == expected, (number, seed)


def test_a_side_that_is_delivered_after_the_other(said: list[Talk]) -> None:
    """Records of the client, at most 32 KiB of them, wait for the ServerHello."""
    for number in (0, 3, 6, 7):
        whole = lasting(opened(said[number]).rows)
        for first in "><":
            talk = sorted(said[number], key=lambda one: one[0] != first)
            assert lasting(opened(talk, 1460).rows) == whole, (number, first)


def test_tls_after_connect_and_after_another_protocol(said: list[Talk]) -> None:
    whole = lasting(opened(said[0]).rows)
    connect = [(">", b"CONNECT a.example:443 HTTP/1.1\r\n\r\n"), ("<", b"HTTP/1.1 200 OK\r\n\r\n")]
    for cut in (1, 7, 1460):
        found = opened([*connect, *said[0]], cut)
        assert found.rows[0]["method"] == "CONNECT" and lasting(found.rows[1:]) == whole, cut
        ends = b"\0\1\x7f\0\0\1\1\xbb"
        socks = [(">", b"\5\1\0"), ("<", b"\5\0"), (">", b"\5\1" + ends), ("<", b"\5\0" + ends)]
        assert lasting(opened([*socks, *said[0]], cut).rows) == whole, cut
    after = [(who, b"".join(text for by, text in said[0] if by == who)) for who in "><"]
    together = [(who, head + text) for (who, head), (_, text) in zip(connect, after, strict=True)]
    assert lasting(opened(together).rows[1:]) == whole


def test_a_response_to_connect_that_ends_like_a_record(said: list[Talk]) -> None:
    """The first byte of a record within the response: what follows may be one, and is searched again after it."""
    whole = lasting(opened(said[0]).rows)
    for value in (b"\x16", b"\x16a", b"\x16ab\x16", b"\x16\x16"):
        grants = b"HTTP/1.1 200 " + value + b"\r\n\r\n"
        connect = [(">", b"CONNECT a.example:443 HTTP/1.1\r\n\r\n"), ("<", grants)]
        for cut in (1, 7, 1460):
            found = opened([*connect, *said[0]], cut)
            assert found.rows[0]["method"] == "CONNECT" and lasting(found.rows[1:]) == whole, (value, cut)


@needs_openssl
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_connect_to_a_proxy_within_tls(tmp_path: Path, version: ssl.TLSVersion) -> None:
    """What the tunnel carries is not read, neither as HTTP nor as records of the connection with the proxy."""
    asks, grants = b"CONNECT a.example:443 HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"
    within = b"\x16\3\1\0\5hello" + bytes(300)
    secured, keys = secured_talk(tmp_path, version, [(">", asks + within), ("<", grants + within), (">", within)])
    for cut in (1, 7, 100, 1460):
        found = opened(secured, cut, keys)
        (row,) = found.rows
        assert (row["method"], row["status"]) == ("CONNECT", 200), cut
        assert counted(found) == {"http_tls_opened": 1}, cut


def secured_talk(
    folder: Path, version: ssl.TLSVersion, talk: Talk, ciphers: str = "", options: int = 0, curve: str = ""
) -> tuple[Talk, Path]:
    """The records of a connection that says this, and its key log. `options`: of OpenSSL; `curve`: of the server."""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.load_cert_chain(*make_certificate(folder, "proxy.example"))
    if curve:
        server.set_ecdh_curve(curve)
    if ciphers:
        client.set_ciphers(ciphers)
        server.set_ciphers(ciphers)
    client.options |= options
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    client.minimum_version = client.maximum_version = version
    client.keylog_filename = str(folder / "keys")
    enters, leaves = ({who: ssl.MemoryBIO() for who in "><"} for _ in range(2))
    ends = {
        ">": client.wrap_bio(enters[">"], leaves[">"]),
        "<": server.wrap_bio(enters["<"], leaves["<"], server_side=True),
    }
    other = {">": "<", "<": ">"}
    records: Talk = []

    def sent(who: str) -> None:
        """What an end has written: the other one gets it."""
        if leaves[who].pending:
            records.append((who, leaves[who].read()))
            enters[other[who]].write(records[-1][1])

    for _ in range(4):
        for who in "><":
            with contextlib.suppress(ssl.SSLWantReadError):
                ends[who].do_handshake()
            sent(who)
    for who, said in talk:
        ends[who].write(said)
        sent(who)
        while said:
            said = said[len(ends[other[who]].read(len(said))) :]
    return records, folder / "keys"


def check_lengths(secured: Talk, keys: Path, folder: Path) -> None:
    """All that LENGTHS says is read, as tshark decrypts it, and nothing after a record that is not authentic."""
    for cut in (7, 1460):
        found = opened(secured, cut, keys)
        assert counted(found) == {"http_tls_opened": 1}
        assert [row["response_body"] for row in found.rows] == list(range(18))
    broken = [(who, data[:-1] + bytes([data[-1] ^ 1])) if who == "<" and number > 9 else (who, data)
              for number, (who, data) in enumerate(secured)]  # fmt: skip
    assert counted(opened(broken, keys=keys)) == {"http_tls_opened": 1, "http_tls_refused": 1}
    if shutil.which("tshark") is None:
        return
    (folder / "in.pcap").write_bytes(pcap(connection(secured, port=443)))
    theirs = fields_of(folder / "in.pcap", ("http.content_length_header",), "-o", f"tls.keylog_file:{keys}")
    assert [int(one) for packet in theirs for one in packet["http.content_length_header"]] == list(range(18))


@needs_openssl
@pytest.mark.parametrize("options", [0, NO_ENCRYPT_THEN_MAC])
@pytest.mark.parametrize("cipher", ["AES128-SHA", "AES256-SHA", "AES128-SHA256", "AES256-SHA384"])
def test_ciphers_with_cbc(tmp_path: Path, cipher: str, options: int) -> None:
    """With and without encrypt_then_mac (RFC 7366), for SHA-1, SHA-256 and SHA-384; and as tshark decrypts them."""
    secured, keys = secured_talk(
        tmp_path, ssl.TLSVersion.TLSv1_2, LENGTHS, f"ECDHE-ECDSA-{cipher}:@SECLEVEL=0", options
    )
    check_lengths(secured, keys, tmp_path)


@needs_openssl
def test_a_gap_with_cbc_ends_the_side(tmp_path: Path) -> None:
    """The length of the content is not known."""
    body = b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n" + b"x" * 9000
    talk = [(">", ASKED), ("<", body)]
    secured, keys = secured_talk(tmp_path, ssl.TLSVersion.TLSv1_2, talk, "ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0")
    frames = connection(secured, 1000, port=443)
    del frames[-6]
    assert counted(run_packets(frames, f",keylog={keys}")) == {"http_tls_opened": 1, "http_tls_gaps": 1}


@needs_openssl
def test_versions_below_12_are_counted(said: list[Talk]) -> None:
    """Their keys are derived by other hashes: a ServerHello that chooses TLS 1.1."""
    (who, hello), *rest = [each for each in said[9] if each[0] == "<"]
    older = hello[:9] + b"\3\2" + hello[11:]
    found = opened([*(each for each in said[9] if each[0] == ">"), (who, older), *rest])
    assert not found.rows and counted(found) == {"http_tls_ciphers": 2}


@needs_openssl
def test_hello_retry_request(tmp_path: Path) -> None:
    """The server has another group: ChangeCipherSpec of both sides precedes the second hellos."""
    talk = [(">", ASKED), ("<", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")]
    secured, keys = secured_talk(tmp_path, ssl.TLSVersion.TLSv1_3, talk, curve="secp384r1")
    hellos = b"".join(data for who, data in secured if who == ">")
    assert hellos.count(b"\x16\3\3") == 1  # the second ClientHello
    for first in ("", ">", "<"):
        ordered = sorted(secured, key=lambda one: one[0] != first) if first else secured
        for cut in (1, 7, 1460):
            found = opened(ordered, cut, keys)
            assert [brief(row)[1:] for row in found.rows] == [("GET", "/a", "1.1", 200, 2)], (first, cut)
            assert counted(found) == {"http_tls_opened": 1}


HOUR = 3600 * SECOND
EARLY = CAPTURE.with_name("http_tls_early.pcap")
"""nginx with OpenSSL 3 rejects early data of `openssl s_client`, which repeats its request:
without early data, and with another group, so that a HelloRetryRequest precedes. The last one has them accepted."""


def test_early_data_that_the_server_rejects() -> None:
    """The request has one row, not two."""
    keys = EARLY.with_suffix(".keys")
    found = run(lambda box: box.run(EARLY), f",keylog={keys}")
    assert [(row["path"], row["status"]) for row in found.rows] == [
        ("/first", 403), ("/rejected", 403), ("/retried", 403), ("/accepted", 403)
    ]  # fmt: skip
    assert counted(found) == {"http_tls_opened": 4}
    for number, talk in enumerate(talks(EARLY)):
        for cut in (1, 100, 1460):
            assert len(opened(talk, cut, keys).rows) == 1, (number, cut)
        for first in "><":
            assert len(opened(sorted(talk, key=lambda one: one[0] != first), keys=keys).rows) == 1, (number, first)


def test_a_key_log_that_grows(said: list[Talk], tmp_path: Path) -> None:
    """Of packets that are received now, or will be: records wait for their secrets, which are written after them."""
    for number, after in ((0, 8), (7, 8)):
        keys = tmp_path / "keys"
        keys.write_text("# none so far\n")
        frames = connection(said[number], port=443)

        def feed(box: Box, frames: list[bytes] = frames, after: int = after, keys: Path = keys) -> None:
            for at, data in enumerate(frames):
                if at == after:
                    keys.write_text("# none so far\n" + KEYS.read_text())
                box.packet(data, time.time_ns() + HOUR, 1, len(data))

        assert lasting(run(feed, f",keylog={keys}").rows) == lasting(opened(said[number]).rows)


def test_the_last_line_of_a_key_log_needs_no_end(said: list[Talk], tmp_path: Path) -> None:
    """Of 48 bytes, it is complete; one of 32 may still be written, unless the file has rested."""
    keys, lines = tmp_path / "keys", [line for line in KEYS.read_text().splitlines() if " " in line]
    for number in (0, 7):
        whole = opened(said[number])
        for last in lines:
            keys.write_text("".join(f"{line}\n" for line in lines if line != last) + last)
            os.utime(keys, (1e9, 1e9))
            assert lasting(opened(said[number], keys=keys).rows) == lasting(whole.rows)
    keys.write_text("\n".join(line[:-2] for line in lines))  # none has a length that secrets have
    os.utime(keys, (1e9, 1e9))
    assert counted(opened(said[0], keys=keys)) == {"http_tls_without_key": 2}


@needs_openssl
@pytest.mark.parametrize(
    ("version", "cipher"),
    [
        (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-CCM"),
        (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES256-CCM"),
        (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-CCM8"),
        (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES256-CCM8"),
        (ssl.TLSVersion.TLSv1_3, "TLS_AES_128_CCM_SHA256"),
        (ssl.TLSVersion.TLSv1_3, "TLS_AES_128_CCM_8_SHA256"),
    ],
)
def test_ciphers_with_ccm(tmp_path: Path, version: ssl.TLSVersion, cipher: str) -> None:
    """Tags of 16 and of 8 bytes (RFC 6655; RFC 8446, B.4); and as tshark decrypts them."""
    if version == ssl.TLSVersion.TLSv1_2:
        secured, keys = secured_talk(tmp_path, version, LENGTHS, f"{cipher}:@SECLEVEL=0")
    else:
        secured, keys = secured_13(tmp_path, LENGTHS, cipher)
    check_lengths(secured, keys, tmp_path)


def secured_13(folder: Path, talk: Talk, suite: str) -> tuple[Talk, Path]:
    """The same as secured_talk, with a cipher suite of TLS 1.3: these can be chosen only by OpenSSL's configuration."""
    conf = folder / "openssl.cnf"
    conf.write_text(f"openssl_conf=a\n[a]\nssl_conf=b\n[b]\nsystem_default=c\n[c]\nCiphersuites={suite}\n")
    (folder / "talk").write_bytes(pickle.dumps(talk))
    program = (
        "import pathlib, pickle, ssl, sys; from tests.functions.logs.test_http_tls import secured_talk; "
        "folder = pathlib.Path(sys.argv[1]); talk = pickle.loads((folder / 'talk').read_bytes()); "
        "(folder / 'records').write_bytes(pickle.dumps(secured_talk(folder, ssl.TLSVersion.TLSv1_3, talk)[0]))"
    )
    environment = {**os.environ, "OPENSSL_CONF": str(conf), "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", program, str(folder)], env=environment, check=True, timeout=300)
    return pickle.loads((folder / "records").read_bytes()), folder / "keys"


def test_a_side_without_a_key_holds_nothing(said: list[Talk], tmp_path: Path) -> None:
    """Of connections whose secrets are not in the log nothing is stored: twenty with 20,000 bytes each, at once."""
    keys = other_keys(tmp_path / "keys")
    server = b"".join(data for who, data in said[2] if who == "<")[:20000]
    talk = [(">", b"".join(data for who, data in said[2] if who == ">")), ("<", server)]
    frames = [connection(talk, port=1000 + number, close=False) for number in range(20)]
    found = run_packets([one for each in frames for one in each], f",keylog={keys},memory=200000")
    assert found.reports["http_tls_without_key"] == 40 and not found.reports["http_no_memory"]


def test_secrets_are_within_the_bound_of_memory(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    keys = tmp_path / "keys"
    keys.write_text("".join(f"CLIENT_RANDOM {number:064x} {'11' * 48}\n" for number in range(1000)))
    run_packets([], f",keylog={keys},memory=100000")
    assert "secrets were not stored for want of memory" in capfd.readouterr().err
    run_packets([], f",keylog={keys},memory=10000000")
    assert not capfd.readouterr().err


def test_a_missing_segment_within_a_record_loses_only_that_record(said: list[Talk]) -> None:
    frames = connection(said[4 - 2], 1000, port=443)  # HTTP/1 with a body of 40,000 bytes
    large = [at for at, one in enumerate(frames) if len(one) > 1000]
    del frames[large[len(large) // 2]]
    found = run_packets(frames, f",keylog={KEYS}")
    row = found.rows[-1]
    assert row["path"] == "/big.txt" and 0 < row["response_missing"] <= 1 << 14
    assert row["response_body"] + row["response_missing"] == 40000 and row["response_complete"]
    assert counted(found) == {"http_tls_opened": 1}


def test_a_gap_between_records_and_a_changed_byte(said: list[Talk]) -> None:
    talk = list(said[0])
    late = max(at for at, (who, _) in enumerate(talk) if who == "<" and len(talk[at][1]) > 100)
    changed = [*talk]
    changed[late] = ("<", talk[late][1][:-1] + bytes([talk[late][1][-1] ^ 1]))
    found = opened(changed)
    assert counted(found) == {"http_tls_opened": 1, "http_tls_refused": 1}
    assert not found.rows[-1]["response_complete"]
    frames = connection(talk, 1460, port=443)
    del frames[3 + late]
    assert counted(run_packets(frames, f",keylog={KEYS}")) == {"http_tls_opened": 1, "http_tls_gaps": 1}


def test_secrets_in_the_capture(tmp_path: Path) -> None:
    """A pcapng file with a Decryption Secrets Block before its packets."""
    data, at = CAPTURE.read_bytes(), 24
    file = section() + interface() + secrets_block(KEYS.read_bytes())
    while at < len(data):
        seconds, micros, size, _ = struct.unpack_from("<IIII", data, at)
        file += enhanced(data[at + 16 : at + 16 + size], seconds * 10**6 + micros)
        at += 16 + size
    path = tmp_path / "secrets.pcapng"
    path.write_bytes(file)
    found = run(lambda box: box.run(path))
    assert [brief(row) for row in found.rows] == ROWS


def test_keys_that_are_missing_or_wrong(said: list[Talk], tmp_path: Path) -> None:
    keys = other_keys(tmp_path / "keys")
    for number in (0, 7):
        found = opened(said[number], keys=keys)
        assert not found.rows and counted(found) == {"http_tls_without_key": 2}
    keys.write_text("".join(line[:-8] + "00000000\n" for line in KEYS.read_text().splitlines() if " " in line))
    for number in (0, 7):
        found = opened(said[number], keys=keys)
        assert not found.rows and counted(found) == {"http_tls_refused": 2}
