"""tlslog: DTLS, however its handshake is divided into fragments and datagrams."""

from __future__ import annotations

import hashlib
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.functions.logs.boxes import Logs, Row, lasting, needs_parsers, run_packets
from tests.functions.logs.dtls import HANDSHAKE, datagrams, fragments, handshake, hello_of, record
from tests.functions.logs.hellos import RANDOM, message, vector
from tests.functions.logs.test_cuts import gre, gtp, vlan, vxlan
from tests.functions.logs.truth import fields_of
from tests.support.capture import pcap

pytestmark = needs_parsers

PARTS = [fragments(message(11, bytes(90)), number, 9)[0] for number in range(1, 12)]
"""The beginnings of more messages than are stored at once."""
SECURED = [(">", record(b"x" * 20, 9, 23, 1)), ("<", record(b"x" * 20, 9, 23, 1))]


def rows(frames: list[bytes]) -> list[Row]:
    logs = run_packets(frames)
    assert not counted(logs), counted(logs)
    return logs["tlslog"]


def counted(logs: Logs) -> dict[str, int]:
    return {name: count for name, count in logs.reports.items() if name.startswith("tls_") and count}


def test_what_a_handshake_of_openssl_says() -> None:
    (row,) = rows(datagrams(handshake()))
    assert (row["transport"], row["version"], row["version_offered"]) == ("udp", "DTLSv1.2", "DTLSv1.2")
    assert (row["server_name"], row["alpn_offered"], row["alpn"]) == ("a.example", ["webrtc", "c-webrtc"], "webrtc")
    assert str(row["cipher"]).startswith("TLS_ECDHE_ECDSA_") and str(row["ja4"]).startswith("dd2d")
    assert (row["established"], row["resumed"], row["hello_retry"]) == (True, False, False)
    (certificate,) = row["certificates"]
    assert (certificate["subject"], row["certificate_count"]) == ("CN=relay.example", 1)
    assert (row["src"], row["sport"], row["dport"]) == ("10.0.0.1", 40000, 4433)


@pytest.mark.skipif(shutil.which("tshark") is None, reason="no tshark, with which hellos are compared")
@pytest.mark.parametrize("mtu", [256, 1200])
def test_hellos_are_those_that_tshark_shows(tmp_path: Path, mtu: int) -> None:
    frames = datagrams(handshake(mtu))
    (tmp_path / "in.pcap").write_bytes(pcap(frames))
    names = ["ja3", "ja3s", "extensions_server_name", "ciphersuite", "extensions_alpn_str"]
    theirs: dict[str, set[str]] = {name: set() for name in names}
    prefix = "dtls.handshake."
    for packet in fields_of(tmp_path / "in.pcap", [prefix + name for name in names], "-d", "udp.port==4433,dtls"):
        for name in names:
            theirs[name].update(packet[prefix + name])
    (row,) = rows(frames)
    assert theirs["ja3"] == {row["ja3"]} and theirs["ja3s"] == {row["ja3s"]}
    assert theirs["extensions_server_name"] == {row["server_name"]}
    assert row["cipher_id"] in theirs["ciphersuite"]
    assert theirs["extensions_alpn_str"] == {*row["alpn_offered"]}


@pytest.mark.parametrize("cookie", [True, False])
def test_fragments_and_datagrams_of_any_size(cookie: bool) -> None:
    """The records of OpenSSL in datagrams of several sizes, again, and out of order within a flight."""
    (whole,) = lasting(rows(datagrams(handshake(cookie=cookie))))
    for mtu in (256, 400, 1200):
        records = handshake(mtu, cookie)
        for together in (False, True):
            said = lasting(rows(datagrams(records, together)))
            assert [{**row, "certificates": whole["certificates"]} for row in said] == [whole], (mtu, together)
            assert said[0]["certificates"][0]["sha256"] == whole["certificates"][0]["sha256"]
        for seed in range(4):
            dice = random.Random(seed)
            flights: list[list[tuple[str, bytes]]] = []
            for one in records:
                if not flights or flights[-1][-1][0] != one[0]:
                    flights.append([])
                flights[-1].append(one)
            moved = [one for flight in flights for one in dice.sample(flight + flight, 2 * len(flight))]
            assert lasting(rows(datagrams(moved))) == [whole], (mtu, seed)


def test_fragments_of_single_bytes_that_overlap() -> None:
    hello, answer = hello_of(), hello_of(server=True)
    (whole,) = lasting(rows(datagrams([(">", fragments(hello, 0)[0]), ("<", fragments(answer, 0)[0]), *SECURED])))
    for size in (1, 2, 3, 7, 30):
        records = [(">", one) for one in fragments(hello, 0, size)] + [("<", one) for one in fragments(answer, 0, size)]
        again = [(">", one) for one in fragments(hello, 0, size + 1)] + records
        for said in (records, again):
            assert lasting(rows(datagrams([*said, *SECURED]))) == [whole], size


def test_dtls_13() -> None:
    """Versions count down: 0xfefc is later than 0xfefd. The retry of DTLS 1.3 is no cookie of DTLS 1.2."""
    offered = vector(b"\xfe\xfc\xfe\xfd", 1)
    retry = hello_of(server=True, versions=b"\xfe\xfc", random=hashlib.sha256(b"HelloRetryRequest").digest())
    answer = hello_of(server=True, versions=b"\xfe\xfc")
    sealed = b"\x2f\x00\x00\x00\x05abcde"
    talk = [
        (">", fragments(hello_of(versions=offered), 0)[0]), ("<", fragments(retry, 0)[0]),
        (">", fragments(hello_of(versions=offered), 1)[0]), ("<", fragments(answer, 1)[0] + sealed), (">", sealed),
    ]  # fmt: skip
    (row,) = rows(datagrams(talk))
    assert (row["version"], row["version_offered"], row["hello_retry"]) == ("DTLSv1.3", "DTLSv1.3", True)
    assert (row["established"], row["resumed"]) == (True, False)
    suites, extensions = (hashlib.sha256(text).hexdigest()[:12] for text in (b"1301,c02b", b"000e,002b"))
    assert row["ja4"] == f"dd3d020300_{suites}_{extensions}"
    assert str(row["ja4s"]).startswith("dd30100_1301_")
    (row,) = rows(datagrams([talk[0], ("<", fragments(answer, 0)[0])]))
    assert (row["version"], row["hello_retry"], row["established"]) == ("DTLSv1.3", False, False)


def test_several_connections_on_the_same_ports() -> None:
    """Another client random is another connection; a hello that comes again is none."""
    first = handshake()
    assert len(rows(datagrams([*first, first[0]]))) == 1
    found = rows(datagrams([*first, *handshake(), *handshake(256)]))
    assert [row["established"] for row in found] == [True] * 3
    hellos = [(">", fragments(hello_of(random=bytes([n]) * 32), 0)[0]) for n in (1, 1, 2, 3)]
    assert [row["established"] for row in rows(datagrams(hellos))] == [False] * 3


@pytest.mark.parametrize("wrapped", [gtp, vxlan, gre, vlan])
def test_tunnels_and_tags(wrapped: Callable[[bytes], bytes]) -> None:
    frames = datagrams(handshake(400))
    assert lasting(rows([wrapped(frame) for frame in frames])) == lasting(rows(frames))


def test_the_preamble_of_capwap() -> None:
    records = handshake()
    inner = [(who, b"\x01\0\0\0" + one) for who, one in records]
    (row,) = rows(datagrams(inner, ports=(40000, 5246)))
    assert (row["version"], row["dport"], row["established"]) == ("DTLSv1.2", 5246, True)


def test_alerts_in_the_clear_are_listed_once() -> None:
    alert = ("<", record(b"\x02\x28", 0, 21))
    (row,) = rows(datagrams([(">", fragments(hello_of(), 0)[0]), alert, alert]))
    assert row["alerts"] == [{"from": "server", "level": 2, "description": 40}]


@pytest.mark.parametrize(
    ("sent", "counter"),
    [
        ([fragments(hello_of(), 0)[0] + b"\x16no record, but long enough"], "tls_bad_records"),
        ([fragments(hello_of(), 0)[0] + b"\x16\xfe"], "tls_bad_records"),
        ([fragments(hello_of(), 0)[0], record(b"\x0b" + b"\xff" * 11)], "tls_bad_records"),
        ([fragments(hello_of(), 0)[0], record(b"\x0b\xff\0\0\0\5" + bytes(6))], "tls_too_long"),
        ([fragments(message(1, b"\xfe\xfd" + RANDOM + b"\0\xff\0\2"), 0)[0]], "tls_malformed_hellos"),
        ([fragments(message(1, b"\xfe\xfd" + RANDOM + b"\0\xff\0\2"), 0, 20)[0]], "tls_gaps"),
        ([fragments(hello_of(), 0)[0], *PARTS], "tls_no_memory"),
    ],
)  # fmt: skip
def test_hostile_datagrams_are_counted(sent: list[bytes], counter: str) -> None:
    assert counted(run_packets(datagrams([(">", one) for one in sent]))).get(counter)


def test_other_datagrams_give_no_rows() -> None:
    dice = random.Random(1)
    others = [bytes([HANDSHAKE, 0xFE, 0xFD]) + dice.randbytes(60) for _ in range(500)]
    assert rows(datagrams([(">", one) for one in others])) == []


def test_memory_is_bounded() -> None:
    logs = run_packets(datagrams(handshake()), {"tlslog": ",memory=100"})
    assert logs["tlslog"] == [] and logs.reports["tls_no_memory"]
    logs = run_packets(datagrams(handshake()), {"tlslog": ",connections=0"})
    assert logs["tlslog"] == [] and logs.reports["tls_connections_left_out"] == 1


def test_messages_take_the_room_of_what_was_received() -> None:
    """Whatever length they claim: the first and the last bytes of eight messages of 250 KB."""
    parts = [part for number in range(1, 9) for part in fragments(message(11, bytes(250_000)), number, 1000)[::249]]
    logs = run_packets(
        datagrams([(">", one) for one in [fragments(hello_of(), 0)[0], *parts]]), {"tlslog": ",memory=50000"}
    )
    assert len(logs["tlslog"]) == 1 and counted(logs) == {"tls_gaps": 1}


def test_pieces_of_a_message_are_bounded() -> None:
    """Every other byte of a message; then what is missing, from its end to its beginning."""
    body = bytes(range(256)) * 4
    parts = fragments(message(11, body), 1, 1)
    logs = run_packets(datagrams([(">", one) for one in [fragments(hello_of(), 0)[0], *parts[::2]]]))
    assert counted(logs) == {"tls_gaps": 1, "tls_no_memory": 256}
    hello = fragments(hello_of(), 0, 1)
    (whole,) = lasting(rows(datagrams([(">", fragments(hello_of(), 0)[0])])))
    for order in ([*hello[::2], *hello[::-1]], hello[::-1], [*hello[1::2], *hello[::2]]):
        assert lasting(rows(datagrams([(">", one) for one in order]))) == [whole]
