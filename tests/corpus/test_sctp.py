"""Each figure that is compared of SCTP is compared: one that is wrong in the truth, or missing with us, is told."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.corpus import agreement, applications
from tests.corpus.agreement import Part, compare_applications, compare_flows, compare_messages
from tests.corpus.applications import said
from tests.corpus.associations import associations_of
from tests.support.corpus import truth

pytestmark = pytest.mark.corpus

NAME = "gen__sctp_v4.pcap"
STACK = "everything"


@pytest.fixture
def flow(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The first association of the truth, which may be changed."""
    entry = copy.deepcopy(truth()[NAME])
    monkeypatch.setattr(agreement, "truth", lambda: {NAME: entry})
    return entry["sctp"][0]


def wrong(part: Part) -> set[str]:
    return {one.what for one in part.disagreements}


@pytest.mark.parametrize("figure", ["packets", "bytes", "sha256", "dup_tsn"])
def test_rows(flow: dict[str, Any], figure: str) -> None:
    assert not wrong(compare_flows(STACK, NAME, "sctp")[0])
    flow["b2a"][figure] = 77
    assert wrong(compare_flows(STACK, NAME, "sctp")[0]) == {"flow 0"}


@pytest.mark.parametrize("figure", ["contig_tsn", "sha256"])
def test_chunks(flow: dict[str, Any], figure: str) -> None:
    assert not wrong(compare_messages(STACK, NAME))
    flow["a2b"][figure] = 77
    assert wrong(compare_messages(STACK, NAME)) == {f"flow 0, from {flow['a'][0]} {flow['a'][1]}"}


@pytest.mark.parametrize("figure", ["messages", "bytes", "sha256"])
def test_messages_of_a_stream(flow: dict[str, Any], figure: str) -> None:
    flow["a2b"]["streams"]["6"][figure] = 77
    assert wrong(compare_messages(STACK, NAME)) == {f"flow 0, from {flow['a'][0]} {flow['a'][1]}"}


def test_payload_protocols_of_a_stream(flow: dict[str, Any]) -> None:
    flow["a2b"]["streams"]["6"]["ppid"]["77"] = 1
    assert wrong(compare_messages(STACK, NAME)) == {f"flow 0, from {flow['a'][0]} {flow['a'][1]}"}


def test_streams_and_associations_that_the_truth_does_not_have(flow: dict[str, Any]) -> None:
    a, b = (f"{host} {port}" for host, port in (flow["a"], flow["b"]))
    del flow["a2b"]["streams"]["6"]
    assert wrong(compare_messages(STACK, NAME)) == {f"flow 0, from {a}"}
    del agreement.truth()[NAME]["sctp"][0]
    left = {f"more associations from {a}", f"more associations from {b}"}
    assert left == {what for what in wrong(compare_messages(STACK, NAME)) if what.startswith("more")}


def test_what_the_programs_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they sent, its order, and each message that arrived."""
    assert not wrong(compare_applications(STACK, NAME))
    story = copy.deepcopy(said(NAME))
    client, received, sent = story["client"][0], story["server"][0], story["server"][1]
    me, peer = (f"{host} {port}" for host, port in (client["me"], client["peer"]))
    client["sent"]["0"]["bytes"] += 1
    client["sent"]["4"]["sha256_send_order"] = "another"  # nothing of it is unordered
    received["recv"]["1"]["msgs"][0] = "0123456789abcdef"
    stream, figures = next(iter(sent["sent"].items()))
    figures[0] += 1
    monkeypatch.setattr(applications, "said", lambda name: story)
    assert wrong(compare_applications(STACK, NAME)) == {
        f"{me}, stream 0 sent",
        f"{me}, stream 4 sent",
        f"{peer}, stream 1 received",
        f"{peer}, stream {stream} sent",
    }


def test_there_is_something_to_compare() -> None:
    ways = [way for several in associations_of(STACK, NAME).values() for way in several]
    assert len(ways) == 10 and any(len(way.streams) > 5 for way in ways)
