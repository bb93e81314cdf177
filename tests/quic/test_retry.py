"""Retry packets: believed is what by its integrity tag answers the client (RFC 9001, 5.8; RFC 9369, 3.3.3)."""

from __future__ import annotations

from pathlib import Path

import pytest
from aioquic.quic.packet import encode_quic_retry

from sluice.engine.box import CompiledStack, Settings
from tests.differential.both import Packet, assert_same
from tests.quic import stacks
from tests.quic.stacks import compared_quic
from tests.quic.test_hostile import datagram
from tests.quic.test_traffic import check_all_opened, streams, talk
from tests.quic.traffic import CLIENT, SERVER, Traffic, make
from tests.support.run import Result, run

NUMBERS = {1: 1, 2: 0x6B3343CF}
OWN = b"retryid1"
"""The id that the server of the traffic takes in its Retry."""


@pytest.fixture(scope="module")
def quic() -> CompiledStack:
    return stacks.quic()


@pytest.fixture(scope="module", params=NUMBERS)
def traffic(request: pytest.FixtureRequest) -> Traffic:
    return make(*talk(300), retry=True, version=request.param)


def retry(of: Traffic, answered: bytes | None = None, token: bytes = b"a token", own: bytes = OWN) -> bytes:
    """What answers the first packet of the traffic, or one that was sent to the id `answered`."""
    initial = of.packets[0][42:]
    target, source = initial[6 : 6 + initial[5]], initial[7 + initial[5] :][: initial[6 + initial[5]]]
    return encode_quic_retry(
        version=int.from_bytes(initial[1:5], "big"),
        source_cid=own,
        destination_cid=source,
        original_destination_cid=target if answered is None else answered,
        retry_token=token,
    )


def from_server(packet: bytes) -> bytes:
    return datagram(packet, SERVER, CLIENT)


def seen(quic: CompiledStack, packets: list[bytes], of: Traffic, folder: Path) -> Result:
    """What the stack makes of them; the interpreter agrees."""
    path = folder / "keys"
    path.write_text(of.keylog)
    settings = Settings(seed=1, max_instances=1 << 12, natives={"keylog": str(path)})
    assert_same(compared_quic(), [Packet(packet, n) for n, packet in enumerate(packets)], settings)
    return run(quic, packets, settings=settings)


def refused(result: Result) -> int:
    return result.count("quic", "dropped:wrong integrity tag")


def test_the_one_that_was_sent(traffic: Traffic, quic: CompiledStack, tmp_path: Path) -> None:
    """The traffic has what is made here; it and a copy that comes late are believed."""
    own = from_server(retry(traffic))
    at = [packet[42:] for packet in traffic.packets].index(own[42:])
    packets = [*traffic.packets, own]
    packets.insert(at + 4, own)
    result = seen(quic, packets, traffic, tmp_path)
    assert streams(result) == traffic.sent
    check_all_opened(result)


FORGED = {
    "another id was answered": lambda of: retry(of, answered=b"anything"),
    "no id was answered": lambda of: retry(of, answered=b""),
    "a byte of the token": lambda of: retry(of)[:-20] + b"?" + retry(of)[-19:],
    "a byte of the tag": lambda of: retry(of)[:-1] + bytes([retry(of)[-1] ^ 1]),
    "no token": lambda of: retry(of, token=b"")[:-16] + bytes(16),
    "shorter than a tag": lambda of: retry(of, token=b"", own=b"")[:-9],
    "the unused bits": lambda of: bytes([retry(of)[0] ^ 1]) + retry(of)[1:],
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_one(name: str, traffic: Traffic, quic: CompiledStack, tmp_path: Path) -> None:
    """In front of the true one, after it, and later on; it is counted, and nothing else is otherwise."""
    forged = from_server(FORGED[name](traffic))
    packets = list(traffic.packets)
    for at in (1, 3, 12):
        packets.insert(at, forged)
    result = seen(quic, packets, traffic, tmp_path)
    assert refused(result) == 3
    assert streams(result) == traffic.sent


def test_a_client_sends_none(traffic: Traffic, quic: CompiledStack, tmp_path: Path) -> None:
    packets = [traffic.packets[0], datagram(retry(traffic))]
    assert refused(seen(quic, packets, traffic, tmp_path)) == 1


def test_what_cannot_be_checked(traffic: Traffic, quic: CompiledStack, tmp_path: Path) -> None:
    """Without the packet that it answers; of a version without keys; cut off."""
    own = retry(traffic)
    alone = seen(quic, [from_server(own)], traffic, tmp_path)
    assert (refused(alone), alone.count("quic", "dropped:no key")) == (0, 1)
    unknown = b"\xf0\xff\0\0\x01" + own[5:]
    other = seen(quic, [traffic.packets[0], from_server(unknown)], traffic, tmp_path)
    assert (refused(other), other.count("quic", "dropped:unknown version")) == (0, 1)
    whole = from_server(own)
    cut = run(quic, [traffic.packets[0], (whole[:-1], len(whole))])
    assert (refused(cut), cut.count("quic", "dropped:cut by the snap length")) == (0, 1)
