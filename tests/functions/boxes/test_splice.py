"""What `splice` makes of single packets: numbers, time stamps, blocks and windows of both sides; its bounds.

Connections of real hosts are in tests/live/test_splice.py.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from sluice.engine.box import RunError
from tests.functions.boxes.test_synflood import acknowledgement, flags, number
from tests.functions.security import Ran, icmp4, icmp6, run, wrong_checksums
from tests.support.connection import Host
from tests.support.packets import A4, A6

SERVICE = {4: bytes([192, 0, 2, 10]), 6: bytes([0xFD] + 14 * [0] + [10])}
SERVER = {4: bytes([10, 9, 0, 1]), 6: bytes([0xFD] + 14 * [0] + [1])}
ADDRESSES = {4: "address=192.0.2.10,servers=10.9.0.1", 6: "address=fd00::a,servers=[fd00::1]:8080"}
REQUEST = b"GET /a HTTP/1.1\r\nHost: b\r\n\r\n"
CLIENT_NUMBER, SERVER_NUMBER = 0xFFFFFFF0, 700_000
CLIENT_STAMP, SERVER_STAMP = 5000, 0xFFFFFF00


def stamps(value: int, echo: int) -> bytes:
    return struct.pack(">BBBBII", 1, 1, 8, 10, value & 0xFFFFFFFF, echo & 0xFFFFFFFF)


def syn_options(scale: int, value: int, echo: int = 0, size: int = 1460) -> bytes:
    return struct.pack(">BBH", 2, 4, size) + bytes([1, 1, 4, 2, 1, 3, 3, scale]) + stamps(value, echo)


def options(frame: bytes) -> bytes:
    at = 34 if frame[12:14] == b"\x08\x00" else 54
    return frame[at + 20 : at + (frame[at + 12] >> 4) * 4]


def window(frame: bytes) -> int:
    at = 34 if frame[12:14] == b"\x08\x00" else 54
    return int.from_bytes(frame[at + 14 : at + 16], "big")


def ends(version: int = 4, port: int = 40000) -> tuple[Host, Host]:
    """The client and, with the address that it has, its server."""
    client = Host(A4 if version == 4 else A6, port, CLIENT_NUMBER, checksums=True)
    service = Host(SERVICE[version], 80, 0, peer=client)
    client.peer = service
    server = Host(SERVER[version], 80 if version == 4 else 8080, SERVER_NUMBER, checksums=True, peer=client)
    return client, server


def splice(frames: list[bytes], more: str = "", version: int = 4, **how: object) -> Ran:
    return run("splice", frames, ",".join(filter(None, [ADDRESSES[version], more])), rows=False, **how)  # type: ignore[arg-type]


def after(ran: Ran, before: Ran) -> list[bytes]:
    """What left for the packets that were added."""
    return ran.left[len(before.left) :]


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("more", ["", "half_open=0"], ids=["stored", "cookies"])
def test_a_connection_from_its_syn_to_translated_packets(version: int, more: str) -> None:
    client, server = ends(version)
    frames = [client.send("S", options=syn_options(9, CLIENT_STAMP))]
    answered = splice(frames, more, version)
    (answer,) = answered.left
    cookie, box_stamp = number(answer), int.from_bytes(options(answer)[-8:-4], "big")
    assert flags(answer) == 0x12 and acknowledgement(answer) == (CLIENT_NUMBER + 1) & 0xFFFFFFFF
    assert options(answer) == bytes([2, 4, 5, 180 if version == 4 else 160, 1, 1, 4, 2, 1, 3, 3, 7]) + stamps(
        box_stamp, CLIENT_STAMP
    )
    assert not wrong_checksums(answer)

    frames.append(client.send("A", REQUEST, ack=cookie + 1, options=stamps(CLIENT_STAMP + 7, box_stamp)))
    asked = splice(frames, more, version)
    (syn,) = after(asked, answered)
    assert (flags(syn), number(syn)) == (2, CLIENT_NUMBER) and not wrong_checksums(syn)
    assert options(syn) == bytes([2, 4, 5, 180, 1, 1, 4, 2, 1, 3, 3, 9]) + stamps(CLIENT_STAMP + 7, 0)
    assert SERVER[version] in syn[:54] and syn[:12] == frames[0][:12]

    frames.append(server.send("SA", ack=CLIENT_NUMBER + 1, options=syn_options(5, SERVER_STAMP, CLIENT_STAMP + 7)))
    joined = splice(frames, more, version)
    (request,) = after(joined, asked)
    assert request.endswith(REQUEST) and not wrong_checksums(request)
    assert (number(request), acknowledgement(request)) == (CLIENT_NUMBER + 1, SERVER_NUMBER + 1)
    assert options(request) == stamps(CLIENT_STAMP + 7, SERVER_STAMP)

    frames.append(server.send("A", b"answer", options=stamps(SERVER_STAMP + 1000, CLIENT_STAMP + 7), window=4096))
    block = struct.pack(">BBBBII", 1, 1, 5, 10, (cookie + 100) & 0xFFFFFFFF, (cookie + 200) & 0xFFFFFFFF)
    to_client = after(splice(frames, more, version), joined)[0]
    client_stamp = int.from_bytes(options(to_client)[4:8], "big")
    assert to_client.endswith(b"answer") and not wrong_checksums(to_client) and SERVICE[version] in to_client[:54]
    assert (number(to_client), acknowledgement(to_client)) == ((cookie + 1) & 0xFFFFFFFF, client.next & 0xFFFFFFFF)
    assert window(to_client) == 4096 << 5 >> 7
    assert 1000 <= (client_stamp - box_stamp) & 0xFFFFFFFF < 1100, "they continue those of the box"

    frames.append(client.send("A", b"more", ack=cookie + 7, options=stamps(CLIENT_STAMP + 9, client_stamp) + block))
    ran = splice(frames, more, version)
    to_server = after(ran, joined)[1]
    assert to_server.endswith(b"more") and not wrong_checksums(to_server)
    assert acknowledgement(to_server) == SERVER_NUMBER + 7
    assert options(to_server)[:12] == stamps(CLIENT_STAMP + 9, SERVER_STAMP + 1000)
    assert options(to_server)[12:] == struct.pack(">BBBBII", 1, 1, 5, 10, SERVER_NUMBER + 100, SERVER_NUMBER + 200)
    assert (ran.reports["splice_joined"], ran.reports["splice_translated"]) == (1, 2)
    assert ran.reports["splice_cookies"] == bool(more)


def opened(client: Host, *more: bytes, parameters: str = "") -> list[bytes]:
    """A SYN and the acknowledgement of its answer."""
    syn = client.send("S")
    cookie = number(splice([syn], parameters).left[0])
    assert client.peer
    client.peer.next = cookie + 1
    return [syn, client.send("A"), *more]


def test_a_flood_is_answered_and_nothing_is_stored() -> None:
    frames = [ends(port=port)[0].send("S") for port in range(2000, 3000)]
    ran = splice(frames, "half_open=10,connections=20")
    assert len(ran.left) == 1000 and all(flags(frame) == 0x12 for frame in ran.left)
    assert (ran.reports["splice_cookies"], ran.reports["splice_not_answered"]) == (990, 0)


def test_acknowledgements_of_no_cookie_are_reset_and_do_not_reach_a_server() -> None:
    client, _ = ends()
    ran = splice([client.send("A", REQUEST, ack=99)])
    assert [flags(frame) for frame in ran.left] == [4] and ran.reports["splice_unknown"] == 1


def test_a_syn_to_a_server_is_repeated_and_a_silent_server_ends_in_a_reset() -> None:
    client, _ = ends()
    others = [ends(port=port)[0].send("S") for port in range(1, 5)]
    ran = splice(
        [*opened(client), client.send("A", REQUEST), *others],
        "connect=4",
        times=[1000, 1000.1, 1000.2, 1001.5, 1003.5, 1010, 1011],
    )
    to_server = [frame for frame in ran.left if SERVER[4] in frame[26:34]]
    assert len(to_server) >= 3 and {flags(frame) for frame in to_server} == {2}
    assert [flags(frame) for frame in ran.left if frame[30:34] == A4 and frame[36:38] == (40000).to_bytes(2, "big")][
        -1
    ] == 0x14
    assert (ran.reports["splice_failed"], ran.reports["splice_no_server"]) == (1, 1)


@pytest.mark.parametrize("size", [0, 1, 65535])
def test_a_segment_size_that_no_server_has_makes_no_endless_segments(size: int) -> None:
    """A client may forge the server's answer, as it knows its own number."""
    client, server = ends()
    frames = [*opened(client), client.send("A", REQUEST)]
    before = splice(frames)
    answer = server.send("SA", ack=CLIENT_NUMBER + 1, options=struct.pack(">BBH", 2, 4, size))
    sent = after(splice([*frames, answer]), before)
    assert len(sent) == 1 and sent[-1].endswith(REQUEST) and not wrong_checksums(sent[-1])


def test_a_client_that_sends_no_request_is_reset() -> None:
    client, _ = ends()
    ran = splice(
        [*opened(client), client.send("A", b"GET /"), ends(port=1)[0].send("S")],
        "wait=5",
        times=[1000, 1001, 1002, 1010],
    )
    assert ran.reports["splice_no_request"] == 1
    assert 0x14 in map(flags, ran.left)


def joined(client: Host, server: Host, version: int = 4) -> list[bytes]:
    """Packets after which a connection without options is joined."""
    syn = client.send("S")
    cookie = number(splice([syn], version=version).left[0])
    assert client.peer
    client.peer.next = cookie + 1
    return [syn, client.send("A", REQUEST), server.send("SA", ack=CLIENT_NUMBER + 1)]


def test_a_reset_of_another_number_ends_nothing() -> None:
    """RFC 5961, 3.2. Who knows the ends alone must not free the connection in the box."""
    for wrong in (False, True):
        client, server = ends()
        frames = joined(client, server)
        frames.append(server.send("R", number=SERVER_NUMBER + (1000 if wrong else 1)))
        frames += [client.send("A", b"more"), ends(port=1)[0].send("S"), client.send("A", b"again")]
        ran = splice(frames, times=[1000, 1000, 1000, 1001, 1002, 1020, 1021])
        assert ran.left[-1].endswith(b"again") == wrong
        assert bool(ran.reports["splice_unknown"]) != wrong


def test_an_option_that_a_server_refuses_is_not_offered_for_a_minute() -> None:
    client, server = ends()
    syn = client.send("S", options=syn_options(9, CLIENT_STAMP))
    (answer,) = splice([syn]).left
    ack = client.send(
        "A",
        REQUEST,
        ack=number(answer) + 1,
        options=stamps(CLIENT_STAMP, int.from_bytes(options(answer)[-8:-4], "big")),
    )
    frames = [syn, ack, server.send("SA", ack=CLIENT_NUMBER + 1, options=syn_options(5, 1)[:8])]
    frames += [ends(port=port)[0].send("S", options=syn_options(9, CLIENT_STAMP)) for port in (1, 2)]
    ran = splice(frames, times=[1000, 1000, 1000, 1059, 1061])
    assert ran.reports["splice_less_options"] == 1
    offers = {int.from_bytes(frame[36:38], "big"): len(options(frame)) for frame in ran.left if flags(frame) == 0x12}
    assert offers == {40000: 24, 1: 8, 2: 24}


def test_the_number_of_a_client_that_was_forgotten_is_no_cookie() -> None:
    """Its options were stored, and are no longer known."""
    client, _ = ends()
    syn = client.send("S", options=syn_options(9, CLIENT_STAMP))
    (answer,) = splice([syn]).left
    box_stamp = int.from_bytes(options(answer)[-8:-4], "big")
    timers = [ends(port=port)[0].send("S") for port in range(1, 5)]
    ack = client.send("A", REQUEST, ack=number(answer) + 1, options=stamps(CLIENT_STAMP, box_stamp))
    ran = splice([syn, *timers, ack], times=[1000, 1002, 1005, 1010, 1020, 1021])
    assert ran.reports["splice_no_handshake"] >= 1 and ran.reports["splice_unknown"] == 1
    assert flags(ran.left[-1]) == 4


@pytest.mark.parametrize("version", [4, 6])
def test_errors_reach_the_end_that_sent_what_they_quote(version: int) -> None:
    """Without them no end learns the path's segment size (RFC 1191, RFC 8201)."""
    error, kind, head, router = {
        4: (icmp4, (3, 4), 14, bytes([203, 0, 113, 1])),
        6: (icmp6, (2, 0), 14, bytes([0xFD] + 14 * [0] + [0x77])),
    }[version]
    client, server = ends(version)
    frames = joined(client, server, version)
    answer = server.send("A", 100 * b"answer")
    to_client = splice([*frames, answer], version=version).left[-1]
    more = client.send("A", b"more")
    to_server = splice([*frames, answer, more], version=version).left[-1]
    addresses = slice(26, 34) if version == 4 else slice(22, 54)
    start = 14 + (20 if version == 4 else 40) + 8
    for quoted, sent, receiver in ((to_client, answer, SERVER[version]), (to_server, more, A4 if version == 4 else A6)):
        for length in (28 if version == 4 else 48, 300):
            told = error(*kind, b"\0\0\5\0" + quoted[head : head + length], router, quoted[addresses][: len(router)])
            ran = splice([*frames, answer, more, told], version=version)
            out = ran.left[-1]
            assert out[addresses] == router + receiver and not wrong_checksums(out)
            assert out[start:] == sent[head : head + length], "the end recognises its own segment"
            assert ran.reports["splice_errors"] == 1
    stray = error(*kind, b"\0\0\5\0" + splice(frames[:1], version=version).left[0][head:], router, SERVICE[version])
    ran = splice([frames[0], stray], version=version)
    assert ran.reports["splice_errors_dropped"] == 1 and len(ran.left) == 1


def test_requests_beyond_the_bound_are_not_stored() -> None:
    """What is not HTTP, or too long, goes to a server by the client's address."""
    client, _ = ends()
    frames = [*opened(client), client.send("A", b"GET /" + 500 * b"a"), client.send("A", 500 * b"a")]
    ran = splice(frames, "waiting=512")
    assert ran.reports["splice_by_client"] == 1 and flags(ran.left[-1]) == 2


@pytest.mark.parametrize("seed", range(3))
def test_hostile_segments(seed: int) -> None:
    """Any segments of both ends, with any flags, numbers, options and cuts; the sanitizers' build runs it, too."""
    chosen = random.Random(seed)
    frames: list[bytes] = []
    for port in range(2000, 2040):
        client, server = ends(port=port)
        client.checksums = server.checksums = False
        syn = client.send("S", options=syn_options(chosen.randrange(20), CLIENT_STAMP))
        cookie = number(splice([syn]).left[0]) if port % 10 == 0 else chosen.randrange(1 << 32)
        ack = client.send("A", REQUEST[: chosen.randrange(40)], ack=(cookie + 1) & 0xFFFFFFFF)
        size = chosen.choice([0, 1, 1460, 65535])
        answer = syn_options(chosen.randrange(20), 1, size=size)
        frames += [syn, ack, server.send("SA", ack=CLIENT_NUMBER + 1, options=answer)]
        for _ in range(40):
            end = chosen.choice([client, server])
            text = "".join(letter for letter in "SAFRP" if chosen.random() < 0.3)
            near = chosen.choice([end.next, CLIENT_NUMBER, SERVER_NUMBER, cookie]) + chosen.randrange(-3, 20000)
            raw = chosen.choice([b"", bytes([5, chosen.randrange(40), 1, 1]), chosen.randbytes(chosen.randrange(40))])
            frame = end.send(
                text, chosen.randbytes(chosen.choice([0, 1, 700])), number=near & 0xFFFFFFFF,
                ack=(cookie + chosen.randrange(20)) & 0xFFFFFFFF, options=raw[:40],
            )  # fmt: skip
            frames.append(frame[: chosen.choice([len(frame), len(frame), chosen.randrange(40, len(frame) + 1)])])
    ran = splice(
        frames, f"half_open={chosen.choice([0, 4096])},waiting=512,memory=2048,connections=30,connect=0.05,wait=1"
    )
    assert ran.reports["splice_accepted"] <= 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("address=nowhere", "address is an IPv4 or IPv6 address"),
        ("servers=10.0.0.1+fd00::1", "servers are at most 64 addresses"),
        ("by=chance", "by is path, host or client"),
        ("options=scale+ecn", "options are none, or some of scale"),
        ("waiting=1", "waiting from 512"),
        ("routes=/no/such/file", "No such file"),
    ],
)
def test_parameters_that_are_refused(text: str, message: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RunError):
        run("splice", [], text, rows=False)
    assert message in capfd.readouterr().err


def test_a_wrong_route_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "routes").write_text("* / 10.0.0.1\n\n* images 10.0.0.2\n")
    with pytest.raises(RunError):
        run("splice", [], f"routes={tmp_path}/routes", rows=False)
    assert "routes:3: a line is HOST PATH SERVER" in capfd.readouterr().err


ROUTES = """
* / 10.9.0.1
* /images 10.9.0.2
api.example.org / 10.9.0.3
api.example.org /images/big 10.9.0.4
"""


@pytest.mark.parametrize(
    ("head", "last"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 1),
        (b"GET /images/x?y=/z HTTP/1.1\r\nHost: a\r\n\r\n", 2),
        (b"POST /images HTTP/1.1\r\nx: y\r\nhOST: \tAPI.example.org:80 \r\n\r\n", 3),
        (b"\r\nGET http://api.example.org:80/images/big?x HTTP/1.1\r\n\r\n", 4),
        (b"GET http://api.example.org HTTP/1.0\n\n", 3),
        (b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 9),
        (b"\x16\x03\x01\x00\x05", 9),
    ],
)
def test_the_head_chooses(tmp_path: Path, head: bytes, last: int) -> None:
    (tmp_path / "routes").write_text(ROUTES)
    client, _ = ends()
    given = f"servers=10.9.0.9,routes={tmp_path}/routes"
    ran = splice([*opened(client, parameters=given), client.send("A", head)], given)
    assert ran.left[-1][30:34] == bytes([10, 9, 0, last])
