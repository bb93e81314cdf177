"""Every built-in event on a capture where it happens, and on one where it must not, by stack `everything`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from sluice.engine.box import CompiledStack
from sluice.lang.events import BUILT_IN
from sluice.stacks.find import find_stack
from tests.support.capture import pcap
from tests.support.connection import goodbye, handshake, pair
from tests.support.corpus import OWN
from tests.support.run import EVENTS, run_capture, watch_all

SURICATA, PCAPPLUSPLUS = "OISF_suricata-verify__", "seladb_PcapPlusPlus__"
THREE_FRAGMENTS = SURICATA + "security-8550-input.pcap"
BAD_FRAGMENT = PCAPPLUSPLUS + "ip4_bad_fragment.pcap"

CAPTURES = {
    "malformed": (PCAPPLUSPLUS + "tcp-malformed.pcap", 2, THREE_FRAGMENTS),
    "created": (THREE_FRAGMENTS, 2, BAD_FRAGMENT),
    "orphan": ("aol_moloch__quic24-wireshark.pcap", 5, THREE_FRAGMENTS),
    "sent": (THREE_FRAGMENTS, 3, BAD_FRAGMENT),
    "packet": (THREE_FRAGMENTS, 3, BAD_FRAGMENT),
    "state": (THREE_FRAGMENTS, 3, BAD_FRAGMENT),
    "data": (THREE_FRAGMENTS, 1, BAD_FRAGMENT),
    "rexmit": (SURICATA + "eve-overlap-payload-01-tcp-overlap.pcap", 1, THREE_FRAGMENTS),
    "out_of_wnd": (SURICATA + "tcp-empty-sack-tcp-opt.pcap", 1, THREE_FRAGMENTS),
    "gap": (SURICATA + "eve-overlap-payload-05-gap-tcp-simple-gap2.pcap", 1, THREE_FRAGMENTS),
    "end": (THREE_FRAGMENTS, 2, BAD_FRAGMENT),
    "dropped": (SURICATA + "ipv6-evasion-ipv6-malformed-fragments-11-frag-11.pcap", 1, THREE_FRAGMENTS),
}
"""By event, a capture where it happens, how often, and one where it does not."""


@cache
def everything() -> CompiledStack:
    """All protocols, all events told."""
    return watch_all(find_stack("everything"), *(("*", event) for event in BUILT_IN if event not in EVENTS))


def times(event: str, capture: Path) -> int:
    """How often it happens there."""
    return len(run_capture(everything(), capture).named(event))


@pytest.mark.parametrize("event", CAPTURES)
def test_it_happens_there_and_not_here(event: str) -> None:
    there, often, not_here = CAPTURES[event]
    assert times(event, OWN / there) == often
    assert times(event, OWN / not_here) == 0


def test_a_message_is_lost_when_its_stream_ends_within_it(tmp_path: Path) -> None:
    """DNS over TCP, whose message says that it has 100 bytes: 12 of them came; and one that is whole."""
    for length, lost in ((100, 1), (12, 0)):
        client, server = pair(port=53)
        message = length.to_bytes(2, "big") + bytes.fromhex("000100000000000000000000")
        frames = [*handshake(client, server), client.data(message), *goodbye(client, server)]
        capture = tmp_path / f"{length}.pcap"
        capture.write_bytes(pcap(frames))
        assert times("lost", capture) == lost


def test_these_are_all() -> None:
    elsewhere = {"lost", "unplaced"}  # tests/messages, tests/cases/test_acknowledged.py
    assert {*CAPTURES, *elsewhere} == BUILT_IN.keys()
