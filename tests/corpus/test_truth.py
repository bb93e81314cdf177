"""Ready stacks against the truth about every capture: all that agreement.py compares, but for what is explained."""

from __future__ import annotations

import json
from collections import Counter
from itertools import product
from typing import Any

import pytest

from tests.corpus import explained, report
from tests.corpus.agreement import CLEAN, LEFT_OUT, PARTS, Disagreement, compare_flows, compare_quic, foreign
from tests.corpus.boxes import flow_stack, flows_of
from tests.corpus.explained import Explanation, explanation, explanations
from tests.support.budget import thinned
from tests.support.conserve import check_all_ended, check_conservation
from tests.support.corpus import SHARED, corpus, truth

pytestmark = pytest.mark.corpus

NAMES = list(truth())
EVERY = 17
"""More than twice the number of parts, as most of the time is spent on what a capture's parts share. No multiple of it,
so that a capture has another part than the one before it.
"""
stacks = pytest.mark.parametrize(
    "stack", [pytest.param(name, marks=[] if name == "everything" else pytest.mark.slow_matrix) for name in LEFT_OUT]
)


@stacks
@pytest.mark.parametrize("name_and_part", thinned(product(NAMES, PARTS), EVERY, id="-".join))
def test_agreement(stack: str, name_and_part: tuple[str, str]) -> None:
    name, part = name_and_part
    compared = PARTS[part](stack, name)
    assert LEFT_OUT[stack] or not any(one.not_compared for one in compared)
    wrong = [one for found in compared for one in found.disagreements]
    unexplained = [str(one) for one in wrong if explanation(stack, name, one) is None]
    assert not unexplained, "\n".join(unexplained)


@stacks
@pytest.mark.parametrize("name", thinned(NAMES, EVERY))
def test_conservation(stack: str, name: str) -> None:
    _, outcome = flows_of(stack, name)
    assert outcome.fault is None
    assert outcome.packets == truth()[name]["packets"]
    assert outcome.counters["box"]["bytes"] == truth()[name]["wire_bytes"]
    check_conservation(flow_stack(stack).program, outcome.counters)
    check_all_ended(flow_stack(stack).program, outcome.counters)


@stacks
@pytest.mark.parametrize("capture", thinned(sorted({one.capture for one in explanations()} & set(NAMES)), 5))
def test_nothing_is_explained_without_need(stack: str, capture: str) -> None:
    found = [part for compare in PARTS.values() for part in compare(stack, capture)]
    wrong = [wrong for part in found for wrong in part.disagreements]
    for one in explanations():
        if one.capture == capture and (not one.stacks or stack in one.stacks):
            silent = all(part.not_compared for part in found if part.name == one.part)
            assert any(one.fits(stack, capture, each) for each in wrong) or (silent and one.part != "*"), one


def test_what_is_too_deep_is_counted() -> None:
    for one in explanations():
        if "too deep" in one.why and one.capture in NAMES:
            for stack in one.stacks or ["everything"]:
                assert flows_of(stack, one.capture).outcome.counters["box"]["too deep"]


def test_flows_with_a_fin_that_is_no_byte_differ_by_it() -> None:
    """By one byte of the stream, or of what comes after a gap, or by one of a gap."""
    for one in explanations():
        if " FIN" not in one.why or one.capture not in NAMES:
            continue
        for wrong in (
            wrong for part in compare_flows("everything", one.capture, "tcp") for wrong in part.disagreements
        ):
            delivered = next((part for part in ("stream", "after_gap") if {part, "rexmit"} <= wrong.truth.keys()), "")
            if delivered:
                assert wrong.truth[delivered] - wrong.ours[delivered] == 1
                assert wrong.ours["rexmit"] - wrong.truth["rexmit"] == 1
            else:
                assert set(wrong.truth) <= {"gaps", "gap_count", "after_gap"}


def test_quic_of_google_has_no_headers_that_we_know_and_greased_packets_are_one_more() -> None:
    """Of an explained flow nothing else is otherwise."""
    for one in explanations():
        if one.part != "quic" or one.capture not in NAMES:
            continue
        for wrong in compare_quic("everything", one.capture).disagreements:
            if "Google" in one.why:
                assert wrong.ours is None
                assert set(wrong.truth["versions"]) <= {"Q024", "Q025", "Q030", "Q035", "Q039", "Q046"}
            else:
                assert (set(wrong.ours), wrong.ours["short"]) == ({"short"}, wrong.truth["short"] + 1)


def test_that_a_flow_has_one_right_answer_nothing_explains_away() -> None:
    one = Explanation("c", "*", "*", "why")
    assert one.fits("everything", "c", Disagreement("tcp other", "flow 1", 1, 2))
    assert not one.fits("everything", "c", Disagreement(CLEAN, "flow 1", 1, 2))
    assert not one.fits("everything", "d", Disagreement("udp", "flow 1", 1, 2))


@stacks
def test_nothing_is_left_out_without_need(stack: str) -> None:
    """Each layer of LEFT_OUT alone keeps a flow out."""
    every = [flow for name in NAMES for proto in ("tcp", "udp") for flow in truth()[name][proto]]
    needed = {layer for flow in every if len(foreign(stack, flow)) == 1 for layer in foreign(stack, flow)}
    assert needed == {layer for flow in every for layer in foreign(stack, flow)}
    if corpus() == SHARED:
        assert needed == LEFT_OUT[stack].keys()


@pytest.mark.slow_matrix
@pytest.mark.parametrize(("stack", "part"), [("tcp_ip", 0.7), ("everything", 1)])
def test_most_is_compared(stack: str, part: float) -> None:
    """Of all flows of the corpus, as many are compared as we think: an error in LEFT_OUT would show here."""
    kept = Counter[str]()
    for name in NAMES:
        for proto in ("tcp", "udp"):
            kept["compared"] += sum(found.there for found in compare_flows(stack, name, proto))
            kept["all"] += len(truth()[name][proto])
    assert kept["compared"] >= part * kept["all"]


CAPTURE = "gen__tun_gre.pcap"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = report.main(list(arguments))
    return status, capsys.readouterr().out


def test_the_report_tells_what_agrees(capsys: pytest.CaptureFixture[str]) -> None:
    status, out = run(capsys, "--only", CAPTURE)
    assert status == 0 and f"{CAPTURE}: tcp clean " in out and out.endswith("all agrees, or is explained\n")
    status, out = run(capsys, "--only", CAPTURE, "--json")
    found: dict[str, Any] = json.loads(out)
    assert status == 0 and found["schema"] == "sluice-corpus-1" and found["captures"][0]["capture"] == CAPTURE
    total = found["totals"][CLEAN]
    assert total["there"] == total["agree"] > 0


ENCRYPTED = "gen__pptp_mppe.pcap"


def explain(monkeypatch: pytest.MonkeyPatch, *those: Explanation) -> None:
    for module in (explained, report):
        monkeypatch.setattr(module, "explanations", lambda: list(those))


def test_the_report_fails_by_what_is_not_explained(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    explain(monkeypatch)
    status, out = run(capsys, "--only", ENCRYPTED)
    assert status == 1 and "  WRONG: application: connection 0 sent: None, truth " in out
    assert out.endswith("WRONG: see above\n")
    status, out = run(capsys, "--only", ENCRYPTED, "--json")
    assert status == 1 and json.loads(out)["captures"][0]["unexplained"]


def test_the_report_fails_by_explanations_that_nothing_needs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = Explanation(ENCRYPTED, "application", "*", "encrypted")
    explain(monkeypatch, needed)
    assert run(capsys, "--only", ENCRYPTED)[0] == 0
    explain(monkeypatch, needed, Explanation(ENCRYPTED, "udp", "flow 0", "why"))
    status, out = run(capsys, "--only", ENCRYPTED)
    assert status == 1 and f"needless explanation: {ENCRYPTED}, udp, flow 0: why" in out
