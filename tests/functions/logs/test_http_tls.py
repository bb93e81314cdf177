"""httplog with a key log: HTTP/1 and HTTP/2 within TLS 1.2 and 1.3."""

from __future__ import annotations

import contextlib
import ctypes
import random
import shutil
import ssl
import struct
from collections import Counter
from pathlib import Path

import pytest

from tests.functions.logs.boxes import Row, Talk, connection, lasting, needs_parsers
from tests.functions.logs.http2 import Found, needs_nghttp2, run, run_packets
from tests.functions.logs.test_http2 import talks
from tests.functions.logs.truth import fields_of
from tests.runtime.io.test_capture import enhanced, interface, secrets_block, section
from tests.service.certificates import make_certificate


def _has_libcrypto() -> bool:
    for name in ("libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.so"):
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return True
    return False


pytestmark = [
    needs_parsers,
    needs_nghttp2,
    pytest.mark.skipif(not _has_libcrypto(), reason="no libcrypto, with which records are opened"),
]

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
    (11, "GET", "/ku1", "1.1", 404, 153),
    (11, "GET", "/ku2", "1.1", 404, 153),
    (12, "GET", "/early", "1.1", 404, 153),
]
"""Connection 10 has a cipher with CBC."""


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
    assert counted(found) == {"http_tls_opened": 11, "http_tls_ciphers": 2}


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
    for flow, method, path, _, status, _ in [*ROWS, (10, "GET", "/b12cbc", "", 404, 0)]:
        ours.update([(str(flow), str(method), str(path)), (str(flow), str(status))])
    assert ours == theirs


def test_segments_of_any_size(said: list[Talk]) -> None:
    for number in (0, 3, 6, 7, 10, 11):
        whole = lasting(opened(said[number]).rows)
        assert whole
        for cut in (1, 5, 6, 23, 700):
            assert lasting(opened(said[number], cut).rows) == whole, (number, cut)


def test_segments_out_of_order_and_again(said: list[Talk]) -> None:
    for number in (0, 6, 10, 11):
        expected = lasting(opened(said[number]).rows)
        for seed in range(3):
            dice = random.Random(seed)
            frames = connection(said[number], 61, port=443)
            placed = [(at + dice.uniform(0, 12), one) for at, one in enumerate(frames[3:-3])]
            placed += [(at + dice.uniform(0, 12), one) for at, one in dice.sample(placed, len(placed) // 3)]
            found = run_packets([*frames[:3], *(one for _, one in sorted(placed)), *frames[-3:]], f",keylog={KEYS}")
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


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no command openssl, which makes the certificate")
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


def secured_talk(folder: Path, version: ssl.TLSVersion, talk: Talk) -> tuple[Talk, Path]:
    """The records of a connection that says this, and its key log."""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.load_cert_chain(*make_certificate(folder, "proxy.example"))
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
    keys = tmp_path / "keys"
    keys.write_text("CLIENT_RANDOM " + "00" * 32 + " " + "11" * 48 + "\n")
    for number in (0, 7):
        found = opened(said[number], keys=keys)
        assert not found.rows and counted(found) == {"http_tls_without_key": 2}
    keys.write_text("".join(line[:-8] + "00000000\n" for line in KEYS.read_text().splitlines() if " " in line))
    for number in (0, 7):
        found = opened(said[number], keys=keys)
        assert not found.rows and counted(found) == {"http_tls_refused": 2}
