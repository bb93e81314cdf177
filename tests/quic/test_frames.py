"""Frames of every type, one after the other in a packet (RFC 9000, 19), in a trace that is in the clear."""

from __future__ import annotations

import pytest

from tests.differential.both import Packet, assert_same
from tests.quic.stacks import compared_deciphered, deciphered
from tests.quic.traffic import CLIENT, SERVER
from tests.support.packets import eth, ip4, udp
from tests.support.run import Result, run

FRAMES = {
    "ping": "01",
    "ack": "02 4064 00 02 03 01 02 05 06",
    "ack with ecn": "03 0a 00 00 03 01 02 4403",
    "reset_stream": "04 08 4001 80010000",
    "stop_sending": "05 08 4001",
    "crypto": "06 00 03 616263",
    "new_token": "07 04 01020304",
    "stream": "0f 04 00 03 313233",
    "stream without a length of its own, at an offset of 0": "0a 10 02 3435",
    "max_data": "10 c000000100000000",
    "max_stream_data": "11 04 8000ffff",
    "max_streams": "12 40ff",
    "max_streams of one way": "13 40ff",
    "data_blocked": "14 05",
    "stream_data_blocked": "15 04 05",
    "streams_blocked": "16 05",
    "streams_blocked of one way": "17 05",
    "new_connection_id": "18 01 00 08 6162636465666768 000102030405060708090a0b0c0d0e0f",
    "new_connection_id of a middle length": "18 02 00 06 616263646566 000102030405060708090a0b0c0d0e0f",
    "new_connection_id that is short": "18 02 00 03 616263 000102030405060708090a0b0c0d0e0f",
    "retire_connection_id": "19 00",
    "path_challenge": "1a 0102030405060708",
    "path_response": "1b 0102030405060708",
    "connection_close": "1c 0a 06 03 627965",
    "connection_close by the application": "1d 4100 02 6f6b",
    "handshake_done": "1e",
    "datagram with a length": "31 03 787979",
    "padding": "00",
}


def packet(frames: bytes, number_length: int = 1) -> bytes:
    """An Initial packet of version 1 as it was before its protection."""
    rest = bytes(number_length) + frames
    length = (0x4000 | len(rest)).to_bytes(2, "big")
    head = bytes([0xC0 | number_length - 1]) + b"\0\0\0\1" + b"\x08abcdefgh" + b"\x08ABCDEFGH" + b"\0" + length
    return eth(ip4(udp(CLIENT[1], SERVER[1], head + rest), 17, CLIENT[0], SERVER[0]))


def seen(*packets: bytes) -> Result:
    assert_same(compared_deciphered(), [Packet(data, n) for n, data in enumerate(packets)])
    return run(deciphered(), packets)


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_ends_where_the_next_one_begins(name: str) -> None:
    frame = bytes.fromhex(FRAMES[name])
    result = seen(packet(b"\x01" + frame + b"\x01"), packet(frame, 4))
    assert result.count("quic_frame", "packets") == 4
    assert result.count("quic_frame", "bytes:lost") == 0
    assert result.count("quic_frame", "malformed:frame type") == 0


def test_all_of_them_in_one_packet() -> None:
    result = seen(packet(b"".join(map(bytes.fromhex, FRAMES.values()))))
    assert result.count("quic_frame", "packets") == len(FRAMES)
    assert result.count("quic_frame", "list broken") == 0
    assert sorted(e.bytes for e in result.named("data") if e.layer == "quic_stream") == [b"123", b"45"]


@pytest.mark.parametrize("frame", ["08 04 6162", "30 6162"])
def test_frames_that_go_to_the_end_of_the_packet(frame: str) -> None:
    result = seen(packet(b"\x01" + bytes.fromhex(frame) + b"\x01\x01"))
    assert result.count("quic_frame", "packets") == 2


@pytest.mark.parametrize(("frame", "malformed"), [("1f 01 01", 1), ("4001 01", 1), ("06 00 44ff 61", 0), ("18 01", 0)])
def test_what_is_no_frame_ends_the_packet(frame: str, malformed: int) -> None:
    """Of an unknown type the rest is one malformed frame; what is too short is lost."""
    data = bytes.fromhex(frame)
    result = seen(packet(b"\x01" + data))
    assert result.count("quic_frame", "malformed:frame type") == malformed
    assert result.count("quic_frame", "bytes:lost") == (0 if malformed else len(data))


def test_an_ack_that_claims_more_ranges_than_there_are() -> None:
    result = seen(packet(bytes.fromhex("02 05 00 bfffffff 00 01 02")))
    assert result.count("quic_frame", "list broken") == 1
