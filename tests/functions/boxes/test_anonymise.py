"""The laws of anonymise: prefixes are preserved, a key gives one mapping, and no original address remains."""

from __future__ import annotations

import random
from ipaddress import ip_address

import pytest

from sluice.engine.box import RunError
from tests.functions.security import Ran, icmp4, icmp6, run, wrong_checksums
from tests.support.connection import handshake, pair
from tests.support.packets import TCP, UDP, eth, fragments4, fragments6, ip4, ip6, tcp, udp

KEY = "key=correct horse battery"


def anonymise(frames: list[bytes], parameters: str = KEY) -> Ran:
    return run("anonymise", frames, parameters, rows=False)


def mapping(addresses: list[bytes], parameters: str = KEY) -> dict[bytes, bytes]:
    """What each address becomes, as a source."""
    fixed = bytes([192, 0, 2, 1]) if len(addresses[0]) == 4 else bytes(15) + b"\1"
    pack = ip4 if len(addresses[0]) == 4 else ip6
    frames = [eth(pack(udp(1, 2), UDP, address, fixed)) for address in addresses]
    at = 26 if len(addresses[0]) == 4 else 22
    left = anonymise(frames, parameters).left
    assert len(left) == len(frames)
    return {address: frame[at : at + len(address)] for address, frame in zip(addresses, left, strict=True)}


def common(a: bytes, b: bytes) -> int:
    """The length of the common prefix, in bits."""
    return 8 * len(a) - (int.from_bytes(a, "big") ^ int.from_bytes(b, "big")).bit_length()


@pytest.mark.parametrize("size", [4, 16])
def test_prefixes_are_preserved(size: int) -> None:
    choose = random.Random(size)
    addresses = [choose.randbytes(size) for _ in range(20)]
    for bit in range(0, 8 * size, 3):  # neighbours that differ first in this bit
        number = int.from_bytes(addresses[0], "big") ^ (1 << bit) ^ choose.randrange(1 << bit)
        addresses.append(number.to_bytes(size, "big"))
    mapped = mapping(addresses)
    assert len(set(mapped.values())) == len(set(addresses))
    for a in addresses:
        for b in addresses:
            assert common(mapped[a], mapped[b]) == common(a, b), (ip_address(a), ip_address(b))


def test_a_key_gives_one_mapping() -> None:
    addresses = [bytes([10, 0, n, 7]) for n in range(30)]
    assert mapping(addresses) == mapping(addresses[::-1]) == mapping(addresses, KEY + ",payload=keep")
    other = mapping(addresses, "key=another secret, longer")
    assert all(mapping(addresses)[address] != other[address] for address in addresses)


SECRET4, OTHER4 = bytes([203, 7, 113, 9]), bytes([198, 18, 77, 201])
SECRET6, OTHER6 = bytes.fromhex("20014dcb0077abcd0123456789abcdef"), bytes.fromhex("20014dcb00779999feedfacecafebeef")
MAC = bytes.fromhex("020000000001")
SECRETS = [SECRET4, OTHER4, SECRET6, OTHER6, MAC, bytes.fromhex("020000000002"), SECRET6[8:], OTHER6[8:]]


def hidden() -> list[bytes]:
    """Packets with addresses at every place that is known to hold some."""
    inside = udp(5, 6, SECRET4 + OTHER6 + b"203.7.113.9")
    four, six = ip4(inside, UDP, SECRET4, OTHER4), ip6(inside, UDP, SECRET6, OTHER6)
    mptcp = bytes([30, 8, 0x31, 0]) + SECRET4
    arp = b"\0\1\x08\0\6\4\0\1" + MAC + SECRET4 + MAC + OTHER4
    record = bytes([7, 11, 12]) + SECRET4 + OTHER4 + b"\0"
    router = b"\0\x06\x04\0\0\0\0\0" + SECRET6
    home = b"\x11\2\1\4\0\0\0\0\xc9\x10" + SECRET6[:14] + SECRET6[14:] + bytes(4)
    solicited = bytes(4) + SECRET6 + b"\1\1" + MAC
    return [
        eth(four),
        eth(six),
        eth(ip4(four, 4, OTHER4, SECRET4)),
        eth(ip6(six, 41, OTHER6, SECRET6)),
        eth(ip4(bytes(4) + four, 47, SECRET4, OTHER4)),
        eth(ip4(tcp(1, 2, 3, "S", b"", options=mptcp + b"\2\4\5\xb4"), TCP, SECRET4, OTHER4)),
        eth(ip4(inside, UDP, SECRET4, OTHER4, options=record)),
        MAC + MAC + b"\x08\x06" + arp,
        MAC + MAC + b"\x81\0\0\7\x08\x06" + arp,
        eth(four) + SECRET4,
        eth(four, 5, 6),
        icmp4(3, 1, bytes(4) + four, OTHER4, SECRET4),
        icmp4(5, 0, SECRET4 + four, OTHER4, SECRET4),
        icmp4(9, 0, b"\1\2\0\1" + SECRET4, SECRET4, OTHER4),
        icmp4(8, 0, b"\0\1\0\2" + SECRET4, SECRET4, OTHER4),
        icmp6(1, 0, bytes(4) + six, OTHER6, SECRET6),
        icmp6(135, 0, solicited, SECRET6, OTHER6),
        icmp6(137, 0, bytes(4) + SECRET6 + OTHER6, SECRET6, OTHER6),
        icmp6(131, 0, bytes(4) + SECRET6, SECRET6, OTHER6),
        icmp6(143, 0, bytes(4) + SECRET6, SECRET6, OTHER6),
        eth(ip6(b"\x11\2" + router[2:] + b"" + inside, 43, SECRET6, OTHER6)),
        eth(ip6(home + inside, 60, SECRET6, OTHER6)),
        *fragments4(inside, 8, 16, protocol=UDP, src=SECRET4, dst=OTHER4),
        *fragments6(inside, 8, 16, protocol=UDP, src=SECRET6, dst=OTHER6),
        eth(ip4(SECRET4 * 5, 89, SECRET4, OTHER4)),
        MAC + MAC + b"\x88\xcc" + SECRET4,
        MAC,
        eth(b"\x45" + SECRET4),
        eth(four[:18]),
        eth(four[:30]),
        eth(six[:39]),
    ]


def test_no_original_address_remains() -> None:
    frames = hidden()
    for parameters in (KEY, KEY + ",macs=zero"):
        ran = anonymise(frames, parameters)
        assert ran.reports["anonymise_packets"] + ran.reports["anonymise_dropped"] == len(frames)
        assert ran.reports["anonymise_not_written"] == 0
        for frame in ran.left:
            for secret in SECRETS:
                assert secret not in frame, (secret, frame.hex())
    choose = random.Random(7)
    for _ in range(30):  # cut ones
        some = [frame[: choose.randrange(1, len(frame) + 1)] for frame in frames]
        for frame in anonymise(some).left:
            assert not any(secret in frame for secret in (SECRET4, OTHER4, SECRET6, OTHER6)), frame.hex()


def test_checksums_and_lengths_remain() -> None:
    client, server = pair(checksums=True)
    frames = [*handshake(client, server), client.data(b"secret" * 20)]
    six, there = pair(version=6, checksums=True)
    frames += [*handshake(six, there), six.data(b"odd")]
    frames += [icmp4(8, 0, b"\0\1\0\2data", SECRET4, OTHER4), icmp6(129, 0, b"\0\1\0\2data", SECRET6, OTHER6)]
    frames += [icmp4(3, 1, bytes(4) + frames[0][14:], OTHER4, SECRET4)]
    left = anonymise(frames).left
    assert [len(frame) for frame in left] == [len(frame) for frame in frames]
    assert not any(map(wrong_checksums, left))
    assert left[3][34:46] == frames[3][34:46] and left[3][54:] == bytes(120)  # ports and numbers; the payload
    assert "ip" not in wrong_checksums(eth(left[-1][42:]))  # the quoted header
    kept = anonymise(frames, KEY + ",payload=keep").left
    assert kept[3].endswith(b"secret") and not any(map(wrong_checksums, kept))
    assert {frame[:6] for frame in left} == {left[0][:6]} and left[0][0] & 3 == 2


def test_no_checksum_over_original_addresses_remains() -> None:
    """Of a datagram in fragments and of a quoted one, the sum is not updated, and would be one over the addresses."""
    client, _ = pair(checksums=True)
    six, _ = pair(version=6, checksums=True)
    syn, syn6 = client.send("S"), six.send("S")
    datagram = udp(1, 2, bytes(64))[:6] + b"\x12\x34" + bytes(64)
    frames = [icmp4(3, 1, bytes(4) + syn[14:], OTHER4, SECRET4), icmp6(1, 0, bytes(4) + syn6[14:], OTHER6, SECRET6)]
    frames += [icmp4(11, 0, bytes(4) + ip4(datagram, UDP, SECRET4, OTHER4)[:28], OTHER4, SECRET4)]
    frames += [fragments4(datagram, 32, protocol=UDP)[0], fragments6(datagram, 32, protocol=UDP)[0]]
    for parameters in (KEY, KEY + ",payload=keep"):
        left = anonymise(frames, parameters).left
        places = (42 + 20 + 16, 62 + 40 + 16, 42 + 20 + 6, 34 + 6, 54 + 8 + 6)
        assert [frame[at : at + 2] for frame, at in zip(left, places, strict=True)] == [bytes(2)] * 5
        assert all(frame[at : at + 2] != bytes(2) for frame, at in zip(frames, places, strict=True))
        assert not any(map(wrong_checksums, left[:3]))


def test_parameters_are_checked() -> None:
    for given in ("key=short", "", KEY + ",payload=some", KEY + ",macs=keep", "key_file=/nowhere/key"):
        with pytest.raises(RunError):
            anonymise([], given)


def siphash(key: bytes, data: bytes) -> int:
    """SipHash-2-4 (Aumasson, Bernstein, 2012)."""
    low, high = (int.from_bytes(key[at : at + 8], "little") for at in (0, 8))
    v = [low ^ 0x736F6D6570736575, high ^ 0x646F72616E646F6D, low ^ 0x6C7967656E657261, high ^ 0x7465646279746573]

    def turn(x: int, bits: int) -> int:
        return (x << bits | x >> 64 - bits) & 0xFFFFFFFFFFFFFFFF

    def rounds(count: int) -> None:
        for _ in range(count):
            for a, b, c, d, first, second in ((0, 1, 2, 3, 13, 16), (2, 1, 0, 3, 17, 21)):
                v[a] = (v[a] + v[b]) & 0xFFFFFFFFFFFFFFFF
                v[b] = turn(v[b], first) ^ v[a]
                v[a] = turn(v[a], 32)
                v[c] = (v[c] + v[d]) & 0xFFFFFFFFFFFFFFFF
                v[d] = turn(v[d], second) ^ v[c]

    whole = data + bytes(7 - len(data) % 8) + bytes([len(data) & 255])
    for at in range(0, len(whole), 8):
        word = int.from_bytes(whole[at : at + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 255
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def defined(key: bytes, address: bytes) -> bytes:
    """The mapping by its definition: a bit changes if the keyed hash of those before it is odd."""
    bits, prefix = int.from_bytes(address, "big"), 0
    for place in range(8 * len(address)):
        bit = 1 << 8 * len(address) - 1 - place
        data = prefix.to_bytes(len(address), "big").ljust(16, b"\0") + bytes([len(address), place])
        prefix |= int.from_bytes(address, "big") & bit
        bits ^= bit * (siphash(key, data) & 1)
    return bits.to_bytes(len(address), "big")


@pytest.mark.parametrize("size", [4, 16])
def test_caches_of_prefixes_change_nothing(size: int) -> None:
    """Addresses that have prefixes of any length in common, in any order."""
    text = KEY.removeprefix("key=").encode()
    halves = [siphash(b"sluice-anonymis" + bytes([half]), text) for half in (0, 1)]
    key = b"".join(half.to_bytes(8, "big") for half in halves)
    dice = random.Random(size)
    base = dice.randbytes(size)
    addresses = [base[:cut] + dice.randbytes(size - cut) for cut in range(size) for _ in range(6)]
    dice.shuffle(addresses)
    assert mapping(addresses) == {address: defined(key, address) for address in addresses}
