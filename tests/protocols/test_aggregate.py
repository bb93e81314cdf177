"""802.11's aggregates (A-MSDU, IEEE 802.11-2020, 9.3.2.2.2): every frame of one, and lengths that cannot be."""

from __future__ import annotations

import struct

import pytest

from sluice.engine.box import CompiledStack
from sluice.lang.events import LOSS_CAUSES
from tests.protocols.test_tunnels import AGGREGATE, radiotap
from tests.support.packets import ip4, udp
from tests.support.run import Result, run
from tests.support.stacks import all_protocols

SNAP = b"\xaa\xaa\x03\0\0\0\x08\x00"
LINK = 105


@pytest.fixture(scope="module")
def stack() -> CompiledStack:
    return all_protocols()


def frame(body: bytes, length: int | None = None, pad: bool = True) -> bytes:
    """A frame of an aggregate, with a datagram from port 1111."""
    inner = SNAP + ip4(udp(1111, 2222, body), 17)
    whole = bytes(12) + struct.pack(">H", len(inner) if length is None else length) + inner
    return whole + bytes(-len(whole) % 4) * pad


def seen(result: Result) -> int:
    """Bytes of UDP that arrived, of all datagrams."""
    return sum(row["src_payload"] for row in result.rows if (row["proto"], row["sport"]) == ("udp", 1111))


def losses(result: Result) -> list[str]:
    return [LOSS_CAUSES[event.cause] if isinstance(event.cause, int) else event.cause for event in result.named("lost")]


@pytest.mark.parametrize("sizes", [(1,), (1, 2), (3, 4, 5, 6), (0, 0, 7), tuple(range(60))], ids=len)
@pytest.mark.parametrize("padded", [False, True], ids=["the last one as it is", "the last one filled up"])
def test_every_frame_is_seen(stack: CompiledStack, sizes: tuple[int, ...], padded: bool) -> None:
    """However long they are; what the last one lacks of padding is not missed."""
    frames = [frame(b"x" * size, pad=padded or number < len(sizes) - 1) for number, size in enumerate(sizes)]
    result = run(stack, [AGGREGATE + b"".join(frames)], link_type=LINK)
    assert result.counters["msdu"]["packets"] == len(sizes) and losses(result) == []
    assert seen(result) == sum(sizes)


def test_with_a_check_sequence_after(stack: CompiledStack) -> None:
    """Radiotap says that there is one: it belongs to no frame of the aggregate."""
    aggregate = AGGREGATE + frame(b"ab") + frame(b"c", pad=False)
    result = run(stack, [radiotap(0x10, aggregate + b"fcs!")], link_type=127)
    assert result.counters["msdu"]["packets"] == 2 and losses(result) == [] and seen(result) == 3


@pytest.mark.parametrize(
    ("rest", "cause"),
    [
        (frame(b"x", length=2000), "short"),
        (frame(b"x", length=0xFFFF), "limit"),
        (bytes(13), "short"),
        (b"\0", "short"),
    ],
    ids=["longer than the packet", "longest", "less than a header", "one byte"],
)
def test_what_makes_no_frame_is_lost(stack: CompiledStack, rest: bytes, cause: str) -> None:
    """Those before it count, and the next aggregate begins anew."""
    packets = [AGGREGATE + frame(b"ab") + rest, AGGREGATE + frame(b"c")]
    result = run(stack, packets, link_type=LINK)
    assert losses(result) == [cause] and seen(result) == 3


def test_empty_frames_are_bounded(stack: CompiledStack) -> None:
    """Length 0: each has its header only. What comes after the bound of a packet is counted as lost."""
    result = run(stack, [AGGREGATE + bytes(16) * 1500 + frame(b"ab"), AGGREGATE + frame(b"c")], link_type=LINK)
    assert result.counters["msdu"]["packets"] == 129 and losses(result) == ["bundle"] and seen(result) == 1


def test_a_frame_that_the_snap_length_cut(stack: CompiledStack) -> None:
    whole = AGGREGATE + frame(b"ab") + frame(b"cd" * 50)
    result = run(stack, [(whole[:-60], len(whole))], link_type=LINK)
    assert result.counters["msdu"]["packets"] == 2 and seen(result) == 102
