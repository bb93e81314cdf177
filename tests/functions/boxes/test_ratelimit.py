"""What ratelimit drops: packets and bytes beyond a rate, by key, against a bucket written out."""

from __future__ import annotations

import random

import pytest

from sluice.engine.box import RunError
from tests.functions.security import icmp4, run
from tests.support.connection import Host, handshake, pair
from tests.support.packets import A4, B4, eth, fragments4, ip4, udp


def datagram(src: bytes = A4, dst: bytes = B4, size: int = 72, port: int = 53) -> bytes:
    return eth(ip4(udp(1000, port, bytes(size)), 17, src, dst))


def bucket(times: list[float], costs: list[int], rate: float, burst: float) -> list[bool]:
    """Which of some packets a token bucket lets pass."""
    tokens, last, found = burst, times[0], list[bool]()
    for time, cost in zip(times, costs, strict=True):
        tokens = min(burst, tokens + (time - last) * rate)
        last = time
        found.append(tokens >= cost - 1e-6)
        tokens -= cost * found[-1]
    return found


def test_packets_per_second_of_a_source() -> None:
    choose = random.Random(1)
    times = [1000.0]
    while len(times) < 200:
        times.append(round(times[-1] + choose.choice([0.001, 0.02, 0.5, 0.013]), 6))
    frames = [datagram(port=53 + n % 7) for n in range(200)]
    expected = bucket(times, [1] * 200, 8, 12)
    ran = run("ratelimit", frames, "packets=8,burst=1.5", times=times)
    assert ran.left == [frame for frame, fits in zip(frames, expected, strict=True) if fits]
    assert ran.reports["ratelimit_dropped"] == expected.count(False) > 10


def test_bytes_per_second() -> None:
    sizes = [72, 1372, 500, 72, 1372, 1372, 10, 700] * 12
    times = [1000 + 0.02 * n for n in range(len(sizes))]
    frames = [datagram(size=size) for size in sizes]
    expected = bucket(times, [size + 28 for size in sizes], 20_000, 4000)
    ran = run("ratelimit", frames, "bytes=20000,burst=0.2", times=times)
    assert ran.left == [frame for frame, fits in zip(frames, expected, strict=True) if fits]
    dropped = sum(size + 28 for size, fits in zip(sizes, expected, strict=True) if not fits)
    assert ran.reports["ratelimit_dropped_bytes"] == dropped > 0


def test_a_packet_that_is_dropped_takes_nothing_from_the_other_bucket() -> None:
    frames = [datagram(size=1400), datagram(size=1400), datagram(size=10)]
    assert run("ratelimit", frames, "bytes=100,packets=2,burst=1").left == [frames[0], frames[2]]


def test_keys() -> None:
    c4 = bytes([10, 0, 0, 3])
    frames = [datagram(), datagram(port=54), datagram(c4, B4), datagram(A4, c4), datagram(B4, A4), datagram()]
    assert run("ratelimit", frames, "key=src,packets=1").left == [frames[0], frames[2], frames[4]]
    assert run("ratelimit", frames, "key=dst,packets=1").left == [frames[0], frames[3], frames[4]]
    assert run("ratelimit", frames, "key=flow,packets=1").left == frames[:5]
    client, server = pair()
    there, back, last = handshake(client, server)
    assert run("ratelimit", [there, back, last], "key=flow,packets=1").left == [there, back]
    pings = [icmp4(8, 0, b"\0\1\0\1", A4, B4), icmp4(8, 0, b"\0\2\0\1", A4, B4)]
    assert run("ratelimit", [*pings, datagram()], "packets=1").left == pings[:1]


def test_rows_and_what_has_no_key() -> None:
    tunnel = eth(ip4(ip4(udp(1, 2, b"x"), 17, B4, A4), 4))
    bad = eth(ip4(udp(1, 2, bytes(8))[:4] + b"\0\3" + bytes(10), 17))
    frames = [datagram() for _ in range(5)] + [tunnel, bad]
    ran = run("ratelimit", frames, "packets=1")
    assert [(row["ratelimit"], row["src"], row["packet"]) for row in ran.rows] == [("src", "10.0.0.1", 2)]
    assert ran.reports["ratelimit_no_key"] == 1
    ran = run("ratelimit", [datagram() for _ in range(4)], "packets=1,burst=0", times=[1000, 1000.1, 1004, 1004.2])
    assert [row["packet"] for row in ran.rows] == [2, 4] and len(ran.left) == 2


def test_fragments_count_as_their_datagram() -> None:
    cut = fragments4(udp(1000, 53, bytes(800)), 400, protocol=17)
    ran = run("ratelimit", [datagram(), *cut], "packets=1")
    assert ran.left == [datagram(), cut[0]] and ran.reports["ratelimit_dropped_bytes"] == 828


def test_buckets_are_given_up_with_their_flows() -> None:
    many = [datagram(bytes([10, 1, n // 250, n % 250 + 1])) for n in range(500)]
    ran = run("ratelimit", [*many, datagram(), datagram()], "packets=1", times=[*([1000.0] * 500), 5000.0, 5000.0])
    assert ran.reports["ratelimit_no_room"] == 0 and ran.reports["ratelimit_passed"] == 501


def test_buckets_of_flows_that_ended_early_give_room() -> None:
    """A sender that forges addresses does not end the limits of others for ever."""
    frames: list[bytes] = []
    for n in range(300):
        forged = Host(bytes([10, 1, n // 250, n % 250 + 1]), 1000 + n, 5, peer=Host(B4, 80, 7))
        frames += [forged.send("S"), forged.send("R")]
    times = [1000 + 0.0001 * n for n in range(600)]
    for n in range(40):
        frames += 2 * [datagram(bytes([10, 9, 0, n + 1]))]
        times += [9000.0 + 100 * n] * 2
    ran = run("ratelimit", frames, "packets=1", times=times, most=64)
    assert [frame for frame in ran.left if frame[28] == 0 and frame[27] == 9] == frames[600::2]


def test_parameters_are_checked() -> None:
    for given in ("packets=0", "key=port,packets=1", "packets=1,burst=2000000"):
        with pytest.raises(RunError):
            run("ratelimit", [datagram()], given)
