"""nat by RFC 4787, 5382 and 5508: mapping, filtering, hairpinning, echoes, ICMP errors."""

from __future__ import annotations

from tests.functions.security import Ran, icmp4, run, wrong_checksums
from tests.support.connection import Host, handshake
from tests.support.packets import checksum, eth, ip4, pseudo_header, udp

IN, OTHER, EXTERNAL = bytes([10, 0, 0, 5]), bytes([10, 0, 0, 6]), bytes([192, 0, 2, 1])
FAR, FAR2 = bytes([198, 51, 100, 7]), bytes([198, 51, 100, 8])
NAT = "first_port=2000,last_port=2005"


def datagram(src: bytes, sport: int, dst: bytes, dport: int, body: bytes = b"x") -> bytes:
    plain = udp(sport, dport, body)
    total = checksum(pseudo_header(src, dst, 17, len(plain)) + plain)
    return eth(ip4(plain[:6] + total.to_bytes(2, "big") + plain[8:], 17, src, dst))


def nat(frames: list[bytes], parameters: str = "") -> Ran:
    ran = run("nat", frames, ",".join(filter(None, [NAT, parameters])), rows=False)
    assert not any(map(wrong_checksums, ran.left))
    return ran


def ends(frame: bytes) -> tuple[bytes, int, bytes, int]:
    return frame[26:30], int.from_bytes(frame[34:36], "big"), frame[30:34], int.from_bytes(frame[36:38], "big")


def test_an_endpoint_has_one_port_for_all_that_it_contacts() -> None:
    """RFC 4787, REQ-1; RFC 5382, REQ-1."""
    frames = [
        datagram(IN, 5000, FAR, 53),
        datagram(IN, 5000, FAR2, 54),
        datagram(IN, 5001, FAR, 53),
        datagram(OTHER, 5000, FAR, 53),
    ]
    assert [ends(frame)[:2] for frame in nat(frames).left] == [(EXTERNAL, port) for port in (2000, 2000, 2001, 2002)]
    host, far, far2 = Host(IN, 5000, 1, checksums=True), Host(FAR, 80, 2), Host(FAR2, 80, 3)
    syns: list[bytes] = []
    for peer in (far, far2):
        host.peer = peer
        syns.append(host.send("S"))
    assert [ends(frame)[1] for frame in nat([*syns, frames[0]]).left] == [2000, 2000, 2001]


def test_filtering() -> None:
    """RFC 4787, REQ-8: none, by address, by address and port."""
    frames = [datagram(IN, 5000, FAR, 53)]
    frames += [datagram(FAR, 53, EXTERNAL, 2000), datagram(FAR, 99, EXTERNAL, 2000), datagram(FAR2, 53, EXTERNAL, 2000)]
    for filter_, passed in (("none", 3), ("address", 2), ("port", 1)):
        ran = nat(frames, f"filter={filter_}")
        assert [ends(frame)[2:] for frame in ran.left[1:]] == [(IN, 5000)] * passed
        assert ran.reports["filtered"] == 3 - passed
    assert nat([datagram(FAR, 53, EXTERNAL, 2000)]).reports["unmapped"] == 1


def test_what_comes_to_an_inside_address_keeps_no_host_from_beginning() -> None:
    """RFC 5382, REQ-4: it is dropped silently, and says nothing about the packets of the inside host."""
    inside, outside = Host(IN, 6000, 1, checksums=True), Host(FAR, 80, 5, checksums=True)
    inside.peer, outside.peer = outside, inside
    frames = [datagram(FAR, 53, IN, 5000), datagram(IN, 5000, FAR, 53), outside.send("S")]
    ran = nat([*frames, inside.send("SA"), inside.send("S", number=1)])
    assert [ends(frame) for frame in ran.left] == [(EXTERNAL, 2000, FAR, 53), (EXTERNAL, 2001, FAR, 80)]
    assert ran.reports["unsolicited"] == 3  # also the answer


def test_hairpinning() -> None:
    """RFC 4787, REQ-9: from inside to the external port of another inside endpoint, with the external source."""
    frames = [datagram(IN, 5000, FAR, 53), datagram(OTHER, 6000, EXTERNAL, 2000), datagram(IN, 5000, EXTERNAL, 2001)]
    ran = nat(frames)
    assert [ends(frame) for frame in ran.left[1:]] == [(EXTERNAL, 2001, IN, 5000), (EXTERNAL, 2000, OTHER, 6000)]
    assert ran.reports["hairpinned"] == 2
    assert nat([datagram(OTHER, 6000, EXTERNAL, 2003)]).left == []
    a, b = Host(IN, 5000, 1, checksums=True), Host(EXTERNAL, 2000, 7, checksums=True)
    a.peer, b.peer = b, a
    server = Host(OTHER, 80, 9, checksums=True, peer=Host(FAR, 80, 1))
    opened = nat([server.send("S"), handshake(a, b)[0]]).left[1]
    assert ends(opened) == (EXTERNAL, 2001, OTHER, 80)


def test_a_port_is_released_with_the_last_connection_of_its_endpoint() -> None:
    frames = [
        datagram(IN, 5000, FAR, 53),
        datagram(IN, 5000, FAR2, 53),
        datagram(IN, 5000, FAR2, 53),
        datagram(FAR2, 53, EXTERNAL, 2000),
    ]
    times = [1000.0, 1030.0, 1070.0, 1071.0]
    ran = run("nat", frames, NAT, times=times, rows=False)
    assert ends(ran.left[-1])[2:] == (IN, 5000)
    more = [*frames, *[datagram(OTHER, 7000 + n, FAR, 53) for n in range(8)]]
    ran = run("nat", more, NAT, times=[*times, *[1400 + n for n in range(8)]], rows=False)
    assert (
        ran.reports["no_port"] in (2, 3) and ran.reports["translated"] >= 7
    )  # the sweep finds ended ones within some packets


def test_an_answer_to_an_expired_connection_keeps_no_host_from_going_on() -> None:
    """RFC 4787, REQ-5 and 6: it is dropped, as it would be after the sweep, and does not refresh a connection."""
    frames = [datagram(IN, 5000, FAR, 53), datagram(FAR, 53, EXTERNAL, 2000), datagram(IN, 5000, FAR, 53)]
    frames.append(datagram(FAR, 53, EXTERNAL, 2001))
    ran = run("nat", frames, NAT, times=[1000.0, 1061.0, 1062.0, 1063.0], rows=False)
    assert [ends(frame) for frame in ran.left] == [
        (EXTERNAL, 2000, FAR, 53),
        (EXTERNAL, 2001, FAR, 53),
        (FAR, 53, IN, 5000),
    ]
    assert (ran.reports["unmapped"], ran.reports["unsolicited"], ran.reports["translated"]) == (1, 0, 2)


def test_a_call_of_an_expired_port_keeps_no_inside_host_from_calling_it_later() -> None:
    """The packet that finds the port without an endpoint is dropped, and what follows is not, once the port has one."""
    call, third = datagram(IN, 5000, EXTERNAL, 2000), datagram(bytes([10, 0, 0, 7]), 1, FAR, 53)
    frames = [datagram(OTHER, 6000, FAR, 53), call, *[datagram(FAR2, 9 + n, FAR2, 9) for n in range(100)], call, call]
    times = [1000.0, 1030.0, *[1070 + 0.01 * n for n in range(100)], 1080.0, 1141.0]
    frames += [datagram(IN, 5000, FAR, 53), third, datagram(OTHER, 6000, FAR, 53), call]
    times += [1142.0, 1142.1, 1142.2, 1143.0]
    ran = run("nat", frames, "first_port=2000,last_port=2002", times=times, rows=False)
    left = [ends(frame) for frame in ran.left if frame[26:30] == EXTERNAL]
    assert [end[1] for end in left] == [2000, 2001, 2001, 2002, 2001, 2000, 2002]
    assert left[-1] == (EXTERNAL, 2002, OTHER, 6000) and ran.reports["unmapped"] == 1


def test_echoes() -> None:
    """RFC 5508, REQ-1 to 3: identifiers are mapped as ports are."""
    frames = [icmp4(8, 0, b"\0\x07\0\1data", IN, FAR), icmp4(8, 0, b"\0\x07\0\1data", OTHER, FAR)]
    frames += [
        icmp4(0, 0, b"\x07\xd1\0\1data", FAR, EXTERNAL),
        icmp4(0, 0, b"\x07\xd3\0\1data", FAR, EXTERNAL),
        icmp4(8, 0, b"\x07\xd0\0\1", FAR, EXTERNAL),
    ]
    ran = nat(frames)
    assert [(frame[26:30], frame[38:40]) for frame in ran.left[:2]] == [
        (EXTERNAL, b"\x07\xd0"),
        (EXTERNAL, b"\x07\xd1"),
    ]
    assert [(frame[30:34], frame[38:40]) for frame in ran.left[2:]] == [(OTHER, b"\0\x07")]
    assert ran.reports["unmapped"] == 2
    assert nat([icmp4(13, 0, bytes(16), IN, FAR)]).reports["unsupported"] == 1


def test_a_reply_that_no_host_requested_keeps_no_host_from_pinging_its_sender() -> None:
    """It is translated, as nothing is filtered; the mapping of the request after it is the one of the inside end."""
    ping, reply = icmp4(8, 0, b"\0\x07\0\1data", IN, FAR), icmp4(0, 0, b"\x07\xd0\0\1data", FAR2, EXTERNAL)
    frames = [ping, reply, icmp4(8, 0, b"\0\x07\0\1data", IN, FAR2), reply]
    ran = nat(frames)
    assert [(frame[26:30], frame[30:34], frame[38:40]) for frame in ran.left] == [
        (EXTERNAL, FAR, b"\x07\xd0"),
        (FAR2, IN, b"\0\x07"),
        (EXTERNAL, FAR2, b"\x07\xd0"),
        (FAR2, IN, b"\0\x07"),
    ]


def test_errors_are_translated_with_what_they_quote() -> None:
    """RFC 5508, REQ-4 and 5; RFC 5382, REQ-9; RFC 4787, REQ-14."""
    there = datagram(IN, 5000, FAR, 53)
    outside = nat([there]).left[0]
    router = bytes([203, 0, 113, 1])
    error = icmp4(3, 3, bytes(4) + outside[14:], router, EXTERNAL)
    ran = nat([there, error])
    inner = ran.left[1]
    assert (inner[26:30], inner[30:34]) == (router, IN) and inner[42:] == there[14:]
    assert not wrong_checksums(eth(inner[42:])) and ran.reports["errors_translated"] == 1
    ping = icmp4(8, 0, b"\0\x07\0\1data", IN, FAR)
    expired = icmp4(11, 0, bytes(4) + nat([ping]).left[0][14:], router, EXTERNAL)
    assert nat([ping, expired]).left[1][42:] == ping[14:]
    host = Host(IN, 5000, 1, checksums=True, peer=Host(FAR, 80, 2))
    syn = host.send("S")
    too_big = icmp4(3, 4, b"\0\0\5\0" + nat([syn]).left[0][14:42], router, EXTERNAL)  # eight bytes of TCP
    assert nat([syn, too_big]).left[1][42:] == syn[14:42]
    # from the inside, about what came from outside
    back = datagram(FAR, 53, EXTERNAL, 2000)
    answer = icmp4(3, 3, bytes(4) + nat([there, back]).left[1][14:], IN, FAR)
    out = nat([there, back, answer]).left[2]
    assert (out[26:30], out[30:34]) == (EXTERNAL, FAR) and out[42:] == back[14:]
    for wrong in (
        icmp4(3, 3, bytes(4) + datagram(EXTERNAL, 2004, FAR, 53)[14:], router, EXTERNAL),
        icmp4(3, 3, bytes(4), router, EXTERNAL),
    ):
        assert nat([there, wrong]).reports["unmapped"] == 1
    stray = icmp4(3, 3, bytes(4) + datagram(FAR, 53, IN, 9)[14:], IN, FAR)
    assert nat([there, stray]).reports["unsupported"] == 1
