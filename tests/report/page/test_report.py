"""`sluice report`: facts about captures, hostile names, bounds, rules; one compilation serves all tests."""

from __future__ import annotations

import ctypes.util
import json
import os
import struct
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from sluice.cli.main import main
from sluice.engine.functions import VENDOR
from sluice.report.page.document import page
from sluice.report.page.facts import Facts
from tests.support.capture import pcap
from tests.support.connection import handshake, pair
from tests.support.corpus import OWN
from tests.support.packets import A4, eth, ip4, udp

ROOT = Path(__file__).resolve().parents[3]
STACK = Path(__file__).resolve().parents[1] / "small_stack.py"
GOLDEN = Path(__file__).resolve().parent / "golden"
pytestmark = pytest.mark.skipif(not VENDOR.is_dir(), reason="httplog needs llhttp (scripts/setup.sh)")

Report = Callable[..., tuple[dict[str, Any], str]]


@pytest.fixture
def report(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Report:
    """Runs `sluice report` with the smallest stack; returns the facts and the page."""

    def run(capture: Path, *arguments: str) -> tuple[dict[str, Any], str]:
        out = tmp_path / "report.html"
        assert main(["report", str(capture), "--stack", str(STACK), "-o", str(out), "--json", *arguments]) == 0
        printed = json.loads(capfd.readouterr().out)
        assert printed["packets"] == printed["facts"]["capture"]["packets"]
        return printed["facts"], out.read_text(encoding="utf-8")

    return run


@pytest.mark.parametrize(
    "capture",
    [
        ROOT / "examples" / "logs" / "capture.pcap",
        ROOT / "examples" / "more_logs" / "capture.pcap",
        OWN / "seladb_PcapPlusPlus__example.pcap",
        OWN / "gen__tcp_loss_reorder.pcap",
        OWN / "OISF_suricata-verify__tls-tls-subjectaltname-input.pcap",
        OWN / "aol_moloch__no-syn-ack.pcap",
    ],
    ids=lambda path: f"{path.parent.name}-{path.stem}",
)
def test_facts_of_captures(capture: Path, report: Report) -> None:
    facts, _ = report(capture, "--flows", "12")
    facts["capture"]["files"] = [capture.name]
    for row in facts["files"]["largest"]["rows"]:
        row["type"] = None  # libmagic's versions differ
    facts["files"]["types"] = None
    facts["findings"] = [found for found in facts["findings"] if found["kind"] not in ("executable", "disguised")]
    text = json.dumps(facts | {"sluice": ""}, indent=1, ensure_ascii=True) + "\n"
    path = GOLDEN / f"{capture.parent.name}-{capture.stem}.json"
    if os.environ.get("SLUICE_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert json.loads(text) == json.loads(path.read_text())


def test_sums_agree_with_the_capture(report: Report) -> None:
    facts, _ = report(OWN / "seladb_PcapPlusPlus__example.pcap")
    bars = facts["timeline"]["bars"]
    assert sum(bar[0] for bar in bars) == facts["capture"]["packets"] == facts["totals"]["packets"]
    assert sum(bar[1] for bar in bars) == facts["capture"]["bytes"] == facts["totals"]["bytes"]
    columns = facts["flows"]["columns"]
    rows = [dict(zip(columns, row, strict=True)) for row in facts["flows"]["rows"]]
    assert sum(row["packets"] for row in rows) == facts["totals"]["packets"]
    assert facts["protocols"]["bytes"] == sum(child["bytes"] for child in facts["protocols"]["children"])
    assert facts["loss"]["rexmit_packets"] == sum(row["rexmit"] for row in rows)


class Elements(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.scripts: list[str | None] = []
        self.attributes: set[str] = set()
        self.values: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.values += [value for _, value in attrs if value]
        if tag == "script":
            self.scripts.append(dict(attrs).get("type"))


HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u202egpj\x00'\"&\u2028" + "x" * 65_536


def check_harmless(text: str) -> None:
    """No element, attribute or address of a page comes from the network."""
    found = Elements(text)
    assert found.scripts == ["application/json", None]
    assert not {"img", "iframe", "link", "object", "base", "form"} & set(found.names)
    assert not [name for name in found.attributes if name.startswith("on") or name in ("src", "style", "action")]
    assert not [
        value for value in found.values if value.lower().startswith(("http:", "https:", "javascript:", "data:"))
    ]
    assert not {"\u202e", "\x00", "\u2028", "\u200b"} & set(text)
    assert any("default-src 'none'" in value for value in found.values)


def hostile(value: Any) -> Any:
    """The row with every text replaced by a hostile one, except those that are numbers, and names that rows share."""
    if isinstance(value, dict):
        kept = ("log", "ts", "first_ts", "last_ts", "timestamp", "duration", "delay", "layers", "proto", "synflood",
                "rtt", "rtt_server", "rtt_client", "source", "transport", "src", "dst")  # fmt: skip
        return {name: one if name in kept else hostile(one) for name, one in value.items()}
    if isinstance(value, list):
        return [hostile(one) for one in value]
    return HOSTILE if isinstance(value, str) else value


def test_hostile_rows_make_a_harmless_page() -> None:
    """Whatever a log would let through: every text of every row."""
    facts = Facts()
    lines = [*(ROOT / "examples" / "logs" / "expected.jsonl").read_text().splitlines()]
    lines += (ROOT / "examples" / "more_logs" / "expected.jsonl").read_text().splitlines()
    taken = 0
    for line in lines:
        row = json.loads(line)
        function = "flowlog" if "schema" in row else f"{row['log']}log"
        if function in ("ntplog", "gtplog", "sctplog"):
            continue
        facts.sink(function).write(json.dumps(hostile(row)).encode() + b"\n")
        taken += 1
    assert taken > 15
    facts.sink("portscan").write(json.dumps({"scanner": "10.0.0.1", "time": "1.0", "packet": 1}).encode())
    alert = {"timestamp": "2024-01-01T00:00:00.000000+0000", "flow_id": 1, "src_ip": "10.0.0.1", "dest_ip": "::1"}
    alert["alert"] = {"signature": HOSTILE, "signature_id": 1, "gid": 1, "severity": 1}
    facts.sink("ids").write(json.dumps(alert).encode())
    found = facts.facts(captures=[HOSTILE], octets=1, counters={}, reports={}, alerts=True, fault=HOSTILE)
    text = page(found, HOSTILE)
    check_harmless(text)
    assert len(text) < 400_000


def test_hostile_names_on_the_wire(report: Report, tmp_path: Path) -> None:
    client, server = pair()
    request = b"GET /" + b"p" * 60_000 + b" HTTP/1.1\r\nHost: </script><script>alert(1)</script>\r\n"
    request += b"User-Agent: \xe2\x80\xae<b>\r\n\r\n"
    packets = handshake(client, server)
    packets += [client.data(request[at : at + 1400]) for at in range(0, len(request), 1400)]
    packets.append(server.data(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nServer: <svg onload=x>\r\n\r\n"))
    capture = tmp_path / "<b>name.pcap"
    capture.write_bytes(pcap(packets))
    facts, text = report(capture)
    check_harmless(text)
    assert facts["http"]["exchanges"] == 1
    assert "&lt;/script&gt;" in text
    assert "\\u202e" in text


def test_bounds_are_said_on_the_page(report: Report) -> None:
    facts, text = report(OWN / "seladb_PcapPlusPlus__example.pcap", "--flows", "3")
    assert len(facts["flows"]["rows"]) == 3
    assert facts["flows"]["left_out"] == facts["totals"]["flows"] - 3
    assert f"{facts['flows']['left_out']:,} smaller ones are not in it" in text


def test_many_hosts_and_flows_stay_bounded() -> None:
    facts = Facts(flows=100)
    row = next(
        json.loads(line)
        for line in (ROOT / "examples" / "logs" / "expected.jsonl").read_text().splitlines()
        if "schema" in json.loads(line)
    )
    sink = facts.sink("flowlog")
    for number in range(1, 42_001):
        address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        sink.write(json.dumps(row | {"flow": number, "src": address}).encode())
    found = facts.facts(captures=["x"], octets=1, counters={}, reports={}, alerts=False)
    assert found["totals"]["flows"] == 42_000
    assert len(found["flows"]["rows"]) == 100
    assert found["hosts"]["known"] <= 40_000
    assert found["hosts"]["left_out"] + len(found["hosts"]["rows"]) >= 42_001
    assert len(page(found)) < 100_000


def test_an_empty_capture_has_a_page(report: Report, tmp_path: Path) -> None:
    capture = tmp_path / "empty.pcap"
    capture.write_bytes(pcap([]))
    facts, text = report(capture)
    assert facts["capture"]["packets"] == 0
    check_harmless(text)


def test_a_capture_that_is_cut_is_reported_to_its_end(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    capture, out = tmp_path / "cut.pcap", tmp_path / "cut.html"
    capture.write_bytes((ROOT / "examples" / "logs" / "capture.pcap").read_bytes()[:-10])
    assert main(["report", str(capture), "--stack", str(STACK), "-o", str(out)]) == 1
    assert "The capture ends early" in out.read_text()
    capfd.readouterr()


def test_the_input_is_not_overwritten(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    capture = tmp_path / "a.pcap"
    capture.write_bytes(pcap([]))
    assert main(["report", str(capture), "-o", str(capture)]) == 1
    assert "is the input as well" in capfd.readouterr().err


@pytest.mark.slow_matrix
@pytest.mark.skipif(ctypes.util.find_library("hs") is None, reason="no Hyperscan (scripts/setup.sh --tools)")
def test_alerts_of_rules_are_on_the_page(report: Report) -> None:
    rules = str(ROOT / "examples" / "detect" / "local.rules")
    facts, text = report(ROOT / "examples" / "logs" / "capture.pcap", "--rules", rules)
    assert facts["alerts"]["total"] == sum(rule["count"] for rule in facts["alerts"]["rules"]["rows"]) == 4
    assert "DNS query for www.example" in text


def test_http_2(report: Report) -> None:
    """A stream that an end resets is not a broken head."""
    capture = Path(__file__).resolve().parents[2] / "functions" / "logs" / "http2.pcap"
    if not ctypes.util.find_library("nghttp2"):
        pytest.skip("no libnghttp2, with which HTTP/2 is read")
    facts, html = report(capture)
    assert facts["http"]["methods"] == {"GET": 15, "HEAD": 1, "POST": 1}
    assert facts["http"]["hosts"]["rows"] and "nghttpd nghttp2/1.52.0" in html
    assert "smuggling" not in {found["kind"] for found in facts["findings"]}


def test_a_dns_message_without_a_question(report: Report, tmp_path: Path) -> None:
    """As those of multicast DNS that announce names: a row of dnslog has no members of a question then."""
    head = struct.pack(">HHHHHH", 0, 0x8400, 0, 1, 0, 0)
    answer = b"\4host\5local\0" + struct.pack(">HHIH", 1, 1, 60, 4) + bytes([10, 0, 0, 9])
    frame = eth(ip4(udp(5353, 5353, head + answer), 17, A4, bytes([224, 0, 0, 251])))
    (tmp_path / "in.pcap").write_bytes(pcap([frame] * 3))
    facts, _ = report(tmp_path / "in.pcap")
    assert facts["dns"]["messages"] == 3 and facts["dns"]["names"]["rows"] == []
    assert facts["totals"]["packets"] == 3


def test_what_the_capture_or_a_reset_breaks_is_no_finding() -> None:
    """Of HTTP: sides whose TLS is not opened, and streams of HTTP/3 that are reset. Of FTP: a login within TLS."""
    ends = {"flow": 1, "src": "10.0.0.1", "sport": 1, "dst": "10.0.0.2", "dport": 443}
    exchange = {"request": True, "response": True, "method": "GET", "path": "/", "status": 200}
    facts = Facts()
    for version, error in (("1.1", "TLS"), ("3", "REQUEST_CANCELLED"), ("2", "CANCEL")):
        row = {**ends, **exchange, "response_version": version, "response_error": error}
        facts.sink("httplog").write(json.dumps(row).encode() + b"\n")
    login = {**ends, "user": "me", "command": "PASS", "argument": "<hidden>", "reply_code": 230}
    facts.sink("ftplog").write(json.dumps({**login, "tls": True}).encode() + b"\n")
    found = facts.facts(captures=[], octets=0, counters={}, reports={}, alerts=False)
    assert found["findings"] == [] and found["http"]["exchanges"] == 3
    facts.sink("ftplog").write(json.dumps({**login, "tls": False}).encode() + b"\n")
    facts.sink("httplog").write(
        json.dumps({**ends, **exchange, "request_error": "HPE_INVALID_METHOD"}).encode() + b"\n"
    )
    found = facts.facts(captures=[], octets=0, counters={}, reports={}, alerts=False)
    assert {each["kind"] for each in found["findings"]} == {"cleartext", "smuggling"}


@pytest.mark.slow_matrix
def test_associations_of_sctp(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "report.html"
    assert main(["report", str(OWN / "aol_moloch__sctp-www.pcap"), "--stack", "sctp", "-o", str(out), "--json"]) == 0
    found = json.loads(capfd.readouterr().out)["facts"]["others"]["sctp"]
    assert found["count"] == 3
    assert "155.230.24.155:32836 → 203.255.252.194:80: 2 chunks and 17 back" in {row["text"] for row in found["rows"]}
