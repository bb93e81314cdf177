"""`sluice flows` against the truth: every flow of every capture that the stack reaches.

TRUTH.md of the corpus defines each figure, compare.py there what has to agree. Here more has to: all flows,
not only those with one right answer, agree in packets, payload, retransmitted bytes, stream, hash, gaps and
who sent SYN, FIN and RST; every reassembled datagram agrees byte by byte; and there is no flow that the truth
does not have. What is not compared stands in LEFT_OUT, TOO_DEEP and TAKEN_OTHERWISE, which are checked to be
no longer than they must.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest

from sluice.engine.box import Box, CompiledStack, Outcome, Settings, compile_stack
from sluice.engine.events import PythonFunction, Seen
from sluice.engine.functions import find_functions
from sluice.ir.build import Hook
from sluice.stacks.find import find_stack
from tests.support.conserve import check_all_ended, check_conservation
from tests.support.corpus import SHARED, captures, corpus, truth

pytestmark = pytest.mark.corpus

LEFT_OUT = {
    "tcp_ip": {
        "gre": "tunnel, with ERSPAN and VXLAN-GPE within it",
        "gtp": "tunnel",
        "vxlan": "tunnel",
        "geneve": "tunnel",
        "mpls": "label stack",
        "ppp": "PPP: as link type 9, in PPPoE, PPTP, L2TP",
        "chdlc": "Cisco HDLC, link type 104",
        "radiotap": "802.11, link type 127",
    },
    "everything": {},
}
"""Layers, as the truth's paths name them, that a stack does not have: flows seen above one are left out."""

TOO_DEEP = {("tcp_ip", "the-tcpdump-group_libpcap__ipv6_ext_headers.pcap", 0): "91 headers, the stack's bound is 16"}
"""UDP flows (stack, file, index) that the stack has the layers for, and gives up on, counted."""

FIN_FIRST = "data at the FIN's own number: truth.py takes the byte, the stack the FIN, which was there first"
FIN_IN_GAP = "a FIN in a gap: its number is no missing byte to the stack, and one to truth.py"

TAKEN_OTHERWISE = {
    ("david415_honeybadger-pcap-files__mots-with-fin.pcap", 0): FIN_FIRST,
    ("david415_honeybadger-pcap-files__mots-with-fin_no_3whs.pcap", 0): FIN_FIRST,
    ("ntop_nDPI__heuristic_tcp_ack_payload.pcap", 1): FIN_FIRST,
    ("ntop_nDPI__heuristic_tcp_ack_payload.pcap", 2): FIN_FIRST,
    ("ntop_nDPI__heuristic_tcp_ack_payload.pcap", 4): FIN_FIRST,
    ("ntop_nDPI__reasm_crash_anon.pcapng", 0): FIN_FIRST,
    ("ntop_nDPI__fuzz-2006-06-26-2594.pcap", 3): FIN_IN_GAP,
}
"""TCP flows (file, id) without one right answer, of which truth.py gives another than the stack. None is
`clean`; packets, payload and flags agree all the same, and so does the stream up to the FIN."""

Pair = tuple[tuple[str, int], tuple[str, int]]
Row = dict[str, Any]
Flow = dict[str, Any]


class Seen1(NamedTuple):
    """What one run of `sluice flows` came to."""

    rows: list[Row]
    outcome: Outcome


@cache
def flow_stack(stack: str) -> CompiledStack:
    """The stack as `sluice flows` compiles it."""
    wanted = find_functions(["flow_log"])
    return compile_stack(find_stack(stack), tuple(wanted.c), wanted.python_hooks())


@cache
def datagram_stack(stack: str) -> CompiledStack:
    """The stack with a look at each reassembled datagram."""
    return compile_stack(find_stack(stack), (), frozenset({Hook("ipv4", "data"), Hook("frag", "data")}))


def flows(stack: str, path: Path) -> Seen1:
    """`sluice flows --stack STACK -r PATH`, in this process."""
    with TemporaryDirectory() as folder:
        out = Path(folder, "flows.jsonl")
        with Box(flow_stack(stack), Settings(timeouts=False, seed=1), [], [f"out={out}"]) as box:
            outcome = box.run(path)
        rows = [json.loads(line) for line in out.read_text().splitlines()]
    return Seen1(rows, outcome)


@cache
def flows_of(stack: str, name: str) -> Seen1:
    """The same by name, once."""
    return flows(stack, next(path for path in captures() if path.name == name))


def pair(one: list[Any], other: list[Any]) -> Pair:
    """Both ends, in an order that does not depend on who sent first."""
    low, high = sorted(((one[0], int(one[1])), (other[0], int(other[1]))))
    return low, high


def foreign(stack: str, flow: Flow) -> set[str]:
    """Layers that the flow was seen below and that the stack does not have."""
    return {layer for path in flow["paths"] for layer in path.split(":")} & LEFT_OUT[stack].keys()


def by_pair(rows: list[Row], proto: str) -> dict[Pair, list[Row]]:
    """Rows of a protocol, by their ends, in order."""
    found: dict[Pair, list[Row]] = defaultdict(list)
    for row in rows:
        if row["proto"] == proto:
            found[pair([row["src"], row["sport"]], [row["dst"], row["dport"]])].append(row)
    return found


def matched(stack: str, name: str, proto: str) -> Iterator[tuple[Flow, Row | None]]:
    """Each flow that is not left out with its row. Fails for rows that no flow explains."""
    flows_here: list[Flow] = truth()[name][proto]
    rows = by_pair(flows_of(stack, name).rows, proto)
    wanted: dict[Pair, list[Flow]] = defaultdict(list)
    for flow in flows_here:
        wanted[pair(flow["a"], flow["b"])].append(flow)
    for ends, those in wanted.items():
        found = rows.pop(ends, [])
        if any(foreign(stack, flow) for flow in those):
            continue  # what the stack sees of them lies beside the tunnel
        assert len(found) <= len(those), f"{proto} {ends}: {len(found)} rows, {len(those)} flows"
        for number, flow in enumerate(those):
            yield flow, found[number] if number < len(found) else None
    assert not rows, f"{proto} flows that the truth does not have: {list(rows)}"


def sides(flow: Flow, row: Row) -> Iterator[tuple[str, Flow]]:
    """Both directions: the prefix of the row's keys, and the truth. The first sender is the row's source."""
    if [row["src"], row["sport"]] != flow["a"]:
        assert [row["dst"], row["dport"]] == flow["a"]
        yield "dst", flow["a2b"]
        yield "src", flow["b2a"]
    else:
        yield "src", flow["a2b"]
        yield "dst", flow["b2a"]


def holes(row: Row, side: str) -> list[list[int]]:
    """Offset and length of the gaps; not a last one without bytes behind it, which the truth has not."""
    own = [gap for gap in row["gaps"] if gap["side"] == side]
    found: list[list[int]] = []
    for gap in own:
        if found and found[-1][0] + found[-1][1] == gap["offset"]:
            found[-1][1] += gap["length"]
        else:
            found.append([gap["offset"], gap["length"]])
    delivered = row[f"{side}_stream"] + row[f"{side}_after_gap"] + sum(length for _, length in found)
    if found and sum(found[-1]) == delivered:
        found.pop()
    return found


def packet_figures(row: Row, side: str) -> dict[str, Any]:
    """What the row says of the packets of one direction."""
    seen = {flag: row[flag] in (side, "both") for flag in ("syn", "fin", "rst")}
    return {"packets": row[f"{side}_pkts"], "payload": row[f"{side}_payload"], **seen}


def true_packet_figures(way: Flow) -> dict[str, Any]:
    """The same as the truth has it."""
    seen = {"syn": bool(way["syn"] or way["synack"]), "fin": bool(way["fin"]), "rst": bool(way["rst"])}
    return {"packets": way["packets"], "payload": way["wire_payload_bytes"], **seen}


def stream_figures(row: Row, side: str) -> dict[str, Any]:
    """What the row says of the stream of one direction."""
    keys = ("stream", "sha256", "rexmit", "after_gap")
    gaps = holes(row, side)
    listed = gaps[:16]  # as many as truth.py keeps
    return {key: row[f"{side}_{key}"] for key in keys} | {"gap_count": len(gaps), "gaps": listed}


def true_stream_figures(way: Flow) -> dict[str, Any]:
    """The same as the truth has it."""
    return {
        "stream": way["contig_bytes"],
        "sha256": way["sha256"],
        "rexmit": way["retrans_bytes"],
        "after_gap": way["bytes_after_gap"],
        "gap_count": way["gap_count"],
        "gaps": way["gaps"],
    }


NAMES = list(truth())
stacks = pytest.mark.parametrize("stack", LEFT_OUT)


@stacks
@pytest.mark.parametrize("name", NAMES)
def test_tcp(stack: str, name: str) -> None:
    for flow, row in matched(stack, name, "tcp"):
        assert row is not None, f"flow {flow['id']} is missing"
        for side, way in sides(flow, row):
            assert packet_figures(row, side) == true_packet_figures(way), f"flow {flow['id']}"
        if (name, flow["id"]) in TAKEN_OTHERWISE:
            assert "clean" not in flow["flags"]
            continue
        for side, way in sides(flow, row):
            assert stream_figures(row, side) == true_stream_figures(way), f"flow {flow['id']}"


@stacks
@pytest.mark.parametrize("name", NAMES)
def test_udp(stack: str, name: str) -> None:
    for number, (flow, row) in enumerate(matched(stack, name, "udp")):
        if (stack, name, number) in TOO_DEEP:
            assert row is None
            assert flows_of(stack, name).outcome.counters["box"]["too deep"]
            continue
        assert row is not None, f"{flow['a']} {flow['b']} is missing"
        for side, way in sides(flow, row):
            assert row[f"{side}_pkts"] == way["packets"]
            assert row[f"{side}_payload"] == way["payload_bytes"]


@stacks
@pytest.mark.parametrize("name", NAMES)
def test_datagrams(stack: str, name: str) -> None:
    """Frame that completes it, and bytes, of every datagram that was in fragments."""
    found: list[tuple[int, str]] = []

    def saw(event: Seen) -> None:
        found.append((event.packet, hashlib.sha256(event.bytes).hexdigest()))

    look = PythonFunction("look", [("ipv4", "data", saw), ("frag", "data", saw)], [])
    path = next(path for path in captures() if path.name == name)
    with Box(datagram_stack(stack), Settings(timeouts=False, seed=1), [look]) as box:
        counters = box.run(path).counters
    entries = truth()[name]["reassembled"]
    inside = [entry for entry in entries if not set(entry["path"].split(":")) & LEFT_OUT[stack].keys()]
    assert sorted(found) == sorted((entry["frame"], entry["sha256"]) for entry in inside)
    done = Counter({4: counters["ipv4"]["ended:accept"], 6: counters["frag"]["ended:accept"]})
    assert done == Counter(entry["v"] for entry in inside)


@stacks
@pytest.mark.parametrize("name", NAMES)
def test_conservation(stack: str, name: str) -> None:
    _, outcome = flows_of(stack, name)
    assert outcome.fault is None
    assert outcome.packets == truth()[name]["packets"]
    assert outcome.counters["box"]["bytes"] == truth()[name]["wire_bytes"]
    check_conservation(flow_stack(stack).program, outcome.counters)
    check_all_ended(flow_stack(stack).program, outcome.counters)


@stacks
def test_nothing_is_left_out_without_need(stack: str) -> None:
    """Each layer of LEFT_OUT alone keeps a flow out; each flow of TAKEN_OTHERWISE differs by the FIN."""
    every = [flow for name in NAMES for proto in ("tcp", "udp") for flow in truth()[name][proto]]
    needed = {layer for flow in every if len(foreign(stack, flow)) == 1 for layer in foreign(stack, flow)}
    assert needed == {layer for flow in every for layer in foreign(stack, flow)}
    if corpus() == SHARED:
        assert needed == LEFT_OUT[stack].keys()
    for (name, number), reason in TAKEN_OTHERWISE.items():
        if name not in NAMES:
            continue
        flow, row = next((flow, row) for flow, row in matched(stack, name, "tcp") if flow["id"] == number)
        assert row is not None
        different = 0
        for side, way in sides(flow, row):
            less = true_stream_figures(way)["stream"] - stream_figures(row, side)["stream"]
            more = stream_figures(row, side)["rexmit"] - true_stream_figures(way)["rexmit"]
            assert less == more
            assert less in (0, 1)
            different += less if reason == FIN_FIRST else stream_figures(row, side) != true_stream_figures(way)
        assert different, f"{name} {number} needs no exception"


@pytest.mark.parametrize(("stack", "part"), [("tcp_ip", 0.7), ("everything", 1)])
def test_most_is_compared(stack: str, part: float) -> None:
    """Of all flows of the corpus, as many are compared as we think: an error in LEFT_OUT would show here."""
    kept = Counter[str]()
    for name in NAMES:
        for proto in ("tcp", "udp"):
            kept[proto] += sum(1 for _ in matched(stack, name, proto))
            kept["all"] += len(truth()[name][proto])
    assert kept["tcp"] + kept["udp"] >= part * kept["all"]
