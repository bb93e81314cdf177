"""--filter: the same packets by each back end, of those that libpcap's own filter accepts."""

from __future__ import annotations

import ctypes
import shutil
import socket
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from sluice.engine.box import compile_stack
from sluice.engine.inputs import Frame, InputError, Inputs, Source
from tests.live.veth import Veth, why_not
from tests.support.capture import pcap
from tests.support.packets import TCP, UDP, eth, ip4, tcp, udp
from tests.support.small_stacks import small_stack

END = -1
FILTERS = (
    "udp",
    "tcp port 80",
    "not tcp",
    "vlan",
    "vlan 7 and udp",
    "ether proto 0x8100",
    "greater 100",
    "udp[8] = 0x61",
)


def packets() -> list[bytes]:
    """Of TCP and UDP, plain and tagged; each begins with its number, as the address of its sender."""
    found: list[bytes] = []
    for tags in ((), (7,), (9,)):
        for payload in (b"a", b"b" * 90):
            found += [eth(ip4(udp(1, 2, payload), UDP), *tags), eth(ip4(tcp(1, 80, 5, "A", payload), TCP), *tags)]
    return [packet[:6] + bytes([2, 0, 0, 0, 0, number]) + packet[12:] for number, packet in enumerate(found)]


@pytest.fixture(scope="module")
def library() -> Any:
    try:
        ctypes.CDLL("libpcap.so.0.8")
    except OSError:
        pytest.skip("there is no libpcap (Debian: libpcap0.8)")
    return ctypes.CDLL(str(compile_stack(small_stack(), ()).compiled.path))


def numbers(library: Any, source: Source, until: int | None = None) -> list[int]:
    """The numbers of the packets that a source has, up to its end, or to the one with a number."""
    frames, found = (Frame * 64)(), list[int]()
    for _ in range(500):
        got = ctypes.c_int32(library.sl_source_receive(source.handle, frames, ctypes.c_uint32(64))).value
        for frame in frames[: max(got, 0)]:
            head = ctypes.string_at(ctypes.c_void_p.from_buffer(frame).value or 0, 12)
            found += [head[11]] if head[6:11] == bytes([2, 0, 0, 0, 0]) else []
        library.sl_source_release(source.handle)
        if got == END or (until is not None and until in found):
            return found
        if got == 0:
            library.sl_source_wait(source.handle, ctypes.c_uint64(20_000_000))
    return found


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filter") / "in.pcap"
    path.write_bytes(pcap(packets()))
    return path


def accepted(library: Any, capture: Path, text: str) -> list[int]:
    source = Source.open(library, Inputs((f"file:{capture}",), filter=text))
    found = numbers(library, source)
    assert source.statistics()["filtered"] == len(packets()) - len(found)
    source.close()
    return found


@pytest.mark.skipif(shutil.which("tcpdump") is None, reason="there is no tcpdump")
@pytest.mark.parametrize("text", FILTERS)
def test_a_file_is_filtered_as_by_tcpdump(library: Any, capture: Path, text: str) -> None:
    listed = subprocess.run(
        ["tcpdump", "-enr", str(capture), text], capture_output=True, text=True, check=True, timeout=300
    ).stdout
    found = accepted(library, capture, text)
    assert found == [int(line.split()[1].split(":")[-1], 16) for line in listed.splitlines()] and found


def test_what_is_no_filter_is_said(library: Any, capture: Path) -> None:
    with pytest.raises(InputError, match=r"filter 'tcp prt 80': .*syntax"):
        Source.open(library, Inputs((f"file:{capture}",), filter="tcp prt 80"))


@pytest.mark.root
@pytest.mark.skipif(bool(why_not()), reason=why_not())
class TestInterfaces:
    @pytest.fixture(scope="class")
    @staticmethod
    def wire() -> Generator[Veth]:
        with Veth("livefilt") as made:
            yield made

    @pytest.mark.parametrize("scheme", ["af_packet:s0", "af_packet:any", "xdp:s0"])
    @pytest.mark.parametrize("text", FILTERS)
    def test_an_interface_gives_the_same(self, library: Any, capture: Path, wire: Veth, text: str, scheme: str) -> None:
        """The last packet is one that each filter accepts: it is the end of the others."""
        wanted, last = accepted(library, capture, text), 200
        try:
            source = wire.within(
                wire.server, lambda: Source.open(library, Inputs((scheme,), filter=f"({text}) or ether[11] = {last}"))
            )
        except InputError as error:
            if not scheme.startswith("xdp:"):
                raise
            pytest.skip(str(error))
        with wire.within(wire.client, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)) as raw:
            raw.bind(("c0", 0))
            for packet in packets():
                raw.send(packet)
            raw.send(bytes(6) + bytes([2, 0, 0, 0, 0, last]) + b"\x88\xb5" + bytes(60))
        found = numbers(library, source, last)
        counted = source.statistics()
        wire.within(wire.server, source.close)  # an XDP program is detached in its namespace
        assert found == [*wanted, last]
        if scheme == "af_packet:s0":
            assert counted["filtered"] <= 8, "the kernel rejects those without a tag"
