"""What a stack makes of a capture beside the truth, part by part. TRUTH.md of the corpus defines each figure.

More has to agree than compare.py of the corpus asks for. All flows, not only those with one right answer, agree in
packets, payload, retransmitted bytes, stream, hash, gaps and who sent SYN, FIN and RST; reassembled datagrams byte by
byte; frames in their paths; QUIC's packets in versions, kinds and connection ids; and there is no flow that the truth
does not have. What does not agree is explained in explained.toml.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sluice.stacks.find import find_stack
from tests.corpus.applications import associations, connections, datagrams, said
from tests.corpus.associations import Way, associations_of, true_way_figures, way_figures
from tests.corpus.boxes import Row, capture, datagrams_of, flows_of
from tests.corpus.paths import paths_of, true_paths
from tests.corpus.quic import packets_of, streams, true_packets
from tests.support.corpus import truth

Flow = dict[str, Any]
CLEAN = "tcp clean"
"""The part of the TCP flows that have one right answer."""

Pair = tuple[tuple[str, int], tuple[str, int]]

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


@dataclass(frozen=True)
class Disagreement:
    """`what` of a part, as `flow 3`, is other than the truth has it."""

    part: str
    what: str
    ours: Any
    truth: Any

    def __str__(self) -> str:
        return f"{self.part}: {self.what}: {self.ours}, truth {self.truth}"


@dataclass
class Part:
    """A part of the truth of a capture: how much of it there is, and what does not agree.

    not_compared: why nothing of it was, if so.
    """

    name: str
    there: int = 0
    disagreements: list[Disagreement] = field(default_factory=lambda: [])
    not_compared: str = ""

    def compare(self, what: str, ours: Any, true: Any) -> None:
        """Count `what` as compared."""
        self.there += 1
        if ours != true:
            self.add(what, ours, true)

    def add(self, what: str, ours: Any, true: Any) -> None:
        """What does not agree."""
        self.disagreements.append(Disagreement(self.name, what, ours, true))


# --- flows ------------------------------------------------------------------------------------------------------


def pair(one: list[Any], other: list[Any]) -> Pair:
    """Both ends, in an order that does not depend on who sent first."""
    low, high = sorted(((one[0], int(one[1])), (other[0], int(other[1]))))
    return low, high


def foreign(stack: str, flow: Flow) -> set[str]:
    """Layers that the flow was seen below and that the stack does not have."""
    return {layer for path in flow["paths"] for layer in path.split(":")} & LEFT_OUT.get(stack, {}).keys()


def by_pair(rows: list[Row], proto: str) -> dict[Pair, list[Row]]:
    """Rows of a protocol, by their ends, in order."""
    found: dict[Pair, list[Row]] = defaultdict(list)
    for row in rows:
        if row["proto"] == proto:
            found[pair([row["src"], row["sport"]], [row["dst"], row["dport"]])].append(row)
    return found


def matched(stack: str, name: str, proto: str) -> Iterator[tuple[Flow | None, Row | None]]:
    """Each flow that is not left out with its row, if there is one; at the end rows that no flow explains."""
    rows = by_pair(flows_of(stack, name).rows, proto)
    wanted: dict[Pair, list[Flow]] = defaultdict(list)
    for flow in truth()[name][proto]:
        wanted[pair(flow["a"], flow["b"])].append(flow)
    for ends, those in wanted.items():
        found = rows.pop(ends, [])
        if any(foreign(stack, flow) for flow in those):
            continue  # what the stack sees of them lies beside the tunnel
        for number, flow in enumerate(those):
            yield flow, found[number] if number < len(found) else None
        yield from ((None, row) for row in found[len(those) :])
    yield from ((None, row) for several in rows.values() for row in several)


def sides(flow: Flow, row: Row) -> list[tuple[str, Flow]]:
    """Both directions: the prefix of the row's keys, and the truth. The first sender is the row's source."""
    same = [row["src"], row["sport"]] == flow["a"]
    return [("src" if same else "dst", flow["a2b"]), ("dst" if same else "src", flow["b2a"])]


def holes(row: Row, side: str) -> list[list[int]]:
    """Offset and length of the gaps; not of a last one without bytes after it, which the truth has not."""
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


def differing(ours: dict[str, Any], true: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of both only what differs."""
    names = [name for name in true if ours.get(name) != true[name]]
    return {name: ours.get(name) for name in names}, {name: true[name] for name in names}


Figures = Callable[[Row, str, Flow], tuple[dict[str, Any], dict[str, Any]]]


def tcp_figures(row: Row, side: str, way: Flow) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the row and the truth say of a direction of a TCP flow."""
    ours = packet_figures(row, side) | stream_figures(row, side)
    return ours, true_packet_figures(way) | true_stream_figures(way)


def udp_figures(row: Row, side: str, way: Flow) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same of UDP."""
    return (
        {"packets": row[f"{side}_pkts"], "payload": row[f"{side}_payload"]},
        {"packets": way["packets"], "payload": way["payload_bytes"]},
    )


def sctp_figures(row: Row, side: str, way: Flow) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same of SCTP: the stream is the user data in the order of the TSNs, which rexmit counts again."""
    keys = ("stream", "sha256", "rexmit")
    return (
        {"packets": row[f"{side}_pkts"]} | {key: row[f"{side}_{key}"] for key in keys},
        {"packets": way["packets"], "stream": way["bytes"], "sha256": way["sha256"], "rexmit": way["dup_tsn"]},
    )


FIGURES: dict[str, Figures] = {"tcp": tcp_figures, "udp": udp_figures, "sctp": sctp_figures}


def compare_flows(stack: str, name: str, proto: str) -> list[Part]:
    """The flows of a protocol; of TCP those with one right answer apart."""
    clean, other = Part(CLEAN), Part("tcp other" if proto == "tcp" else proto)
    parts = [clean, other] if proto == "tcp" else [other]
    if proto not in find_stack(stack).layers:
        other.not_compared = f"the stack has no layer '{proto}'"
        other.there = len(truth()[name][proto])
        return parts
    numbers = {id(flow): number for number, flow in enumerate(truth()[name][proto])}
    for flow, row in matched(stack, name, proto):
        if flow is None:
            assert row is not None
            ends = f"{row['src']} {row['sport']} {row['dst']} {row['dport']}"
            other.add(f"row {ends}", row["layers"], None)
            continue
        part = clean if "clean" in flow.get("flags", ()) else other
        what = f"flow {numbers[id(flow)]}"
        if row is None:
            part.compare(what, None, flow["paths"])
            continue
        both = [FIGURES[proto](row, side, way) for side, way in sides(flow, row)]
        part.compare(what, *(both[0] if both[0][0] != both[0][1] else both[1]))
        if part.disagreements and part.disagreements[-1].what == what:
            wrong = part.disagreements.pop()
            part.add(what, *differing(wrong.ours, wrong.truth))
    return parts


# --- the rest ---------------------------------------------------------------------------------------------------


def compare_datagrams(stack: str, name: str) -> Part:
    """Frame that completes it, and bytes, of every datagram that was in fragments; and that the counters say so."""
    part = Part("datagrams")
    outside = LEFT_OUT.get(stack, {}).keys()
    entries = [entry for entry in truth()[name]["reassembled"] if not set(entry["path"].split(":")) & outside]
    found = datagrams_of(stack, name)
    ours = Counter(found.found)
    true = Counter((entry["frame"], entry["sha256"]) for entry in entries)
    part.there = true.total()
    for frame in sorted({frame for frame, _ in (ours - true) + (true - ours)}):
        here = [[hash for at, hash in sorted(several.elements()) if at == frame] for several in (ours, true)]
        part.add(f"frame {frame}", here[0], here[1])
    versions = Counter({version: count for version, count in found.versions.items() if count})
    if not part.disagreements and versions != Counter(entry["v"] for entry in entries):
        part.add("counters", dict(versions), dict(Counter(entry["v"] for entry in entries)))
    return part


def compare_messages(stack: str, name: str) -> Part:
    """Of each association that has data, each way: its chunks in their order, and the messages of each stream."""
    part = Part("messages")
    if "sctp_message" not in find_stack(stack).layers:
        part.there = len(truth()[name]["sctp"])
        part.not_compared = "the stack has no layer 'sctp_message'"
        return part
    ways = {ends: list(several) for ends, several in associations_of(stack, name).items()}
    for number, flow in enumerate(truth()[name]["sctp"]):
        a, b = (flow["a"][0], int(flow["a"][1])), (flow["b"][0], int(flow["b"][1]))
        for ends, way in ((a + b, flow["a2b"]), (b + a, flow["b2a"])):
            several = ways.get(ends)
            ours = several.pop(0) if several else Way()
            what = f"flow {number}, from {ends[0]} {ends[1]}"
            part.compare(what, *differing(way_figures(ours), true_way_figures(way)))
    for ends, several in ways.items():
        if several:
            part.add(f"more associations from {ends[0]} {ends[1]}", len(several), 0)
    return part


def compare_paths(stack: str, name: str) -> Part:
    """How many frames have which path."""
    part = Part("paths")
    if LEFT_OUT.get(stack):
        part.not_compared = "the stack leaves layers out"
        return part
    ours, true = paths_of(stack, capture(name), truth()[name]), true_paths(truth()[name])
    for path in sorted(ours.keys() | true.keys()):
        part.compare(path, ours[path], true[path])
    return part


def compare_applications(stack: str, name: str) -> Part:
    """What the programs at both ends say they sent, and what was delivered."""
    part = Part("application")
    if any(foreign(stack, flow) for proto in ("tcp", "udp") for flow in truth()[name][proto]):
        part.not_compared = "the stack leaves layers out"
        return part
    compared = connections(stack, name) + datagrams(stack, name) + associations(stack, name)
    if "quic" in find_stack(stack).layers:
        compared += streams(stack, name, said(name))
    for what, ours, true in compared:
        part.compare(what, ours, true)
    return part


def compare_quic(stack: str, name: str) -> Part:
    """QUIC's packets of each pair of ends: versions, kinds, connection ids."""
    part = Part("quic")
    wanted = list(true_packets(name))
    if "quic" not in find_stack(stack).layers:
        part.not_compared = "the stack has no layer 'quic'"
        part.there = len(wanted)
        return part
    found = dict(packets_of(stack, name))
    for number, ends, true in wanted:
        flow = found.pop(ends, None)
        both = (None, true) if flow is None else differing(flow.figures(), true)
        part.compare(f"flow {number}", *both)
    for ends, flow in found.items():
        part.add(f"ends {', '.join(sorted(ends))}", flow.figures(), None)
    return part


PARTS: dict[str, Callable[[str, str], list[Part]]] = {
    **{proto: partial(compare_flows, proto=proto) for proto in FIGURES},
    "messages": lambda stack, name: [compare_messages(stack, name)],
    "quic": lambda stack, name: [compare_quic(stack, name)],
    "datagrams": lambda stack, name: [compare_datagrams(stack, name)],
    "paths": lambda stack, name: [compare_paths(stack, name)],
    "application": lambda stack, name: [compare_applications(stack, name)],
}
"""What compares a part of the truth of a capture, by stack and file name."""
