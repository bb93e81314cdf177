"""The trace of QUIC: what the stack finds in it is what was asked for."""

from pathlib import Path

import pytest

from bench import quic_trace
from sluice.stacks.find import find_stack
from tests.support.run import run_capture, watch_all


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("quic") / "quic.pcap"
    quic_trace.main(str(path), connections=7, size=5000, opened=3)
    return path


def test_every_connection_is_one_of_its_own(trace: Path) -> None:
    counters = run_capture(watch_all(find_stack("quic")), trace).counters
    assert counters["udp_over_ipv4"]["instances"] == 7
    assert counters["tls_client_hello"]["packets"] == 7
    assert sum(own["instances"] for name, own in counters.items() if name.startswith("quic_over_")) == 7
    assert counters["eth"]["bytes"] > 7 * 5000


def test_deciphered(tmp_path: Path) -> None:
    """What was asked for and what was answered, of every connection."""
    path = tmp_path / "quic.pcap"
    quic_trace.main(str(path), connections=7, size=5000, opened=3, deciphered=True)
    counters = run_capture(watch_all(find_stack("quic_deciphered")), path).counters
    assert counters["quic_stream"]["bytes:delivered"] == 7 * (5000 + len(b"GET /"))
