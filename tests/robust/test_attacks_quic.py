"""Attacks on the cost of a packet of QUIC, by packets that anyone can make, some beside a good connection: what is too
much is counted, and the good connection keeps its bytes.
"""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest

from sluice.engine.box import Settings
from sluice.stacks.find import find_stack
from tests.support.packets import A4, eth, ip4, udp
from tests.support.run import Result, run, watch_all
from tests.support.unoptimised import unoptimised

pytest.importorskip("aioquic")

from aioquic.quic.crypto import CryptoPair
from aioquic.quic.packet import QuicProtocolVersion

from tests.quic.test_traffic import streams, talk
from tests.quic.traffic import make


def initial(connection: bytes, size: int = 24) -> bytes:
    """An Initial packet of QUIC version 1 that nothing opens."""
    body = bytes(range(4)) + bytes(size)
    head = b"\xc3\0\0\0\1" + bytes([len(connection)]) + connection + b"\0\0"
    return head + (0x4000 | len(body)).to_bytes(2, "big") + body


def quic_run(packets: list[bytes], folder: Path, keys: str, **bounds: Any) -> Result:
    (folder / "keys").write_text(keys)
    with unoptimised():
        made = watch_all(find_stack("quic"))
    natives = {"keylog": str(folder / "keys")}
    return run(made, packets, settings=Settings(seed=1, max_instances=1 << 12, natives=natives, **bounds))


def test_coalesced_quic_initials_beside_a_good_connection(tmp_path: Path) -> None:
    """Of 25 Initial packets of a datagram three are tried; the streams of the good connection are all there."""
    good = make(*talk(1500))
    chance = random.Random(3)
    packets: list[bytes] = []
    for number, frame in enumerate(good.packets):
        packets.append(frame)
        datagram = b"".join(initial(chance.randbytes(8)) for _ in range(25))
        packets.append(eth(ip4(udp(2000 + number % 50, 443, datagram), 17, bytes([10, 9, 9, 9]), bytes([10, 9, 9, 8]))))
    attacks = len(good.packets)
    result = quic_run(packets, tmp_path, good.keylog, bundle=16)
    assert streams(result) == good.sent
    assert result.count("quic", "lost:bundle") == attacks
    result = quic_run(packets, tmp_path, good.keylog, bundle=100)
    assert streams(result) == good.sent
    assert result.count("quic", "dropped:too many that cannot be opened") == 22 * attacks
    assert result.count("quic", "dropped:no key") <= 3 * attacks


def test_derivations_of_keys_are_bounded_on_average(tmp_path: Path) -> None:
    """Beyond those that are saved, Initial packets derive keys for some of them; others are dropped and counted.
    A connection that began before loses nothing.
    """
    good = make(*talk(1500))
    frames, saved, rest = [bytes(packet) for packet in good.packets], 32768 // 64, 800
    flood = [
        eth(ip4(udp(1 + number % 60000, 443, initial(number.to_bytes(8, "big"))), 17, number.to_bytes(4, "big")))
        for number in range(saved + rest)
    ]
    result = quic_run([*frames[:10], *flood, *frames[10:]], tmp_path, good.keylog, derivations=1)
    assert streams(result) == good.sent
    denied = result.count("quic", "dropped:too many derivations of keys")
    assert 0.9 * rest < denied < rest  # 64 packets earn one
    assert result.count("quic", "dropped:no key") == len(flood) - denied


def test_handshakes_of_short_connections_in_a_row_lose_nothing(tmp_path: Path) -> None:
    """Handshakes of six Initial packets in connections of 15 packets, more than what is saved suffices for alone."""
    connection = bytes(range(8))
    pairs: list[CryptoPair] = []
    for client in (True, False):
        pair = CryptoPair()
        pair.setup_initial(connection, is_client=client, version=QuicProtocolVersion.VERSION_1)
        pairs.append(pair)

    def packet(side: int, number: int) -> bytes:
        to = connection if side == 0 else b"client99"
        head = b"\xc0\0\0\0\1\x08" + to + b"\0\0" + (0x4000 | 24 + 17).to_bytes(2, "big") + bytes([number])
        return pairs[side].encrypt_packet(head, b"\x01" + bytes(23), number)

    sides = (0, 0, 1, 1, 0, 1)
    datagrams = [(side, packet(side, sides[:at].count(side))) for at, side in enumerate(sides)]
    datagrams += [(at % 2, b"\x41" + (b"client99" if at % 2 else connection) + bytes(30)) for at in range(9)]
    packets: list[bytes] = []
    for number in range(3000):
        ends = (A4, (0x0A000000 + number).to_bytes(4, "big"))
        for side, datagram in datagrams:
            ports = (443, 2000) if side else (2000, 443)
            packets.append(eth(ip4(udp(*ports, datagram), 17, ends[1 - side], ends[side])))
    result = quic_run(packets, tmp_path, "")
    assert result.count("quic", "dropped:too many derivations of keys") == 0
    assert result.count("quic_frame", "packets") >= 6 * 3000


def sealed(frames: bytes, number: int) -> bytes:
    """An Initial packet of another connection that its connection id opens, as anyone can make it."""
    connection, body = number.to_bytes(8, "big"), frames + bytes(max(0, 24 - len(frames)))
    head = b"\xc0\0\0\0\1\x08" + connection + b"\0\0" + (0x4000 | len(body) + 17).to_bytes(2, "big") + b"\0"
    pair = CryptoPair()
    pair.setup_initial(connection, is_client=True, version=QuicProtocolVersion.VERSION_1)
    return pair.encrypt_packet(head, body, 0)


def test_frames_with_handshake_messages_are_bounded_on_average(tmp_path: Path) -> None:
    """Of many CRYPTO frames with a message each, only their packet earns further ones."""
    each, saved, count = 100, 8192, 130
    frames = b"".join(b"\x06" + (0x4000 | 4 * at).to_bytes(2, "big") + b"\4\x18\0\0\0" for at in range(each))
    packets = [eth(ip4(udp(2000 + number, 443, sealed(frames, number)), 17)) for number in range(count)]
    result = quic_run(packets, tmp_path, "", bundle_mean=1)
    assert saved / 2 < result.count("tls_handshake", "packets") < saved
    assert result.count("quic_frame", "lost:bundle") > 0


def test_initial_packets_have_no_streams(tmp_path: Path) -> None:
    """RFC 9000, 12.4: a packet that anyone can make begins none."""
    frames = [b"\x0a" + bytes([stream]) + b"\0" for stream in range(60)]
    packets = [eth(ip4(udp(2000 + number, 443, sealed(b"\x01" + b"".join(frames), number)), 17)) for number in range(4)]
    result = quic_run(packets, tmp_path, "")
    assert result.count("quic_frame", "malformed:frame type in such a packet") == 4  # the rest of each
    assert result.count("quic_stream", "packets") == 0
    allowed = [b"\x01", b"\x02\0\0\0\0", b"\x03" + bytes(7), b"\x06\0\1a", b"\x1c\0\0\0"]
    result = quic_run([eth(ip4(udp(2000, 443, sealed(b"".join(allowed), 7)), 17))], tmp_path, "")
    assert result.count("quic_frame", "packets") == len(allowed) + 1  # and padding


def test_the_memory_of_a_key_log_is_within_that_of_the_box(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Half of --memory at most; secrets beyond are counted. Those before, and the packets, lose nothing."""
    good = make(*talk(1500))
    others = "".join(f"CLIENT_TRAFFIC_SECRET_0 {number:064x} {number:064x}\n" for number in range(5000))
    result = quic_run(good.packets, tmp_path, good.keylog + others, memory=1 << 20)
    assert streams(result) == good.sent
    found = re.search(r"(\d+) secrets were not stored for want of memory", capfd.readouterr().err)
    assert found is not None
    assert 3000 < int(found[1]) < 4000  # an entry has 33 bytes and six secrets of up to 48
