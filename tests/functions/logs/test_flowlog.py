"""flowlog: the rows of flow_log, and what it adds to them."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from sluice.engine.box import Box, Settings, compile_stack
from sluice.engine.functions import find_functions
from sluice.stacks.find import find_stack
from tests.functions.logs.boxes import Row, connection, needs_parsers, run_capture, run_packets
from tests.functions.logs.test_cuts import gre, gtp, vlan, vxlan
from tests.support.connection import pair
from tests.support.packets import eth, ip4, ip6

pytestmark = needs_parsers

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
ADDED = {"flow", "community_id", "duration", "rtt", "rtt_server", "rtt_client", "vlan", "tunnels"} | {
    f"{side}_{what}" for side in ("src", "dst") for what in ("bytes", "rexmit_pkts", "reordered_pkts", "ttl")
}


@pytest.mark.parametrize("name", ["logs", "account"])
def test_rows_are_those_of_flow_log_and_more(name: str, tmp_path: Path) -> None:
    capture, out = EXAMPLES / name / "capture.pcap", tmp_path / "rows"
    plain = compile_stack(find_stack("tcp_ip"), tuple(find_functions(["flow_log"]).c))
    with Box(plain, Settings(seed=1, timeouts=False, max_instances=1 << 16), [], [f"out={out}"]) as box:
        box.run(capture)
    expected = [json.loads(line) for line in out.read_text().splitlines()]
    rows = run_capture(capture)["flowlog"]
    assert [{key: row[key] for key in row if key not in ADDED} for row in rows] == expected
    assert all(ADDED <= set(row) for row in rows)


def row(frames: list[bytes]) -> Row:
    """The row of the TCP connection."""
    (found,) = [row for row in run_packets(frames)["flowlog"] if row["proto"] == "tcp"]
    return found


def test_round_trips_of_the_handshake() -> None:
    client, server = pair()
    frames = [client.send("S", number=1000), client.send("S"), server.send("SA"), client.send("A"), client.data(b"x")]
    found = row(frames)
    assert (found["rtt"], found["rtt_server"], found["rtt_client"]) == ("0.002000000", "0.001000000", "0.001000000")
    assert found["duration"] == "0.004000000"
    assert row(frames[3:])["rtt"] is None


def test_bytes_on_the_wire_retransmissions_and_reordering() -> None:
    client, server = pair()
    frames = [client.send("S"), server.send("SA"), client.send("A")]
    frames += [client.at(0, b"ab"), client.at(4, b"ef"), client.at(2, b"cd"), client.at(0, b"ab"), client.at(6, b"gh")]
    found = row(frames)
    assert found["src_bytes"] == sum(len(frame) for frame in frames) - len(frames[1])
    assert (found["src_rexmit_pkts"], found["src_reordered_pkts"], found["dst_reordered_pkts"]) == (1, 1, 0)


def test_the_ttl_is_that_of_the_innermost_header() -> None:
    frames = connection([(">", b"x")])
    assert row(frames)["src_ttl"] == [64, 64]
    varied = [frame[:22] + bytes([9]) + frame[23:] if number == 3 else frame for number, frame in enumerate(frames)]
    assert row(varied)["src_ttl"] == [9, 64]
    assert row([gre(frame) for frame in varied])["src_ttl"] == [9, 64]


def test_vlans_and_tunnels() -> None:
    frames = connection([(">", b"x")])
    ends = {"src": "10.0.0.1", "dst": "10.0.0.2"}
    assert row([vlan(vlan(frame)) for frame in frames])["vlan"] == [5, 5]
    assert row([gtp(frame) for frame in frames])["tunnels"] == [{"kind": "gtp", "id": 5, **ends}]
    assert row([vxlan(frame) for frame in frames])["tunnels"] == [{"kind": "vxlan", "id": 9, **ends}]
    assert row([gre(frame) for frame in frames])["tunnels"] == [{"kind": "gre", "id": None, **ends}]
    keyed = [eth(ip4(struct.pack(">HHI", 0x2000, 0x0800, 77) + frame[14:], 47)) for frame in frames]
    assert row(keyed)["tunnels"] == [{"kind": "gre", "id": 77, **ends}]
    nested = row([vxlan(gtp(vlan(frame)[:12] + frame[12:])) for frame in frames])
    assert [tunnel["kind"] for tunnel in nested["tunnels"]] == ["vxlan", "gtp"]
    in_ip6 = row([eth(ip6(frame[14:], 4)) for frame in frames])
    assert (in_ip6["layers"], in_ip6["tunnels"][0]["kind"]) == ("eth/ipv6/ipv4/tcp", "ipv4")
    assert ":" in in_ip6["tunnels"][0]["src"]


def test_the_example_shows_the_rows_of_all_logs() -> None:
    logs = run_capture(EXAMPLES / "logs" / "capture.pcap")
    expected = [json.loads(line) for line in (EXAMPLES / "logs" / "expected.jsonl").read_text().splitlines()]
    assert [row for log in ("httplog", "tlslog", "dnslog", "flowlog") for row in logs[log]] == expected
