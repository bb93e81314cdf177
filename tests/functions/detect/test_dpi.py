"""`dpi`: applications, hostnames and risks of flows, and agreement with ndpiReader flow by flow."""

from __future__ import annotations

import ipaddress
import json
import re
import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sluice.engine.box import Box, CompiledStack, Settings, compile_stack
from sluice.engine.functions import find_functions
from sluice.stacks.find import find_stack
from tests.functions.detect.boxes import START, connection, datagram, missing
from tests.support.conserve import check_all_ended, check_conservation
from tests.support.corpus import captures, corpus

MISSING = missing("dpi", "nDPI (Debian: libndpi-dev)")
pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)

Flow = tuple[str, frozenset[tuple[str, int]]]
"""The protocol and the two ends."""


@cache
def compiled() -> CompiledStack:
    """`dpi` over tcp_ip."""
    return compile_stack(find_stack("tcp_ip"), tuple(find_functions(["dpi"]).c))


def run(feed: Callable[[Box], object], parameters: str = "") -> tuple[list[dict[str, Any]], dict[str, int]]:
    """The rows and the reports about what `feed` gives a box."""
    with tempfile.TemporaryDirectory() as folder:
        options = f"out={folder}/rows{parameters and ',' + parameters}"
        with Box(compiled(), Settings(seed=1, timeouts=False, max_instances=1 << 16), [], [options]) as box:
            feed(box)
            box.finish()
            reports = box.reports()
            check_conservation(compiled().program, box.counters())
            check_all_ended(compiled().program, box.counters())
        return [json.loads(line) for line in Path(folder, "rows").read_text().splitlines()], reports


def packets(frames: list[bytes], parameters: str = "") -> tuple[list[dict[str, Any]], dict[str, int]]:
    def feed(box: Box) -> None:
        for number, data in enumerate(frames):
            box.packet(data, START + number * 10**6, 1, len(data))

    return run(feed, parameters)


REQUEST = b"GET /a HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: Mozilla/5.0 (X11)\r\n\r\n"
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def test_a_row_says_application_category_and_hostname() -> None:
    ((row,), _) = packets(connection([(">", REQUEST), ("<", RESPONSE)]))
    assert (row["application"], row["category"], row["hostname"]) == ("HTTP", "Web", "www.example.com")
    assert (row["src"], row["dport"], row["protocol"], row["guessed"]) == ("10.0.0.1", 80, 6, False)


def test_segments_out_of_order_are_reassembled() -> None:
    request = REQUEST[:-2] + b"Cookie: " + b"c" * 200 + b"\r\n\r\n"
    frames = connection([(">", request), ("<", RESPONSE)], 100)
    mixed = [*frames[:3], frames[4], frames[4], frames[3], *frames[5:]]
    ((plain,), _), ((row,), _) = packets(frames), packets(mixed)
    named = ("application", "hostname", "category", "risks")
    assert [row[name] for name in named] == [plain[name] for name in named]
    assert row["hostname"] == "www.example.com"


def test_risks_are_named() -> None:
    """HTTP on a port that is not its own."""
    ((row,), _) = packets(connection([(">", REQUEST), ("<", RESPONSE)], port=4444))
    assert row["risks"] == ["Known Protocol on Non Standard Port"]


def test_what_is_not_recognised_is_counted() -> None:
    noise = bytes(range(1, 40)) * 3
    rows, reports = packets([datagram(noise, 40001, 40002)] * 30)
    assert [row["application"] for row in rows] == [None]
    assert reports["dpi_unknown"] == reports["dpi_given_up"] == 1
    assert rows[0]["inspected"] == 25


def test_the_number_of_flows_is_bounded() -> None:
    rows, reports = packets([datagram(b"x", 1000 + n) for n in range(10)], "flows=4")
    assert len(rows) == 4 and reports["dpi_left_out"] == 6


SAW = """
#include "sluice.h"
SLUICE_COUNTER(seen, "flows")
SLUICE_COUNTER(risks, "bits of all")
SLUICE_COUNTER(named, "with this application, category and hostname")
SLUICE_ON(chain, dpi_application) {
    SLUICE_COUNTER_OF(event->box, seen)++;
    SLUICE_COUNTER_OF(event->box, risks) |= data->risks;
    SLUICE_COUNTER_OF(event->box, named) += data->protocol == 7 && data->category.length == 3 && !data->guessed &&
        data->hostname.length == 15 && memcmp(data->hostname.at, "www.example.com", 15) == 0 &&
        data->risk_names.length > 0 && event->instance != NULL;
}
"""


def mixed() -> list[bytes]:
    """A connection that is recognised by its bytes, one by its port alone at its end, and datagrams of neither."""
    frames = connection([(">", REQUEST), ("<", RESPONSE)], port=4444)
    frames += connection([(">", b"\1\2\3")], client_port=41000, port=22)
    return frames + [datagram(bytes(range(1, 40)), 40001, 40002)] * 3


def joined(
    names: list[str], frames: list[bytes], folder: Path
) -> tuple[dict[str, list[dict[str, Any]]], dict[str, int]]:
    """The rows of functions that write some, by name, and the reports."""
    wanted = find_functions(names)
    written = [name for name in names if "." not in name]
    options = [f"out={folder}/{name}" if name in written else "" for name in names]
    with Box(
        compile_stack(find_stack("tcp_ip"), tuple(wanted.c)), Settings(seed=1, timeouts=False), [], options
    ) as box:
        for number, data in enumerate(frames):
            box.packet(data, START + number * 10**6, 1, len(data))
        box.finish()
        check_conservation(box.stack.program, box.counters())
        reports = box.reports()
    rows = {name: [json.loads(line) for line in (folder / name).read_text().splitlines()] for name in written}
    return rows, reports


COLUMNS = ("application", "category", "guessed", "hostname", "risks")


def test_columns_of_the_flow_log(tmp_path: Path) -> None:
    """In the order of flows, those of the rows of dpi; without dpi there are none."""
    rows, reports = joined(["dpi", "flowlog"], mixed(), tmp_path)
    ours = {(row["src"], row["sport"]): row for row in rows["dpi"]}
    assert len(rows["flowlog"]) == len(ours) == 3
    for row in rows["flowlog"]:
        own = ours[row["src"], row["sport"]]
        assert {name: row[name] for name in COLUMNS} == {name: own[name] for name in COLUMNS}
    assert [row["application"] for row in rows["flowlog"]] == ["HTTP", "SSH", None]
    assert rows["flowlog"][0]["risks"] == ["Known Protocol on Non Standard Port"]
    assert not any("before flowlog" in name for name in reports)
    alone, _ = joined(["flowlog"], mixed(), tmp_path)
    assert not any(set(COLUMNS) & row.keys() for row in alone["flowlog"])


def test_columns_where_dpi_is_after_the_flow_log(tmp_path: Path) -> None:
    """What is decided at the end of a flow is after its row: it is counted."""
    rows, reports = joined(["flowlog", "dpi"], mixed(), tmp_path)
    assert [row.get("application") for row in rows["flowlog"]] == ["HTTP", None, None]
    (left_out,) = [value for name, value in reports.items() if "before flowlog" in name]
    assert left_out == sum("application" not in row for row in rows["flowlog"]) == 2


def test_the_event_for_other_functions(tmp_path: Path) -> None:
    (tmp_path / "saw.c").write_text(SAW)
    _, reports = joined(["dpi", str(tmp_path / "saw.c")], mixed(), tmp_path)
    assert (reports["seen"], reports["named"]) == (3, 1) and reports["risks"]


LINE = re.compile(r"^\t\d+\t(\S+) (\S+) (?:<->|->) (\S+) \[.*?proto: [\d.]+/([^\]]+)\]")
NUMBERS = {6: "TCP", 17: "UDP", 1: "ICMP", 58: "ICMPV6"}
CAPTURES = (
    "ntop_nDPI__teams.pcap",
    "OISF_suricata-verify__tls-tls-subjectaltname-input.pcap",
    "aol_moloch__v6-http.pcap",
    "aol_moloch__wireshark-retrans.pcap",
    "david415_honeybadger-pcap-files__qi_local_GET_slashdot_redirect.pcap",
    "gen__tcp_clean.pcap",
)
EXPLAINED = {
    (
        "ntop_nDPI__teams.pcap",
        "TLS.Azure",
        "TLS.Microsoft",
    ): "the name of the server, which ndpiReader does not have here",
    (
        "OISF_suricata-verify__tls-tls-subjectaltname-input.pcap",
        "HTTP.WindowsUpdate",
        "HTTP",
    ): "two connections on the same ports: ndpiReader takes them for one flow",
    (
        "OISF_suricata-verify__tls-tls-subjectaltname-input.pcap",
        "TLS.Microsoft",
        "TLS.Azure",
    ): "two connections on the same ports: ndpiReader takes them for one flow",
}
"""What ndpiReader says, what `dpi` says, and why."""


OTHER_LAYERS = {
    "mpls", "pppoe", "PPPoE", "hdlc", "ppp", "dlt_ppp", "80211", "BGP_redist", "EoMPLS", "HDLC", "PPP_negotiation",
}  # fmt: skip
"""Parts of the names of captures whose packets are within layers that `tcp_ip` has not: `everything` reads them."""
ELSEWHERE = {
    ("LibtraceTeam_libtrace__vlan.pcap", "TLS", "Z39.50"): "a connection in its middle: guessed from single bytes",
    (
        "david415_honeybadger-pcap-files__handshake_lost_hijack_netcat_loopback1.pcapng",
        "HTTP",
        "Unknown",
    ): "the injected request is out of the window, and no data of the connection",
    ("ntop_nDPI__heuristic_tcp_ack_payload.pcap", "TLS", "TLS.Pinterest"): "the hello was reassembled: more is found",
    ("gen__tcp_loss_reorder.pcap", "Unknown", "TLS"): "guessed, from random bytes in their order",
    ("gen__tun_ip6tnl.pcap", "Unknown", "TLS"): "guessed, from random bytes in their order",
}
"""The same of other captures of the corpus."""


def end(text: str) -> tuple[str, int]:
    """An address with a port, as ndpiReader writes them."""
    match = re.fullmatch(r"\[(.*)\]:(\d+)|([^:]+):(\d+)", text)
    address, port = ((match[1] or match[3]), int(match[2] or match[4])) if match else (text, 0)
    try:
        return str(ipaddress.ip_address(address)), port
    except ValueError:  # it writes some addresses of IPv6 with "::" twice
        return address, port


def of_reader(capture: Path) -> dict[Flow, set[str]]:
    """The applications that ndpiReader names, by flow."""
    done = subprocess.run(
        ["ndpiReader", "-i", str(capture), "-v", "2"], capture_output=True, text=True, errors="replace"
    )
    found: dict[Flow, set[str]] = defaultdict(set)
    for line in done.stdout.splitlines():
        if match := LINE.match(line):
            found[match[1], frozenset([end(match[2]), end(match[3])])].add(match[4])
    return found


@pytest.mark.corpus
@pytest.mark.skipif(shutil.which("ndpiReader") is None, reason="no ndpiReader (Debian: libndpi-bin)")
@pytest.mark.parametrize("name", CAPTURES)
def test_it_agrees_with_ndpi_reader(name: str) -> None:
    capture = corpus() / name
    if not capture.is_file():
        pytest.skip(f"the corpus here has no {name}")
    rows, _ = run(lambda box: box.run(capture))
    theirs, ours = of_reader(capture), dict[Flow, set[str]]()
    for row in rows:
        flow = NUMBERS[row["protocol"]], frozenset([(row["src"], row["sport"] or 0), (row["dst"], row["dport"] or 0)])
        ours.setdefault(flow, set()).add(row["application"] or "Unknown")
    assert theirs and theirs.keys() == ours.keys()
    for flow, applications in theirs.items():
        (said,) = applications
        for application in ours[flow]:
            assert application == said or (name, said, application) in EXPLAINED, flow


@pytest.mark.corpus
@pytest.mark.slow_matrix
@pytest.mark.skipif(shutil.which("ndpiReader") is None, reason="no ndpiReader (Debian: libndpi-bin)")
def test_it_agrees_with_ndpi_reader_on_the_corpus() -> None:
    """On each flow of TCP, UDP or ICMP that both have; flows that ndpiReader alone has are few."""
    compared, only_theirs = 0, 0
    for capture in captures():
        rows, _ = run(lambda box, capture=capture: box.run(capture))
        ours: dict[Flow, set[str]] = defaultdict(set)
        for row in rows:
            ends = frozenset([(row["src"], row["sport"] or 0), (row["dst"], row["dport"] or 0)])
            ours[NUMBERS[row["protocol"]], ends].add(row["application"] or "Unknown")
        for flow, named in of_reader(capture).items():
            if flow[0] not in NUMBERS.values():
                continue
            compared += flow in ours
            only_theirs += flow not in ours and not any(part in capture.name for part in OTHER_LAYERS)
            for application in ours.get(flow, ()):
                why = {(capture.name, said, application) for said in named} & (EXPLAINED | ELSEWHERE).keys()
                assert application in named or why, (capture.name, flow)
    assert compared > 6000 and only_theirs < 60
