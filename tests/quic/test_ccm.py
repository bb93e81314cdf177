"""QUIC with AES-128-CCM (RFC 9001, 5.3): connections of aioquic, which does not have it, sealed again.

tshark 4.0 has the suite, but does not give libgcrypt the lengths that CCM needs, and opens none of these packets.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from aioquic.quic.crypto import derive_key_iv_hp
from aioquic.quic.packet import QuicPacketType
from aioquic.tls import CipherSuite
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM

from tests.quic.deciphering import Decipherer, Opened
from tests.quic.stacks import quic
from tests.quic.test_traffic import check_all_opened, seen, streams, talk
from tests.quic.traffic import VERSIONS, Traffic, make

SUITES = (b"\x13\x01\0", b"\x13\x04\0")
"""The chosen cipher suite, and the method of compression after it."""


def sealed(secret: bytes, version: int, plain: bytes, payload: bytes, number: int) -> bytes:
    """A packet with AES-128-CCM, and its header protected by AES (5.4.3)."""
    key, iv, hp = derive_key_iv_hp(
        cipher_suite=CipherSuite.AES_128_GCM_SHA256, secret=secret, version=VERSIONS[version]
    )
    nonce = (int.from_bytes(iv, "big") ^ number).to_bytes(12, "big")
    text = AESCCM(key, tag_length=16).encrypt(nonce, payload, plain)
    length = (plain[0] & 3) + 1
    mask = Cipher(algorithms.AES(hp), modes.ECB()).encryptor().update(text[4 - length : 20 - length])
    head = bytearray(plain)
    head[0] ^= mask[0] & (0x0F if plain[0] & 0x80 else 0x1F)
    for at in range(length):
        head[len(head) - length + at] ^= mask[1 + at]
    return bytes(head) + text


def resealed(traffic: Traffic, version: int) -> list[bytes]:
    """The frames, with all packets but Initial ones sealed again, and the suite in the ServerHello."""
    opener = Decipherer(traffic.keylog, version)

    def again(packet: Opened) -> bytes:
        plain, payload, number = packet.plain, packet.payload, packet.number
        if packet.kind == QuicPacketType.INITIAL:
            payload = payload if packet.from_client else payload.replace(*SUITES, 1)
            return packet.pair.recv.encrypt_packet(plain, payload, number)
        return sealed(opener.secret(packet.kind, packet.from_client), version, plain, payload, number)

    return [opener.rewritten(frame, again) for frame in traffic.packets]


@pytest.mark.parametrize("version", [1, 2])
def test_streams(version: int, tmp_path: Path) -> None:
    traffic = make(*talk(3000), version=version)
    traffic.packets = resealed(traffic, version)
    result = seen(quic(), traffic, tmp_path)
    assert streams(result) == traffic.sent
    check_all_opened(result)
    altered = [one[:-1] + bytes([one[-1] ^ 1]) if one[42] < 0x80 else one for one in traffic.packets]
    short = sum(one[42] < 0x80 for one in traffic.packets)
    traffic.packets = altered
    result = seen(quic(), traffic, tmp_path)
    assert streams(result) == {} and result.count("quic", "dropped:not authentic") == short > 5
