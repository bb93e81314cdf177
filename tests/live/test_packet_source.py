"""AF_PACKET sockets as sources and destinations (sluice/runtime/io/packet_source.c): what is refused, and what ends."""

from __future__ import annotations

import ctypes
import subprocess
import time
from collections.abc import Generator
from typing import Any

import pytest

from sluice.engine.box import compile_stack
from sluice.engine.inputs import Frame, Inputs, Source
from tests.live.veth import Veth, why_not
from tests.support.small_stacks import small_stack

pytestmark = [pytest.mark.skipif(bool(why_not()), reason=why_not()), pytest.mark.root]

FAULT = -2
PATIENCE = 20.0
SMALL, LARGE = b"\xff" * 12 + b"\x88\xb5" + b"small" * 10, b"\xff" * 12 + b"\x88\xb5" + bytes(9000)
"""Frames of an experimental type, which the kernel answers nothing to."""


@pytest.fixture(scope="module")
def library() -> Any:
    return ctypes.CDLL(str(compile_stack(small_stack(), ()).compiled.path))


@pytest.fixture
def wire() -> Generator[Veth]:
    with Veth("iosrc") as made:
        yield made


def send(library: Any, source: Source, *packets: tuple[bytes, int]) -> int:
    """Sends packets, each with its length on the wire; how many were accepted."""
    frames = (Frame * len(packets))()
    for number, (frame, (data, length)) in enumerate(zip(frames, packets, strict=True), 1):
        frame.at = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value
        frame.captured, frame.length, frame.link_type, frame.number = len(data), length, 1, number
    return library.sl_source_send(source.handle, frames, ctypes.c_uint32(len(packets)))


def receive(library: Any, source: Source, wanted: bytes = b"") -> int:
    """Receives until the source ends (its result), or until a packet is the wanted one (1)."""
    frames, end = (Frame * 64)(), time.monotonic() + PATIENCE
    while time.monotonic() < end:
        got = ctypes.c_int32(library.sl_source_receive(source.handle, frames, ctypes.c_uint32(64))).value
        found = [
            ctypes.string_at(ctypes.c_void_p.from_buffer(frame).value or 0, frame.captured)
            for frame in frames[: max(got, 0)]
        ]
        library.sl_source_release(source.handle)
        if got < 0:
            return got
        if wanted and wanted in found:
            return 1
        if got == 0:
            library.sl_source_wait(source.handle, ctypes.c_uint64(20_000_000))
    return 0


def test_a_packet_that_cannot_be_sent_does_not_end_the_receiving(library: Any, wire: Veth) -> None:
    inputs = Inputs(("af_packet:s0",))
    both = wire.within(wire.server, lambda: Source.open(library, inputs))
    peer = wire.within(wire.client, lambda: Source.create_uri(library, b"af_packet:c0"))
    assert send(library, both, (LARGE, len(LARGE))) == 0
    assert "cannot be sent: Message too long" in (both.fault() or "")
    assert send(library, peer, (SMALL, len(SMALL))) == 1
    assert receive(library, both, SMALL) == 1
    assert both.statistics()["refused"] == 1
    both.close()
    peer.close()


def test_a_packet_without_its_end_is_not_sent(library: Any, wire: Veth) -> None:
    out = wire.within(wire.client, lambda: Source.create_uri(library, b"af_packet:c0"))
    whole, cut = (SMALL, len(SMALL)), (SMALL, len(SMALL) + 1)
    assert send(library, out, cut, whole, whole, cut, whole) == 3
    assert out.statistics()["refused"] == 2
    assert out.fault() == f"c0: packet 4 cannot be sent: {len(SMALL)} of its {len(SMALL) + 1} bytes were captured"
    out.close()


def test_forwarding_ends_when_one_of_the_interfaces_is_gone(library: Any, wire: Veth) -> None:
    for words in ("add other0 type veth peer name other1", "set other0 up", "set other1 up"):
        subprocess.run(["ip", "-n", wire.server, "link", *words.split()], check=True, timeout=300)
    inputs = Inputs(("af_packet:other0", "af_packet:s0"), forwarding=True)
    both = wire.within(wire.server, lambda: Source.open(library, inputs))
    subprocess.run(["ip", "-n", wire.server, "link", "del", "other0"], check=True, timeout=300)
    for _ in range(2):  # in the namespace, in which the interface is looked for
        assert wire.within(wire.server, lambda: receive(library, both)) == FAULT
    assert both.fault() == "other0: the interface is gone"
    both.close()
