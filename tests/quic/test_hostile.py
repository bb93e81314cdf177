"""What hostile ends and the network may send: all of it counted, none of it believed; both ways of running agree."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from sluice.engine.box import Box, CompiledStack, RunError, Settings
from tests.differential.both import Packet, assert_same
from tests.quic import stacks
from tests.quic.stacks import compared_quic
from tests.quic.test_traffic import streams, talk
from tests.quic.traffic import CLIENT, MOVED, SERVER, Link, Traffic, make
from tests.support.packets import eth, ip4, udp
from tests.support.run import Result, run


@pytest.fixture(scope="module")
def traffic() -> Traffic:
    return make(*talk(1500), link=Link(late=0.2))


@pytest.fixture(scope="module")
def quic() -> CompiledStack:
    return stacks.quic()


def settings(folder: Path, traffic: Traffic, **more: Any) -> Settings:
    path = folder / "keys"
    path.write_text(traffic.keylog)
    return Settings(**{"seed": 1, "max_instances": 1 << 12, **more}, natives={"keylog": str(path)})


def datagram(data: bytes, source: tuple[bytes, int] = CLIENT, target: tuple[bytes, int] = SERVER) -> bytes:
    return eth(ip4(udp(source[1], target[1], data), 17, source[0], target[0]))


def dropped(result: Result, reason: str) -> int:
    return result.count("quic", f"dropped:{reason}")


@pytest.mark.parametrize("seed", range(3))
def test_altered_packets(seed: int, traffic: Traffic, tmp_path: Path) -> None:
    """Bytes changed, cut off, also by the snap length, packets repeated: interpreter and compiled code do the same."""
    made = compared_quic()
    rnd = random.Random(seed)
    packets: list[Packet] = []
    for number, data in enumerate(traffic.packets[:70]):
        copy = bytearray(data)
        length = len(copy)
        match rnd.randrange(6):
            case 0:
                for _ in range(rnd.randrange(1, 4)):
                    copy[rnd.randrange(42, length)] = rnd.randrange(256)
            case 1:
                del copy[rnd.randrange(43, length) :]
            case 2:
                packets.append(Packet(bytes(copy), number))
            case _:
                pass
        length = len(copy) + (rnd.randrange(99) if rnd.random() < 0.1 else 0)
        packets.append(Packet(bytes(copy), number, length=length))
    assert_same(made, packets, settings(tmp_path, traffic))
    assert_same(made, packets, settings(tmp_path, traffic, max_instances=3, idle=1e-8))


def test_what_is_forged_changes_nothing(traffic: Traffic, quic: CompiledStack, tmp_path: Path) -> None:
    """Between all packets others of the same addresses that nobody sealed: what is delivered is what was sent."""
    rnd = random.Random(7)
    packets: list[bytes] = []
    for packet in traffic.packets:
        packets.append(packet)
        forged = bytearray(packet)
        for at in range(len(forged) - 30, len(forged)):
            forged[at] = rnd.randrange(256)
        packets.append(bytes(forged))
    result = run(quic, packets, settings=settings(tmp_path, traffic))
    assert streams(result) == traffic.sent
    assert dropped(result, "not authentic") >= len(traffic.packets) - 5


def test_a_forged_id_takes_no_connection_away(traffic: Traffic, quic: CompiledStack, tmp_path: Path) -> None:
    """A long header that claims the server's id from elsewhere is not authentic: later packets are not the forger's."""
    server_id = next(packet for packet in traffic.packets if packet[26:30] == SERVER[0])[42 + 15 : 42 + 23]
    claim = b"\xe0\0\0\0\1" + b"\0" + bytes([8]) + server_id + b"\x40\x28" + bytes(40)
    packets = [*traffic.packets[:20], datagram(claim, MOVED), *traffic.packets[20:]]
    result = run(quic, packets, settings=settings(tmp_path, traffic))
    assert streams(result) == traffic.sent
    assert result.count("quic", "aliases:evicted") == 0


REASONS = {
    "no connection": b"\x40" + bytes(40),
    "too short": b"\xc0\0\0\0\1\x08abcdefgh\0\0\x05" + b"12345",
    "unknown version": b"\xc0\xff\0\0\x05\x08abcdefgh\0\0\x40\x64" + bytes(100),
    "no key": b"\xc0\0\0\0\1\x08abcdefgh\0\0\x40\x64" + bytes(100),
}


@pytest.mark.parametrize("reason", REASONS)
def test_reasons(reason: str, quic: CompiledStack) -> None:
    result = run(quic, [datagram(REASONS[reason])])
    assert dropped(result, reason) == 1


def test_a_packet_that_the_snap_length_cut(traffic: Traffic, quic: CompiledStack) -> None:
    whole = traffic.packets[0]
    result = run(quic, [(whole[:300], len(whole))])
    assert dropped(result, "cut by the snap length") == 1


def test_many_connections_at_the_bound_of_memory(quic: CompiledStack) -> None:
    """What the module stores for connections is memory of the box: beyond it, those that were used longest ago end."""
    packets = [datagram(REASONS["no key"], (bytes([10, 1, n >> 8, n & 255]), 1000)) for n in range(400)]
    result = run(quic, packets, settings=Settings(seed=1, memory=1 << 18, max_instances=1 << 12))
    assert result.counters["box"]["contexts given up"] > 100
    assert dropped(result, "no key") + dropped(result, "no memory") == 400


@pytest.mark.parametrize(
    "text", ["", "CLIENT_RANDOM 12\n", "CLIENT_TRAFFIC_SECRET_0 00 zz\n" * 9, "x" * 5000, "\0\n" * 999]
)
def test_a_key_log_of_rubbish(text: str, traffic: Traffic, quic: CompiledStack, tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(text + "\n" + traffic.keylog)
    made = Settings(seed=1, natives={"keylog": str(path)})
    assert streams(run(quic, traffic.packets, settings=made)) == traffic.sent


def test_a_key_log_that_is_not_there(quic: CompiledStack, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(RunError):
            Box(quic, Settings(natives={"keylog": str(path)}))
        assert str(path) in capfd.readouterr().err
