"""A chain inline between two interfaces: hosts talk through it, byte for byte, and what it drops does not arrive.

Three network namespaces: the client, the box with two interfaces without addresses, and the server.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from sluice.cli.main import main
from tests.live.wire import Inline, Wire, content, fetch, ping, serve, why_no_wire

pytestmark = [pytest.mark.skipif(bool(why_no_wire()), reason=why_no_wire()), pytest.mark.root]

GUARD = """
#include "sluice.h"
SLUICE_INLINE
SLUICE_PARAMETER(port, number, 23, "to which connections are refused")
SLUICE_COUNTER(dropped, "packets to it")
SLUICE_ON(tcp, packet) {
    if (sl_load_be16(event->unit.at + 2) != SLUICE_PARAMETER_OF(event->box, port))
        return;
    SLUICE_COUNTER_OF(event->box, dropped)++;
    SLUICE_DROP(event->box);
}
"""
COUNT = """
#include "sluice.h"
SLUICE_COUNTER(bytes, "of streams")
SLUICE_COUNTER(pings, "packets of ICMP")
SLUICE_ON(tcp, data) { SLUICE_COUNTER_OF(event->box, bytes) += data->bytes.length; }
SLUICE_ON(ipv4, packet) { SLUICE_COUNTER_OF(event->box, pings) += event->unit.at[9] == 1; }
"""
CHAIN = """
from sluice.chain import Chain, function
from sluice.lang import Pred, Stack
from sluice.protocols.ethernet import ethernet_parser
from sluice.protocols.ipv4 import ipv4_parser
from sluice.protocols.tcp import tcp_parser

stack = Stack("wire")
stack.eth, stack.ipv4, stack.tcp = ethernet_parser(), ipv4_parser(), tcp_parser()
stack += (stack.eth >> stack.ipv4) + Pred(stack.eth.header.type == 0x0800)
stack += (stack.ipv4 >> stack.tcp) + Pred(stack.ipv4.header.protocol == 6)
chain = Chain(function("guard.c", port=8023) >> function("count.c"), stack=stack)
"""
"""Of a small stack, which compiles fast; what it does not know passes."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chain and its functions, which are compiled once."""
    made = tmp_path_factory.mktemp("inline")
    for name, text in (("guard.c", GUARD), ("count.c", COUNT), ("chain.py", CHAIN)):
        (made / name).write_text(text)
    return made


@pytest.fixture
def wire() -> Generator[Wire]:
    with Wire("chaininl") as made:
        yield made


def test_hosts_talk_through_a_chain(wire: Wire, folder: Path) -> None:
    """ARP, ICMP and TCP pass; a refused port does not; all is counted, and nothing is sent twice."""
    with Inline(wire, folder, "chain", str(folder / "chain.py")) as running:
        assert ping(wire, 5) == 5
        site, refused = serve(wire, 8080), serve(wire, 8023)
        try:
            for size in (0, 1, 100_000, 1_000_000):
                status, digest = fetch(wire, 8080, f"/x/{size}", 30)
                assert (status, digest) == (0, hashlib.sha256(content(f"/x/{size}")).hexdigest())
            assert fetch(wire, 8023, "/x/9", 2)[1] == hashlib.sha256(b"").hexdigest()
        finally:
            for server in (site, refused):
                server.shutdown()
                server.server_close()
        summary = running.stop()
    reports, received = summary["reports"], summary["received"]
    assert reports["count.pings"] == 10
    assert reports["count.bytes"] > 1_100_001
    assert reports["guard.dropped"] == reports["packets_dropped"] > 0
    assert received["not_forwarded"] == 0
    assert received["forwarded"] == summary["packets"] - reports["packets_dropped"]


def test_checksums_that_were_left_to_a_card_are_completed(wire: Wire, folder: Path) -> None:
    """The hosts send segments with the sum of the pseudo header only, as a veth pair needs no checksums."""
    for space, device in ((wire.client, "c0"), (wire.server, "s0")):
        subprocess.run(["ip", "netns", "exec", space, "ethtool", "-K", device, "tx", "on"], check=True, timeout=300)
    with Inline(wire, folder, "chain", str(folder / "chain.py")) as running:
        site = serve(wire, 8080)
        try:
            status, digest = fetch(wire, 8080, "/x/100001", 30)
            assert (status, digest) == (0, hashlib.sha256(content("/x/100001")).hexdigest())
        finally:
            site.shutdown()
            site.server_close()
        summary = running.stop()
    assert summary["received"]["not_forwarded"] == 0


def test_an_interface_that_is_none_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chain", str(folder / "chain.py"), "-i", "lo", "--forward", "chainnone"]) == 1
    assert "chainnone: there is no interface of that name" in capsys.readouterr().err
