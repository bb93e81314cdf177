"""Floods of SYNs that synflood finds, and connections that it opens by SYN cookies and splices."""

from __future__ import annotations

import pytest

from sluice.engine.box import RunError
from tests.functions.security import Ran, run, wrong_checksums
from tests.support.connection import Host, handshake, pair
from tests.support.packets import A4, B4, fragments4

SERVER_NUMBER = 700_000


def syns(count: int, version: int = 4) -> list[bytes]:
    """SYNs of many sources to the server of `pair`."""
    client, server = pair(version=version, checksums=True)
    found = list[bytes]()
    for number in range(count):
        address = client.address[:-2] + number.to_bytes(2, "big")
        source = Host(address, 1024 + number, 17 * number, checksums=True, peer=server)
        found.append(source.send("S"))
    return found


def number(frame: bytes) -> int:
    at = 34 if frame[12:14] == b"\x08\x00" else 54
    return int.from_bytes(frame[at + 4 : at + 8], "big")


def acknowledgement(frame: bytes) -> int:
    at = 34 if frame[12:14] == b"\x08\x00" else 54
    return int.from_bytes(frame[at + 8 : at + 12], "big")


def flags(frame: bytes) -> int:
    return frame[(34 if frame[12:14] == b"\x08\x00" else 54) + 13]


def flood(frames: list[bytes], parameters: str = "", **more: float) -> Ran:
    return run("synflood", frames, parameters, **more)  # type: ignore[arg-type]


def test_a_flood_is_found_and_its_end() -> None:
    good: list[bytes] = []
    for port in range(50):
        client, server = pair(port=30000 + port)
        good += handshake(client, server)
    attack = syns(80)
    later = handshake(*pair(port=50000))
    times = [1000 + 0.001 * n for n in range(len(good) + len(attack))] + [1400, 1400.1, 1400.2]
    ran = run("synflood", [*good, *attack, *later], "half_open=60,cookies=never", times=times)
    assert [(row["synflood"], row["dst"], row["dport"]) for row in ran.rows] == [
        (w, "10.0.0.2", 80) for w in ("begin", "end")
    ]
    assert ran.rows[0]["half_open"] == 61 and ran.rows[1]["peak"] >= 80
    assert ran.left == [*good, *attack, *later]
    assert (ran.reports["synflood_opened"], ran.reports["synflood_completed"]) == (131, 51)


def test_many_connections_are_no_flood() -> None:
    """Of many slow handshakes, most are completed."""
    frames: list[bytes] = []
    for burst in range(7):
        pairs = [pair(port=20000 + 100 * burst + n) for n in range(30 if burst == 6 else 10)]
        shaken = [handshake(*each) for each in pairs]
        frames += [each[part] for part in range(3) for each in shaken]
    assert flood(frames, "half_open=25").rows == []


@pytest.mark.parametrize("version", [4, 6])
def test_a_client_that_acknowledges_its_cookie_is_spliced(version: int) -> None:
    attack = syns(40, version)
    client, server = pair(port=45000, version=version, checksums=True)
    server.isn = server.next = SERVER_NUMBER
    syn = client.send("S", options=b"\2\4\5\xb4")
    first = flood([*attack, syn], "half_open=20")
    assert len(first.left) == 41 and first.left[:20] == attack[:20]
    answer = first.left[-1]
    cookie = number(answer)
    assert flags(answer) == 0x12 and acknowledgement(answer) == client.isn + 1 and not wrong_checksums(answer)
    assert answer[-4:] == b"\2\4\5\xb4" and answer[:6] == syn[6:12]
    at = 34 if version == 4 else 54
    assert answer[at + 14 : at + 16] == b"\0\0"  # a window of 0: nothing is sent before the server has answered

    ack = client.send("A", ack=cookie + 1)
    opened = server.send("SA", window=5000)
    there = client.send("A", b"request", ack=cookie + 1)
    back = server.send("A", b"answer")
    last = client.send("FA", ack=cookie + 1 + 6)
    exchange = [ack, opened, there, back, last]
    ran = flood([*attack, syn, *exchange], "half_open=20")
    to_server, to_server_ack, to_client, *data = ran.left[41:]
    assert flags(to_server) == 2 and number(to_server) == client.isn and to_server[-4:] == b"\2\4\5\xb4"
    assert to_server[:12] == syn[:12] and not wrong_checksums(to_server)
    assert {flags(to_server_ack), flags(to_client)} == {16}
    assert (number(to_server_ack), acknowledgement(to_server_ack)) == (client.isn + 1, SERVER_NUMBER + 1)
    assert (number(to_client), acknowledgement(to_client)) == (cookie + 1, client.isn + 1)
    assert to_client[at + 14 : at + 16] == (5000).to_bytes(2, "big")
    assert not wrong_checksums(to_server_ack) and not wrong_checksums(to_client)
    assert (number(data[0]), acknowledgement(data[0])) == (client.isn + 1, SERVER_NUMBER + 1)
    assert (number(data[1]), acknowledgement(data[1])) == (cookie + 1, client.isn + 8)
    assert acknowledgement(data[2]) == SERVER_NUMBER + 7
    assert not any(map(wrong_checksums, data)) and data[0].endswith(b"request")
    assert ran.reports["synflood_spliced"] == 1 and ran.reports["synflood_valid"] == 1


def test_cookies_that_are_wrong_or_old() -> None:
    client, _ = pair(checksums=True)
    syn = client.send("S")
    cookie = number(flood([syn], "cookies=always").left[0])
    for wrong in (cookie + 1, cookie ^ 1 << 24, cookie ^ 1 << 27):
        ack = client.send("A", ack=wrong + 1)
        ran = flood([syn, ack], "cookies=always")
        assert ran.left[1:] == [ack] and ran.reports["synflood_invalid"] == 1
    ack = client.send("A", ack=cookie + 1)
    assert flags(run("synflood", [syn, ack], "cookies=always", times=[1000, 1020]).left[-1]) == 2
    assert run("synflood", [syn, ack], "cookies=always", times=[1000, 1200]).left[1:] == [ack]


def test_a_client_that_goes_on_opens_the_server_again_and_a_refusal_reaches_it() -> None:
    client, server = pair(checksums=True)
    syn = client.send("S")
    cookie = number(flood([syn], "cookies=always").left[0])
    ack = client.send("A", ack=cookie + 1)
    refusal = server.send("RA", number=0)
    ran = flood([syn, ack, ack, refusal], "cookies=always")
    assert [flags(frame) for frame in ran.left] == [0x12, 2, 2, 0x14]
    assert number(ran.left[3]) == (cookie + 1) & 0xFFFFFFFF and not wrong_checksums(ran.left[3])


def test_fragments_of_spliced_connections_do_not_pass_with_wrong_numbers() -> None:
    client, server = pair(checksums=True)
    syn = client.send("S")
    cookie = number(flood([syn], "cookies=always").left[0])
    opening = [syn, client.send("A", ack=cookie + 1), server.send("SA")]
    segment = server.send("A", b"answer" * 20)
    fragments = fragments4(segment[34:], 64, protocol=6, src=B4, dst=A4)
    ran = flood([*opening, *fragments], "cookies=always")
    assert fragments[-1] not in ran.left and ran.reports["synflood_not_rewritten"] == 1


def test_connections_from_before_the_flood_go_on() -> None:
    client, server = pair(port=45000)
    slow, other = pair(port=45001)
    before = [*handshake(client, server), slow.send("S"), other.send("SA")]
    after = [client.data(b"more"), server.data(b"more"), slow.send("A"), slow.data(b"x")]
    ran = flood([*before, *syns(40), *after], "half_open=20")
    assert ran.left[-4:] == after and ran.reports["synflood_completed"] == 2


def test_parameters_are_checked() -> None:
    for given in ("cookies=yes", "share=101", "window=0"):
        with pytest.raises(RunError):
            flood([], given)


def test_the_ends_of_a_cookie_belong_to_it() -> None:
    """A cookie of one client is none of another one."""
    client, server = pair(checksums=True)
    cookie = number(flood([client.send("S")], "cookies=always").left[0])
    thief = Host(A4, client.port + 1, client.isn, checksums=True, peer=server)
    thief.next = client.isn + 1
    ack = thief.send("A", ack=cookie + 1)
    assert flood([ack], "cookies=always").left == [ack]
    assert B4 in ack
