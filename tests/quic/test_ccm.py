"""QUIC with AES-128-CCM (RFC 9001, 5.3): connections of aioquic, which does not have it, sealed again.

tshark 4.0 has the suite, but does not give libgcrypt the lengths that CCM needs, and opens none of these packets.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from aioquic._buffer import Buffer
from aioquic.quic.crypto import derive_key_iv_hp
from aioquic.quic.packet import QuicPacketType, pull_quic_header
from aioquic.tls import CipherSuite
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM

from tests.quic.deciphering import IPV4, LABELS, UDP_HEADER, Decipherer
from tests.quic.stacks import quic
from tests.quic.test_traffic import check_all_opened, seen, streams, talk
from tests.quic.traffic import CLIENT, VERSIONS, Traffic, make
from tests.support.packets import eth, ip4, udp

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
    frames: list[bytes] = []
    for frame in traffic.packets:
        data, out = frame[IPV4 + UDP_HEADER :], b""
        by_client = frame[26:30] == CLIENT[0]
        while data and data[0]:
            header = pull_quic_header(Buffer(data=data), host_cid_length=8)
            space, size = (by_client, header.packet_type), header.packet_length
            pair = opener._keys(header, by_client)  # pyright: ignore[reportPrivateUsage]
            at = opener._number_at(data)  # pyright: ignore[reportPrivateUsage]
            plain, payload, number = pair.decrypt_packet(data[:size], at, opener.highest.get(space, -1) + 1)
            opener.highest[space] = max(number, opener.highest.get(space, -1))
            if header.packet_type == QuicPacketType.INITIAL:
                payload = payload if by_client else payload.replace(*SUITES, 1)
                out += pair.recv.encrypt_packet(plain, payload, number)
            else:
                label = f"{'CLIENT' if by_client else 'SERVER'}_{LABELS[header.packet_type]} "
                (line,) = [line for line in traffic.keylog.splitlines() if line.startswith(label)]
                out += sealed(bytes.fromhex(line.split()[2]), version, plain, payload, number)
            data = data[size:]
        ports = int.from_bytes(frame[34:36], "big"), int.from_bytes(frame[36:38], "big")
        frames.append(eth(ip4(udp(*ports, out), 17, frame[26:30], frame[30:34])))
    return frames


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
