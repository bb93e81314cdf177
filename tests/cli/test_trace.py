"""sluice trace: which packet, and why."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import FIRST, Command
from tests.support.capture import pcap

HELLO, CAPTURE = FIRST / "hello.py", FIRST / "capture.pcap"


def traced(sluice: Command, *arguments: object) -> list[dict[str, Any]]:
    done = sluice("trace", *arguments, "--json")
    assert done.status == 0 and done.err == ""
    return [json.loads(line) for line in done.out.splitlines()]


def test_the_question_of_the_summary_is_answered(sluice: Command) -> None:
    """Which packet is "malformed (version) 1", and why."""
    (packet,) = traced(sluice, HELLO, "-r", CAPTURE, "--outcome", "malformed (version)")
    assert packet["packet"] == 15
    last = packet["layers"][-1]
    assert (last["layer"], last["outcome"], last["reason"]) == ("hello", "malformed", "version")
    assert last["where"].endswith("hello.py:29")
    assert last["line"] == 'hello.require(hello.header.version == 1, "version")'
    assert {field["name"]: field["value"] for field in last["fields"]} == {
        "version": 2, "kind": 1, "station": 9, "celsius": 90,
    }  # fmt: skip


def test_a_header_that_is_too_short_names_the_line_of_the_header(sluice: Command) -> None:
    out = sluice("trace", HELLO, "-r", CAPTURE, "--outcome", "too short").out
    assert "outcome   malformed (header too short)   (hello.py:10: class hello_hdr(layout):" in out
    assert out.startswith("packet 17: ") and "\npacket " not in out


def test_each_layer_says_what_it_read_and_what_came_of_it(sluice: Command) -> None:
    (packet,) = traced(sluice, "tcp_ip", "-r", CAPTURE, "--packet", 4)
    assert [layer["layer"] for layer in packet["layers"]] == ["eth", "ipv4", "tcp_over_ipv4"]
    tcp = packet["layers"][2]
    assert tcp["instance"]["created"] and tcp["instance"]["side"] == 0
    assert tcp["instance"]["key"] == {"src": "10.0.0.30", "sport": 51000, "dst": "10.0.0.1", "dport": 80}
    assert tcp["state"] == "SYN_SENT" and tcp["outcome"] == "ended"
    (change,) = [item for item in tcp["changes"] if item["name"] == "state"]
    assert (change["from"], change["to"]) == ("CLOSED", "SYN_SENT") and ".py:" in change["where"]
    assert [event["event"] for event in tcp["events"]] == ["created", "sent", "state"]
    assert packet["layers"][0]["above"][0]["layer"] == "ipv4"


def test_instances_are_those_of_the_whole_capture(sluice: Command) -> None:
    (packet,) = traced(sluice, "tcp_ip", "-r", CAPTURE, "--packet", 6)
    tcp = packet["layers"][2]
    assert tcp["state"] == "ESTABLISHED" and not tcp["instance"]["created"]


@pytest.mark.parametrize(
    ("flow", "packets"),
    [("10.0.0.30:51000", 10), ("10.0.0.30", 10), (":51000", 10), ("10.0.0.1:80,10.0.0.30:51000", 10), (":4747", 12)],
)
def test_packets_of_a_flow(sluice: Command, flow: str, packets: int) -> None:
    assert len(traced(sluice, "tcp_ip", "-r", CAPTURE, "--flow", flow)) == packets


@pytest.mark.parametrize(("given", "numbers"), [("3", [3]), ("3-5", [3, 4, 5]), ("-2", [1, 2]), ("21-", [21, 22])])
def test_packets_by_number(sluice: Command, given: str, numbers: list[int]) -> None:
    found = traced(sluice, HELLO, "-r", CAPTURE, f"--packet={given}")
    assert [one["packet"] for one in found if one["packet"] is not None] == numbers


def test_the_end_of_the_input_ends_instances(sluice: Command) -> None:
    last = traced(sluice, HELLO, "-r", CAPTURE)[-1]
    assert last["packet"] is None
    assert {(event["layer"], event["values"]["reason"]) for event in last["events"]} >= {
        ("udp", "eof"),
        ("hello", "eof"),
    }


def test_outcomes_are_those_of_a_run(sluice: Command) -> None:
    counters = json.loads(sluice("run", "tcp_ip", "-r", CAPTURE, "--json").out)["layers"]
    found: dict[str, dict[str, int]] = {}
    for packet in traced(sluice, "tcp_ip", "-r", CAPTURE):
        for layer in packet["layers"]:
            outcome = layer["outcome"] + (f":{layer['reason']}" if layer["reason"] else "")
            own = found.setdefault(layer["layer"], {})
            own[outcome] = own.get(outcome, 0) + 1
    for layer, outcomes in found.items():
        assert {name: counters[layer][name] for name in outcomes} == outcomes, layer


def test_what_is_refused_is_said(sluice: Command, tmp_path: Path) -> None:
    path = tmp_path / "usb.pcap"
    path.write_bytes(pcap([bytes(64)], link_type=220))
    assert "refused" in sluice("trace", "tcp_ip", "-r", path).out
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(pcap([]))
    done = sluice("trace", "tcp_ip", "-r", empty)
    assert done.status == 1 and "there are no packets" in done.err


@pytest.mark.parametrize(
    "option",
    [
        "--packet=0",
        "--packet=x",
        "--packet=5-3",
        "--packet=-",
        "--flow=::1:x",
        "--flow=1.2.3",
        "--flow=:70000",
        "--flow=",
    ],
)
def test_options_that_mean_nothing_are_refused(sluice: Command, option: str) -> None:
    done = sluice("trace", "tcp_ip", "-r", CAPTURE, option)
    assert done.status == 2 and option.partition("=")[0] in done.err and done.out == ""


def test_a_choice_without_packets_is_told(mistake: Command) -> None:
    assert "no packet is chosen" in mistake("trace", "tcp_ip", "-r", CAPTURE, "--packet", 99).err
