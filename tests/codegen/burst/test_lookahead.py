"""What a box asks memory for before it needs it: each packet's header once (or once for each of two
caches), and not those of all packets together.
"""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

import pytest

from sluice.engine.box import Box, CompiledStack, Frame, Settings, compile_stack
from sluice.lang import Connectionless, Stack, UInt, layout
from sluice.stacks.find import find_stack

RECORD = """
__attribute__((weak)) const void *asked[1 << 14];
__attribute__((weak)) _Bool asked_far[1 << 14];   /* into the second-level cache */
__attribute__((weak)) unsigned asked_count;
#define ASK(at, written, level, ...) \\
    (asked_far[asked_count % (1 << 14)] = (level) == 2, asked[asked_count++ % (1 << 14)] = (const void *)(at))
#define __builtin_prefetch(...) ASK(__VA_ARGS__, 0, 3, 0)
"""
PACKETS = 200
BEHIND = 64  # packets that no burst has
HEADERS = 64  # bytes of a packet, or more than its headers have
ROOM = 256  # from one packet to the next, more than is asked for of one
APART = 1024  # so much that none is predicted by the processor from those before


def counting() -> Stack:
    """One layer, for which nearly all packets become pending without a template."""

    class head(layout):
        number = UInt(32)

    counted: Any = Connectionless("counted")
    counted.header = head
    counted.selector = [counted.header.number]
    counted.timeout = 60
    stack = Stack("counting")
    stack.counted = counted
    return stack


def numbered(number: int) -> bytes:
    return number.to_bytes(4, "big")


def segment(number: int) -> bytes:
    """A TCP segment, without options, of a connection of its own."""
    return tcp(number, 0, b"")


def tcp(host: int, sequence: int, data: bytes) -> bytes:
    ip = b"\x45\0" + (40 + len(data)).to_bytes(2, "big") + b"\0\0\0\0\x40\x06\0\0" + host.to_bytes(4, "big")
    ports = b"\x0a\0\0\1" + b"\x04\0\0\x50"
    header = sequence.to_bytes(4, "big") + bytes(4) + b"\x50\x10\xff\xff" + bytes(4)
    return bytes(12) + b"\x08\0" + ip + ports + header + data


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, CompiledStack]]:
    """Stacks that record their prefetches, by name."""
    folder = tmp_path_factory.mktemp("recording")
    (folder / "record.h").write_text(RECORD)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLUICE_CFLAGS", f"-O0 -include {folder / 'record.h'}")
        patch.setenv("SLUICE_CACHE", str(folder))
        yield {stack.name: compile_stack(stack) for stack in (counting(), find_stack("tcp_ip"))}


@pytest.fixture(params=["counting", "tcp_ip"])
def packets(recording: dict[str, CompiledStack], request: pytest.FixtureRequest) -> "Packets":
    name, room = request.param if isinstance(request.param, tuple) else (request.param, ROOM)
    layer, packet = ("counted", numbered) if name == "counting" else ("tcp_over_ipv4", segment)
    return Packets(name, layer, Box(recording[name], Settings()), packet, room)


class Packets:
    """Packets of one instance each, adjacent in memory, and the box that processes them."""

    def __init__(self, stack: str, layer: str, box: Box, packet: Callable[[int], bytes], room: int) -> None:
        self.layer = layer
        self.box = box
        self.room = room
        self.far: list[bool] = []  # whether what was asked for came no nearer than the second-level cache
        self.bytes_of: list[int] = []  # the packets of which bytes after their headers were asked for
        self.bytes = ctypes.create_string_buffer((PACKETS + BEHIND) * room)
        self.frames = (Frame * (PACKETS + BEHIND))()
        self.begin = ctypes.addressof(self.bytes)
        ctypes.c_uint.in_dll(box._library, "asked_count").value = 0  # pyright: ignore[reportPrivateUsage]
        self._process = getattr(box._library, f"{stack}_process")  # pyright: ignore[reportPrivateUsage]
        for i, frame in enumerate(self.frames):
            data = packet(i)
            ctypes.memmove(self.begin + i * room, data, len(data))
            frame.at = ctypes.cast(self.begin + i * room, ctypes.c_char_p)
            frame.captured = frame.length = len(data)
            frame.time, frame.link_type, frame.number = i, 1, i + 1

    def process(self, bursts: Sequence[int], told: Sequence[int] = ()) -> list[int | None]:
        """Processes them in such bursts, before each of which, as far as there are, the box is `told` how many come
        after it: what it asked for, in order. The number of a packet where that is its beginning, and None where it is
        none.
        """
        library = self.box._library  # pyright: ignore[reportPrivateUsage]
        handle = self.box._box  # pyright: ignore[reportPrivateUsage]
        for i, (first, count) in enumerate(zip(accumulate(bursts, initial=0), bursts, strict=False)):
            if i < len(told):
                library.sl_box_coming(handle, told[i])
            frames = ctypes.byref(self.frames, first * ctypes.sizeof(Frame))
            self._process(handle, frames, ctypes.c_size_t(count), None)
        count = ctypes.c_uint.in_dll(library, "asked_count").value
        found: list[int | None] = []
        places = (ctypes.c_void_p * count).in_dll(library, "asked")
        for at, far in zip(places, (ctypes.c_bool * count).in_dll(library, "asked_far"), strict=True):
            number, within = divmod((at or 0) - self.begin, self.room)
            if not 0 <= number < len(self.frames):
                found.append(None)
            elif within == 0:
                found.append(number)
            else:
                self.bytes_of += [number] if within >= HEADERS else []
                continue
            self.far.append(far)
        return found


BURSTS = [[PACKETS], [8, 0, 192], [32] * 6 + [8], [1] * PACKETS, [5, 40, 1, 64, 90], [33, 31, 32, 2, 102]]


@pytest.mark.parametrize("tell", [True, False])
@pytest.mark.parametrize("bursts", BURSTS, ids=lambda bursts: f"{len(bursts)} bursts")
def test_each_header_is_prefetched_once(packets: Packets, bursts: list[int], tell: bool) -> None:
    assert sum(bursts) == PACKETS
    asked = packets.process(bursts, [*bursts[1:], 0] if tell else [])
    assert [number for number in asked if number is not None] == list(range(PACKETS))
    assert packets.box.counters()[packets.layer]["instances"] == PACKETS


@pytest.mark.parametrize(("bursts", "told"), [([8, 192], [8]), ([8, 0, 192], [0, 8])])
def test_the_number_of_coming_packets_is_that_of_one_burst(
    packets: Packets, bursts: list[int], told: list[int]
) -> None:
    """After any other burst there may be no frames."""
    asked = packets.process(bursts, told)
    assert max(number for number in asked if number is not None) == PACKETS - 1


@pytest.mark.parametrize("bursts", [[64], [32, 32]], ids=["within a burst", "from one to the next"])
def test_one_header_of_the_next_group_per_packet(packets: Packets, bursts: list[int]) -> None:
    """All of them at once would fill the buffers for misses. Between them instances are prefetched."""
    asked = packets.process(bursts, bursts[1:])
    places = [asked.index(number) for number in range(32, 56)]
    assert all(after - before > 1 for before, after in pairwise(places))
    assert max(asked.index(number) for number in range(32)) < min(places)


@pytest.mark.parametrize("packets", [("counting", APART), ("tcp_ip", APART)], indirect=True)
def test_packets_apart_are_prefetched_into_the_second_level_first(packets: Packets) -> None:
    asked = list(zip(packets.process([32, 64, 64, 32, 6, 1, 1], [64, 64, 32, 6, 1, 1, 0]), packets.far, strict=True))
    first = [(number, False) for number in range(32)]  # of which no burst was told
    assert [item for item in asked if item[0] is not None][:32] == first
    far = [asked.index((number, True)) for number in range(32, PACKETS)]
    near = [asked.index((number, False)) for number in range(32, PACKETS)]
    assert len(far) + len(near) + 32 == sum(number is not None for number, _ in asked)
    assert all(before < after for before, after in zip(far, near, strict=True))
    # One by one: between them are instances. And all of a group before it arrives.
    assert all(after - before > 1 for before, after in pairwise(far[:24]))
    assert near[:32] == list(range(near[0], near[0] + 32))


@pytest.mark.parametrize("packets", [("tcp_ip", ROOM)], indirect=True)
def test_packets_in_descending_order_are_apart(packets: Packets) -> None:
    for i, frame in enumerate(packets.frames):
        frame.at = ctypes.cast(packets.begin + (len(packets.frames) - 1 - i) * ROOM, ctypes.c_char_p)
    packets.process([64])
    assert sum(packets.far) == 32


def test_adjacent_packets_are_prefetched_into_the_first_level(packets: Packets) -> None:
    packets.process([32, 168])
    assert not any(packets.far)


@pytest.mark.parametrize("packets", [("tcp_ip", APART)], indirect=True)
def test_a_held_packet_prefetches_the_bytes_of_the_next_two(packets: Packets) -> None:
    """If they belong to its connection; the fifth packet belongs to another one."""
    for i, frame in enumerate(packets.frames[:8]):
        data = tcp(2 if i == 5 else 1, 0 if i == 0 else 1000 * i, bytes(100))  # all but the first after a hole
        ctypes.memmove(packets.begin + i * APART, data, len(data))
        frame.captured = frame.length = len(data)
    packets.process([1, 7])
    asked = [packets.bytes_of.count(number) for number in range(8)]
    once = asked[2]
    assert once > 0 and asked == [0, 0, once, 2 * once, 2 * once, 0, 0, once]
