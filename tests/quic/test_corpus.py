"""QUIC in real captures, beside what test_truth.py compares: whom clients want, and that the keys open all there is."""

from __future__ import annotations

import pytest

from tests.corpus.quic import quic_events
from tests.support.corpus import captures, corpus, key_log

pytestmark = pytest.mark.corpus

NAMES = [path.name for path in captures()]
KEYED = [path.name for path in captures() if "quic" in path.name and key_log(path)]

# as tshark tells it
HELLOS = {
    "FoxIO-LLC_ja4__chrome-cloudflare-quic-with-secrets.pcapng": {b"cloudflare-quic.com"},
    "OISF_suricata-verify__quic-frag-input.pcap": {b"token.services.mozilla.com"},
    "wireshark_wireshark__quic_follow_multistream.pcapng": {b"www.youtube.com"},
}


@pytest.mark.parametrize("name", KEYED)
def test_all_is_opened(name: str) -> None:
    """But for what came before the keys of its level could be known; and no stream has a gap."""
    events, counters = quic_events("everything", name, key_log(corpus() / name))
    assert not [event for event in events if event.name == "gap"]
    quic = next(own for layer, own in counters.items() if layer.startswith("quic_over") and own["packets"])
    assert quic["dropped:no key"] <= 5 and quic["dropped:not authentic"] == 0


@pytest.mark.parametrize("name", [name for name in HELLOS if name in NAMES])
def test_whom_a_client_wants(name: str) -> None:
    events, _ = quic_events("everything", name)
    assert {event.server_name for event in events if event.name == "hello"} == HELLOS[name]
