"""tlslog: what rows say of a handshake, and what hostile ones come to."""

from __future__ import annotations

import hashlib
import shutil
import ssl
from pathlib import Path

import pytest

from tests.functions.logs.boxes import Talk, connection, needs_parsers, run_capture, run_packets
from tests.functions.logs.hellos import client_hello, extension, message, other_keys, record, server_hello, vector
from tests.functions.logs.test_http_tls import needs_libcrypto, needs_openssl, secured_talk
from tests.functions.logs.truth import fields_of
from tests.support.capture import pcap

pytestmark = needs_parsers

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "logs" / "capture.pcap"
CHANGE, DATA = b"\x14\x03\x03\x00\x01\x01", b"\x17\x03\x03\x00\x02ab"
RETRY = hashlib.sha256(b"HelloRetryRequest").digest()


def rows(talk: Talk, port: int = 443) -> list[dict[str, object]]:
    return run_packets(connection(talk, port=port))["tlslog"]


def test_what_hellos_say() -> None:
    (row,) = rows([(">", record(client_hello())), ("<", record(server_hello()) + CHANGE + DATA), (">", CHANGE + DATA)])
    assert (row["version"], row["version_offered"], row["cipher"]) == ("TLSv1.3", "TLSv1.3", "TLS_AES_128_GCM_SHA256")
    assert (row["server_name"], row["alpn_offered"]) == ("a.example", ["h2", "http/1.1"])
    assert row["established"] and not row["resumed"] and row["src"] == "10.0.0.1"


def test_fingerprints_leave_grease_out() -> None:
    (row,) = rows([(">", record(client_hello())), ("<", record(server_hello()))])
    ja3 = "771,4865-49199,0-10-11-13-16-43,29-23,0"
    assert row["ja3"] == hashlib.md5(ja3.encode()).hexdigest()
    assert row["ja3s"] == hashlib.md5(b"771,4865,43-51").hexdigest()
    suites, extensions = (
        hashlib.sha256(text).hexdigest()[:12] for text in (b"1301,c02f", b"000a,000b,000d,002b_0403,0804")
    )
    assert row["ja4"] == f"t13d0206h2_{suites}_{extensions}"
    assert row["ja4s"] == f"t130200_1301_{hashlib.sha256(b'002b,0033').hexdigest()[:12]}"


def test_certificates_are_read_where_they_are_in_the_clear() -> None:
    (row,) = run_capture(EXAMPLE)["tlslog"]
    (certificate,) = row["certificates"]
    assert (certificate["subject"], certificate["serial"]) == ("CN=www.example,O=Example,C=EX", "1234")
    assert certificate["names"] == ["www.example", "*.cdn.example", "192.0.2.80"]
    assert (certificate["not_before"][:4], row["alpn"]) == ("2026", "http/1.1")


@pytest.mark.parametrize(("answered", "resumed"), [(b"i" * 32, True), (b"j" * 32, False), (b"", False)])
def test_a_session_id_that_is_repeated_resumes(answered: bytes, resumed: bool) -> None:
    (row,) = rows([(">", record(client_hello(session=b"i" * 32))), ("<", record(server_hello(0xC02F, answered, b"")))])
    assert (row["version"], row["resumed"]) == ("TLSv1.2", resumed)


def test_a_pre_shared_key_that_is_taken_resumes() -> None:
    taken = extension(43, b"\x03\x04") + extension(41, b"\0\0")
    (row,) = rows([(">", record(client_hello())), ("<", record(server_hello(extensions=taken)))])
    assert row["resumed"]


def test_the_hello_after_a_retry_is_in_the_clear() -> None:
    retry = server_hello(0x1302, random=RETRY)
    talk: Talk = [
        (">", record(client_hello())),
        ("<", record(retry) + CHANGE),
        (">", CHANGE + record(client_hello(ciphers=(0x1302,)))),
        ("<", record(server_hello(0x1302)) + DATA),
        (">", DATA),
    ]
    (row,) = rows(talk)
    assert (row["hello_retry"], row["cipher_id"], row["established"]) == (True, "0x1302", True)
    assert str(row["ja4"]).startswith("t13d02")


def test_alerts_in_the_clear_are_listed() -> None:
    (row,) = rows([(">", record(client_hello())), ("<", b"\x15\x03\x03\x00\x02\x02\x28")])
    assert row["alerts"] == [{"from": "server", "level": 2, "description": 40}]
    assert (row["version"], row["established"]) == (None, False)


def test_tls_is_found_after_other_bytes() -> None:
    talk: Talk = [
        ("<", b"220 hello\r\n"),
        (">", b"STARTTLS\r\n"),
        ("<", b"220 go \x16\x03\r\n"),
        (">", record(client_hello())),
        ("<", record(server_hello())),
    ]
    (row,) = rows(talk, port=25)
    assert (row["server_name"], row["version"]) == ("a.example", "TLSv1.3")


def test_other_protocols_give_no_rows() -> None:
    assert rows([(">", b"\x16\x03\x01" * 500), ("<", bytes(range(256)) * 300)]) == []


@pytest.mark.parametrize(
    ("client", "counter"),
    [
        (record(client_hello()) + b"no record", "tls_bad_records"),
        (record(client_hello() + b"\x0b\xff\xff\xff"), "tls_too_long"),
        (record(message(1, b"\x03\x03" + bytes(32) + b"\x00\xff\xff\x13\x01")), "tls_malformed_hellos"),
        (
            record(message(1, b"\x03\x03" + bytes(32) + b"\x00\x00\x02\x13\x01\x01\x00" + vector(b"\0\0\0\x09ab"))),
            "tls_malformed_hellos",
        ),
        (record(server_hello() + message(11, vector(vector(b"no certificate", 3), 3))), "tls_malformed_certificates"),
        (record(server_hello() + message(11, vector(b"\0\0\xffab", 3))), "tls_malformed_certificates"),
    ],
)
def test_hostile_handshakes_are_counted(client: bytes, counter: str) -> None:
    side = ">" if counter != "tls_malformed_certificates" else "<"
    assert run_packets(connection([(side, client)], port=443)).reports[counter] == 1


def test_a_gap_in_a_handshake_ends_reading_its_side() -> None:
    frames = connection([(">", record(client_hello(), 60))], 40, port=443)
    logs = run_packets(frames[:5] + frames[6:])
    assert logs["tlslog"] == [] and logs.reports["tls_gaps"] == 1


def test_connections_are_bounded() -> None:
    logs = run_packets(connection([(">", record(client_hello()))]), {"tlslog": ",connections=0"})
    assert logs["tlslog"] == [] and logs.reports["tls_connections_left_out"] == 1


def test_memory_is_bounded() -> None:
    logs = run_packets(connection([(">", record(client_hello()))]), {"tlslog": ",memory=100"})
    assert logs["tlslog"] == [] and logs.reports["tls_no_memory"] == 1


def test_a_message_takes_the_room_of_what_was_received() -> None:
    """Of a certificate that claims 250 KB, the first bytes."""
    claims = b"\x0b" + (250_000).to_bytes(3, "big") + bytes(100)
    talk: Talk = [(">", record(client_hello())), ("<", record(server_hello(0xC02F, b"", b"") + claims))]
    logs = run_packets(connection(talk), {"tlslog": ",memory=20000"})
    assert len(logs["tlslog"]) == 1 and not logs.reports["tls_no_memory"]


@needs_libcrypto
def test_ciphers_that_cannot_be_opened_are_counted(tmp_path: Path) -> None:
    """TLS_SHA256_SHA256 (RFC 9150), which only authenticates. The handshake of TLS 1.2 is in the clear."""
    keys = {"tlslog": f",keylog={other_keys(tmp_path / 'keys')}"}
    for cipher, extensions, sides in ((0xC0B4, None, 2), (0x002A, b"", 0)):
        talk: Talk = [(">", record(client_hello())), ("<", record(server_hello(cipher, b"", extensions)))]
        logs = run_packets(connection(talk, port=443), keys)
        assert len(logs["tlslog"]) == 1 and logs.reports["tls_ciphers"] == sides


def test_certificates_are_bounded() -> None:
    chain = vector(b"".join(vector(b"x" * 9, 3) for _ in range(20)), 3)
    talk: Talk = [(">", record(client_hello())), ("<", record(server_hello(0xC02F, b"", b"") + message(11, chain)))]
    (row,) = run_packets(connection(talk))["tlslog"]
    assert (row["certificate_count"], row["certificates"]) == (20, [])


@needs_libcrypto
@needs_openssl
def test_certificates_of_tls_13_with_keys(tmp_path: Path) -> None:
    """The same as TLS 1.2 has in the clear, however segments are cut; and what tshark decrypts."""
    talk: Talk = [(">", b"hello"), ("<", b"there")]
    (tmp_path / "old").mkdir()
    clear, _ = secured_talk(tmp_path / "old", ssl.TLSVersion.TLSv1_2, talk)
    (before,) = run_packets(connection(clear, port=443))["tlslog"]
    secured, keys = secured_talk(tmp_path, ssl.TLSVersion.TLSv1_3, talk)
    (without,) = rows(secured)
    assert (without["certificates"], without["certificate_count"]) == ([], 0)
    for cut in (1, 7, 300, 1460):
        logs = run_packets(connection(secured, cut, port=443), {"tlslog": f",keylog={keys}"})
        (row,) = logs["tlslog"]
        (certificate,) = row["certificates"]
        assert (certificate["subject"], certificate["names"]) == tuple(
            before["certificates"][0][name] for name in ("subject", "names")
        )
        assert (row["version"], row["established"], row["client_certificate"]) == ("TLSv1.3", True, False)
        assert not logs.reports["tls_refused"] and not logs.reports["tls_without_key"]
        assert {name: row[name] for name in ("ja3", "ja4s", "cipher")} == {
            name: without[name] for name in ("ja3", "ja4s", "cipher")
        }
    if shutil.which("tshark") is not None:
        (tmp_path / "in.pcap").write_bytes(pcap(connection(secured, port=443)))
        options = ("-o", f"tls.keylog_file:{keys}")
        found = [
            one["x509af.serialNumber"] for one in fields_of(tmp_path / "in.pcap", ["x509af.serialNumber"], *options)
        ]
        (serial,) = [number for each in found for number in each]
        assert int(serial.replace(":", "").removeprefix("0x"), 16) == int(certificate["serial"], 16)
    wrong = other_keys(tmp_path / "wrong")
    logs = run_packets(connection(secured, port=443), {"tlslog": f",keylog={wrong}"})
    assert [row["certificates"] for row in logs["tlslog"]] == [[]] and logs.reports["tls_without_key"] == 2
    frames = connection(secured, 300, port=443)
    lost = run_packets([one for at, one in enumerate(frames) if at != 5], {"tlslog": f",keylog={keys}"})
    assert len(lost["tlslog"]) == 1
    lost = run_packets([one for at, one in enumerate(frames) if at != 6], {"tlslog": f",keylog={keys}"})
    assert [row["certificates"] for row in lost["tlslog"]] == [[]] and lost.reports["tls_gaps"] == 1
