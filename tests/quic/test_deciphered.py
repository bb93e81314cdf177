"""Stack quic_deciphered on a trace that was deciphered here, by other code: the same bytes as with the keys."""

from __future__ import annotations

import pytest

from sluice.lower.build import build
from sluice.stacks.find import find_stack
from tests.differential.both import Packet, assert_same, compiled
from tests.quic.deciphering import Decipherer
from tests.quic.test_traffic import streams, talk
from tests.quic.traffic import Link, make
from tests.support.run import run, watch_all


@pytest.mark.parametrize("version", [1, 2])
def test_the_same_bytes_without_keys(version: int) -> None:
    traffic = make(*talk(2000), version=version, link=Link(loss=0.03, late=0.2, seed=5))
    decipherer = Decipherer(traffic.keylog, version)
    packets = [decipherer.datagram(packet) for packet in traffic.packets]
    stack = find_stack("quic_deciphered")
    result = run(watch_all(stack, ("tls_client_hello", "hello")), packets, traffic.times)
    assert streams(result) == traffic.sent
    assert len(result.named("hello")) == 1
    counters = result.counters
    datagrams = next(own for name, own in counters.items() if name.startswith("quic_datagram"))
    assert datagrams["passed"] == datagrams["packets"], "an acknowledgment has 13 bytes without its tag"
    assert_same(compiled(stack), [Packet(data, n) for n, data in enumerate(packets[:60])])


def test_it_has_no_module_in_c() -> None:
    assert build(find_stack("quic_deciphered")).natives == ()
