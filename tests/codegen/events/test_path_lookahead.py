"""A look-up whose key contains the path of a packet is predicted with the same key."""

import ctypes
from functools import reduce
from operator import truediv

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet, Raw

from sluice.engine.box import Box, CompiledStack, Frame, Settings, compile_stack
from sluice.stacks.find import find_stack
from tests.codegen.burst.test_lookahead import RECORD


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> CompiledStack:
    """A stack that records its prefetches."""
    folder = tmp_path_factory.mktemp("recording")
    (folder / "record.h").write_text(RECORD)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLUICE_CFLAGS", f"-O0 -include {folder / 'record.h'}")
        patch.setenv("SLUICE_CACHE", str(folder))
        return compile_stack(find_stack("tcp_ip"))


def fragments(below: Packet) -> list[bytes]:
    whole = IP(src="192.0.2.1", dst="192.0.2.2", id=7) / UDP(sport=1, dport=2) / Raw(bytes(40))
    data = bytes(whole.payload)
    head = {"src": whole.src, "dst": whole.dst, "id": whole.id, "proto": 17}
    return [
        bytes(below / IP(**head, flags="MF", frag=0) / Raw(data[:24])),
        bytes(below / IP(**head, flags="MF", frag=3) / Raw(data[24:32])),
    ]


def tags(count: int) -> Packet:
    return reduce(truediv, [Dot1Q()] * count)


@pytest.mark.parametrize(
    "below",
    [
        pytest.param(Ether(dst="02:00:00:00:00:01"), id="over Ethernet"),
        pytest.param(Ether(dst="02:00:00:00:00:01") / Dot1Q(vlan=3), id="in a VLAN"),
        pytest.param(Ether(dst="02:00:00:00:00:01") / IP(src="192.0.2.3", dst="192.0.2.4"), id="in a tunnel"),
        pytest.param(Ether(dst="02:00:00:00:00:01") / tags(6), id="as deep as packets pass early"),
        pytest.param(Ether(dst="02:00:00:00:00:01") / tags(7), id="as deep as is looked ahead"),
    ],
)
def test_the_second_fragment_is_predicted_by_the_first(below: Packet, recording: CompiledStack) -> None:
    box = Box(recording, Settings())
    library, handle = box._library, box._box  # pyright: ignore[reportPrivateUsage]
    asked: list[set[int]] = []
    for number, packet in enumerate(fragments(below), 1):
        count = ctypes.c_uint.in_dll(library, "asked_count")
        count.value = 0
        memory = ctypes.create_string_buffer(packet + bytes(256))
        frame = Frame(captured=len(packet), length=len(packet), time=number, link_type=1, number=number)
        frame.at = ctypes.cast(memory, ctypes.c_char_p)
        library.tcp_ip_process(handle, ctypes.byref(frame), ctypes.c_size_t(1), None)
        begin = ctypes.addressof(memory)
        of_table = {at or 0 for at in (ctypes.c_void_p * count.value).in_dll(library, "asked")}
        asked.append({at for at in of_table if not begin <= at < begin + len(packet) + 256})
    assert box.counters()["ipv4"]["instances"] == 1
    assert len(asked[1]) > 1
    assert asked[1] <= asked[0]
