"""What the tests of the command line share: running a command, and captures made on the spot."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from sluice.cli.main import main
from tests.support.capture import pcap

ROOT = Path(__file__).resolve().parents[2]
FIRST = ROOT / "examples" / "first"
SMALL = Path(__file__).with_name("small.py")
DATAGRAMS = Path(__file__).with_name("datagrams.py")


@dataclass
class Done:
    """What a command came to."""

    status: int
    out: str
    err: str


Command = Callable[..., Done]


@pytest.fixture
def sluice(capfd: pytest.CaptureFixture[str]) -> Command:
    """Runs `sluice ARGUMENTS` in this process; C code writes to the same descriptors, so these are captured."""

    def command(*arguments: object) -> Done:
        capfd.readouterr()
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as left:  # how argparse ends
            status = left.code if isinstance(left.code, int) else 1
        out, err = capfd.readouterr()
        return Done(status, out, err)

    return command


@pytest.fixture
def mistake(sluice: Command) -> Command:
    """Runs a command that must fail as a person wants it: status 1, a few lines, no traceback, nothing
    printed.
    """

    return _failing(sluice, 1)


@pytest.fixture
def misuse(sluice: Command) -> Command:
    """The same for wrong usage, which is status 2."""
    return _failing(sluice, 2)


def _failing(sluice: Command, status: int) -> Command:
    def command(*arguments: object) -> Done:
        done = sluice(*arguments)
        assert done.status == status
        assert done.err.startswith("sluice: ")
        assert "Traceback" not in done.err
        assert 1 <= len(done.err.splitlines()) <= 6
        assert done.out == ""
        return done

    return command


def udp_packet(port: int, payload: bytes, source: bytes = b"\x0a\x00\x00\x02") -> bytes:
    """An Ethernet frame with a UDP datagram to `port`."""
    udp = struct.pack("!HHHH", 40000, port, 8 + len(payload), 0) + payload
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0, source, b"\x0a\x00\x00\x01")
    return bytes(12) + b"\x08\x00" + ip + udp


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A capture of three UDP datagrams in two flows."""
    path = tmp_path / "in.pcap"
    path.write_bytes(pcap([udp_packet(53, b"one"), udp_packet(53, b"two"), udp_packet(99, b"three")]))
    return path
