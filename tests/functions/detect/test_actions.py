"""What rules decide: alert, log, pass, drop, sdrop and reject; the packets that match, the event, and the profile."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from sluice.cli.main import main
from tests.functions.detect.boxes import connection, datagram, needs_ids, packets, rule
from tests.functions.detect.cases import get
from tests.support.capture import pcap, pcap_packets
from tests.support.connection import handshake, pair

pytestmark = needs_ids


def write_pcap(path: Path, frames: list[bytes]) -> None:
    path.write_bytes(pcap(frames))


def ran(frames: list[bytes], rules: str, tmp_path: Path, *more: str) -> tuple[list[bytes], list[dict[str, Any]]]:
    """What leaves a box with the rules, and the rows."""
    source, out, rows = tmp_path / "in.pcap", tmp_path / "out.pcap", tmp_path / "rows"
    (tmp_path / "a.rules").write_text(rules)
    write_pcap(source, frames)
    function = f"ids:rules={tmp_path}/a.rules,out={rows}"
    assert main(["run", "tcp_ip", "-r", str(source), "-f", function, "-w", str(out), "--json", *more]) == 0
    return pcap_packets(out), [json.loads(line) for line in rows.read_text().splitlines()]


def test_drop_stops_the_segment_that_completes_the_match_and_what_follows(tmp_path: Path) -> None:
    client, server = pair()
    frames = [
        *handshake(client, server),
        client.data(b"an ev"),
        server.send("A"),
        client.data(b"il text"),
        server.send("A"),
    ]
    frames += [client.at(5, b"il text"), client.data(b"more"), server.data(b"answer")]
    other = connection([(">", b"good")], client_port=50000)
    passed, rows = ran([*frames, *other], rule('content:"evil";').replace("alert", "drop", 1), tmp_path)
    assert passed == [*frames[:5], *other]
    assert [(row["pcap_cnt"], row["alert"]["action"]) for row in rows] == [(6, "blocked")]


def test_a_segment_that_fills_a_gap_is_stopped(tmp_path: Path) -> None:
    client, server = pair()
    frames = [*handshake(client, server), client.at(3, b"il text"), client.at(0, b"...")]
    text = rule('content:"...il";').replace("alert", "drop", 1)
    assert ran(frames, text, tmp_path)[0] == frames[:4]


def test_sdrop_writes_no_alert_and_log_drops_nothing(tmp_path: Path) -> None:
    frames = [datagram(b"evil"), datagram(b"good")]
    text = rule('content:"evil";', "udp any any -> any any")
    assert ran(frames, text.replace("alert", "sdrop", 1), tmp_path) == ([frames[1]], [])
    assert ran(frames, text.replace("alert", "log", 1), tmp_path) == (frames, [])


def test_reject_resets_both_ends_of_tcp(tmp_path: Path) -> None:
    client, server = pair()
    frames = [*handshake(client, server), client.data(b"evil"), client.data(b"more")]
    passed, rows = ran(frames, rule('content:"evil";').replace("alert", "reject", 1), tmp_path)
    assert passed[:3] == frames[:3] and len(passed) == 5 and len(rows) == 1
    ends = {(frame[26:30], frame[30:34]) for frame in passed[3:]}
    assert ends == {(client.address, server.address), (server.address, client.address)}
    assert all(frame[47] & 4 for frame in passed[3:])


def test_reject_answers_a_datagram(tmp_path: Path) -> None:
    frame = datagram(b"evil")
    text = rule('content:"evil";', "udp any any -> any any").replace("alert", "reject", 1)
    (answer,), _ = ran([frame], text, tmp_path)
    assert answer[:6] == frame[6:12] and answer[6:12] == frame[:6]
    assert answer[26:30] == frame[30:34] and answer[30:34] == frame[26:30] and answer[23] == 1
    assert answer[34:36] == b"\x03\x03" and answer[42:] == frame[14:]
    total = sum(struct.unpack(f">{len(answer[34:]) // 2}H", answer[34:]))
    assert total % 0xFFFF == 0


def test_reject_does_not_answer_what_many_got(tmp_path: Path) -> None:
    text = rule('content:"evil";', "udp any any -> any any").replace("alert", "reject", 1)
    plain = datagram(b"evil")
    for at, bytes_ in ((0, b"\1"), (26, bytes(4)), (26, b"\xe0\0\0\1"), (30, b"\xe0\0\0\xfb"), (30, b"\xff" * 4)):
        frame = plain[:at] + bytes_ + plain[at + len(bytes_) :]
        assert ran([frame], text, tmp_path)[0] == []


def test_drop_needs_a_box_inline() -> None:
    rules = rule('content:"evil";').replace("alert", "drop", 1) + rule('content:"later";', sid=2)
    found = packets(connection([(">", b"evil"), (">", b"later")]), rules)
    assert found.sids == [1, 2] and {row["alert"]["action"] for row in found.rows} == {"allowed"}


def test_pass_comes_first() -> None:
    alert = rule('content:"evil";') + rule('content:"bad";', sid=2)
    passes = rule('content:"friend";', sid=3).replace("alert", "pass", 1)
    for rules in (alert + passes, passes + alert):
        assert packets(connection([(">", b"friend evil")]), rules).sids == []
        assert packets(connection([(">", b"evil"), (">", b"friend"), (">", b"bad")]), rules).sids == [1]
        assert packets(connection([(">", b"friend"), ("<", b"bad")]), rules).sids == []
    udp = [text.replace("tcp", "udp") for text in (alert, passes)]
    frames = [datagram(b"friend evil"), datagram(b"evil")]
    assert packets(frames, udp[0] + udp[1]).sids == packets(frames, udp[1] + udp[0]).sids == [1]
    http = rule('content:"/open"; http_uri;', sid=4).replace("alert", "pass", 1)
    assert packets(connection(get(b"/open?evil")), alert + http).sids == []


def test_a_filter_decides_when_a_rule_drops(tmp_path: Path) -> None:
    frames = [datagram(b"x%d" % number) for number in range(5)]
    text = rule('content:"x"; detection_filter:track by_src, count 3, seconds 60;', "udp any any -> any any")
    assert ran(frames, text.replace("alert", "drop", 1), tmp_path)[0] == frames[:3]


def test_the_packets_that_matched(tmp_path: Path) -> None:
    """Those of the pattern, in whichever order they came, and no others."""
    client, server = pair()
    frames = handshake(client, server)
    frames += [client.data(b"quiet text " * 3), client.data(b"an ev")]
    late = client.data(b"il te")
    frames += [client.data(b"xt"), late, server.send("A"), client.data(b"after")]
    frames += [datagram(b"evil"), datagram(b"good")]
    rules = rule('content:"evil text";') + rule('content:"evil";', "udp any any -> any any", 2)
    found = packets(frames, rules, f"packets={tmp_path}/m.pcap")
    assert found.sids == [1, 2]
    assert pcap_packets(tmp_path / "m.pcap") == [frames[4], frames[5], late, frames[-2]]


def test_packets_without_a_match_and_a_file_that_cannot_be_made(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    packets([datagram(b"good")], rule('content:"evil";', "udp any any -> any any"), f"packets={tmp_path}/m.pcap")
    assert pcap_packets(tmp_path / "m.pcap") == []


def test_the_profile(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_pcap(tmp_path / "in.pcap", [datagram(b"evil one"), datagram(b"evil two"), datagram(b"good")])
    (tmp_path / "a.rules").write_text(
        rule('content:"evil"; content:"one";', "udp any any -> any any") + rule('content:"never";', sid=2)
    )
    words = ["ids", str(tmp_path / "a.rules"), "-r", str(tmp_path / "in.pcap"), "--stack", "tcp_ip", "--profile"]
    capfd.readouterr()
    assert main([*words, "--json", "-o", str(tmp_path / "out")]) == 0
    (cost,) = json.loads(capfd.readouterr().out)["profile"]
    assert (cost["sid"], cost["checks"], cost["matches"]) == (1, 2, 1) and cost["nanoseconds"] > 0
    assert main([*words, "-o", str(tmp_path / "out")]) == 0
    assert "[1:1] rule 1" in capfd.readouterr().out.splitlines()[-1]


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
chain = Chain(function("ids", rules="a.rules", out="rows") >> function("saw.c"), stack=stack)
"""
SAW = """
#include "sluice.h"
SLUICE_COUNTER(sids, "the sum of their numbers")
SLUICE_COUNTER(bytes, "of their packets")
SLUICE_COUNTER(blocked, "alerts")
SLUICE_ON(chain, ids_alert) {
    SLUICE_COUNTER_OF(event->box, sids) += data->sid;
    SLUICE_COUNTER_OF(event->box, bytes) += data->packet.length;
    SLUICE_COUNTER_OF(event->box, blocked) += data->blocked && data->msg.length == 6;
}
"""


def test_the_event_in_a_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (("chain.py", CHAIN), ("saw.c", SAW)):
        Path(name).write_text(text)
    Path("a.rules").write_text(
        rule('content:"evil";', sid=7).replace("alert", "drop", 1) + rule('content:"ev";', sid=5)
    )
    frames = connection([(">", b"evil")], close=False)
    write_pcap(tmp_path / "in.pcap", frames)
    capfd.readouterr()
    assert main(["chain", "chain.py", "-r", "in.pcap", "-w", "out.pcap", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    reports = found["reports"]
    assert reports["saw.sids"] == 12 and reports["saw.blocked"] == 1 and reports["saw.bytes"] == 2 * len(frames[3])
    assert pcap_packets(tmp_path / "out.pcap") == frames[:3]
