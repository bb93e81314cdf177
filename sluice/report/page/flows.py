"""Flows: hosts and services, protocols as a tree, the flow table, and losses; of the rows of `flowlog`."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping
from typing import Any

from sluice.report.page.bounds import Largest, Ranking, ranked
from sluice.report.page.findings import Findings
from sluice.report.page.labels import Labels
from sluice.report.page.text import end, many, nanoseconds, share, size, visible

HOSTS = 20_000
"""Hosts, pairs and services whose sums are stored."""
PATHS = 1000
"""Different paths of layers in the tree."""
LABELLED = 1 << 20
"""Flows that the tree puts under the name of their application; others are under their layers."""
SHOWN = 25
COLUMNS = (
    "flow", "first", "duration", "protocol", "application", "client", "server", "name", "packets", "sent", "received",
    "state", "rexmit", "missing", "layers",
)  # fmt: skip
"""Of the flow table. Times are in nanoseconds."""
_BEACON_LEAST = 10
"""Connections, of a beacon."""
_PROTOCOLS = {"1": "icmp", "2": "igmp", "41": "ipv6", "47": "gre", "50": "esp", "51": "ah", "89": "ospf", "132": "sctp"}


class Flows:
    """Aggregates of flows. limit: how many the flow table has."""

    def __init__(self, findings: Findings, labels: Labels, limit: int) -> None:
        self._findings, self._labels = findings, labels
        self._hosts = Ranking[str](HOSTS, 5)
        self._pairs = Ranking[tuple[str, str]](HOSTS, 3)
        self._services = Ranking[tuple[str, int]](HOSTS, 3)
        self._beacons = Ranking[tuple[str, str, int]](HOSTS, 4)
        self._table = Largest(limit)
        self._lossy = Largest(SHOWN)
        self._paths: dict[str, int] = {}
        self._by_path: list[list[int]] = []
        self._other_paths = [0, 0, 0]
        self._flow_path, self._flow_packets, self._flow_bytes = array("H"), array("Q"), array("Q")
        self._lost: Counter[str] = Counter()
        self._causes: Counter[str] = Counter()
        self.total = self.packets = self.bytes = 0
        self._one_sided = 0

    def add(self, row: Mapping[str, Any]) -> None:
        """A row of flowlog."""
        packets = row["src_pkts"] + row["dst_pkts"]
        sent, received = row["src_bytes"], row["dst_bytes"]
        self.total += 1
        self.packets += packets
        self.bytes += sent + received
        src, dst = row["src"] or "?", row["dst"] or "?"
        self._hosts.add(src, sent + received, 1, row["src_pkts"], sent, received)
        self._hosts.add(dst, sent + received, 1, row["dst_pkts"], received, sent)
        self._pairs.add((src, dst) if src <= dst else (dst, src), sent + received, 1, packets)
        if row["dport"] is not None:
            self._services.add((row["proto"], row["dport"]), sent + received, 1, packets)
        self._path(row["flow"], row["layers"], packets, sent + received)
        self._loss(row, packets, sent + received)
        self._look(row, src, dst)
        if self._table.wants(sent + received):
            self._table.add(sent + received, _entry(row, packets))
        else:
            self._table.skip()

    def _path(self, flow: int, layers: str, packets: int, octets: int) -> None:
        number = self._paths.get(layers)
        if number is None and len(self._paths) < PATHS:
            number = self._paths[layers] = len(self._by_path)
            self._by_path.append([0, 0, 0])
        sums = self._other_paths if number is None else self._by_path[number]
        for place, value in enumerate((1, packets, octets)):
            sums[place] += value
        if number is None or not 0 < flow <= LABELLED:
            return
        while len(self._flow_path) < flow:  # numbers are those of flows in the order of their first packets
            self._flow_path.append(PATHS)
            self._flow_packets.append(0)
            self._flow_bytes.append(0)
        self._flow_path[flow - 1] = number
        self._flow_packets[flow - 1], self._flow_bytes[flow - 1] = packets, octets

    def _loss(self, row: Mapping[str, Any], packets: int, octets: int) -> None:
        gaps: list[Mapping[str, Any]] = row["gaps"] or []
        missing = sum(gap["length"] for gap in gaps)
        again = row["src_rexmit_pkts"] + row["dst_rexmit_pkts"]
        reordered = row["src_reordered_pkts"] + row["dst_reordered_pkts"]
        lost = self._lost
        lost["flows_with_rexmit"] += again > 0
        lost["rexmit_packets"] += again
        lost["rexmit_bytes"] += (row["src_rexmit"] or 0) + (row["dst_rexmit"] or 0)
        lost["reordered"] += reordered
        lost["flows_with_gaps"] += bool(gaps)
        lost["gaps"] += len(gaps) + (row.get("gaps_left_out") or 0)
        lost["gap_bytes"] += missing
        for gap in gaps:
            self._causes[gap["cause"]] += 1
        weight = again + reordered + 1000 * len(gaps)
        if weight and self._lossy.wants(weight):
            self._lossy.add(
                weight,
                {
                    "flow": row["flow"],
                    "ends": f"{end(row['src'], row['sport'])} → {end(row['dst'], row['dport'])}",
                    "packets": packets,
                    "rexmit": again,
                    "reordered": reordered,
                    "gaps": len(gaps),
                    "missing": missing,
                },
            )
        elif weight:
            self._lossy.skip()
        if missing:
            self._findings.add("gaps", f"{_ends(row)}: {size(missing)} missing of {size(octets)}", f"#{row['flow']}")
        if packets >= 100 and again * 20 > packets:
            self._findings.add(
                "loss", f"{_ends(row)}: {share(again, packets)} of {many(packets, 'packet')}", f"#{row['flow']}"
            )

    def _look(self, row: Mapping[str, Any], src: str, dst: str) -> None:
        search = f"#{row['flow']}"
        for side in ("src", "dst"):
            ttl = row[f"{side}_ttl"]
            if ttl and ttl[1] - ttl[0] > 5:
                self._findings.add("changed_ttl", f"{_ends(row)}: {row[side]} sent {ttl[0]} to {ttl[1]}", search)
        if row["proto"] != "tcp":
            return
        if row["src_payload"] + row["dst_payload"] and not (row["src_pkts"] and row["dst_pkts"]):
            self._findings.add("one_sided", _ends(row), search)
        # intervals between connections: last time, number, sum and sum of squares (in milliseconds)
        first = nanoseconds(row["first_ts"]) // 1_000_000
        key = (src, dst, row["dport"] or 0)
        known = self._beacons.sums(key)
        gap = max(first - known[1], 0) if known else 0
        self._beacons.add(key, 1, first - (known[1] if known else 0), gap, gap * gap)

    def _find_beacons(self) -> None:
        for (src, dst, port), (number, _, total, squares) in self._beacons.top(HOSTS):
            intervals = number - 1
            if number < _BEACON_LEAST:
                break
            mean = total / intervals
            variance = max(squares / intervals - mean * mean, 0)
            if mean >= 1000 and variance <= (mean / 10) ** 2:
                text = f"{src} → {end(dst, port)}: {number:,} connections, one every {mean / 1000:.1f} s"
                self._findings.add("beacon", text, f"{src} {dst}")

    def facts(self) -> dict[str, Any]:
        """Everything but the findings, which this adds."""
        self._find_beacons()
        names = self._labels.names
        hosts = ranked(self._hosts, SHOWN, ("host", "bytes", "flows", "packets_sent", "bytes_sent", "bytes_received"))
        for row in hosts["rows"]:
            row["names"] = names.get(row["host"], [])
        pairs = ranked(self._pairs, SHOWN, ("pair", "bytes", "flows", "packets"))
        services = ranked(self._services, SHOWN, ("service", "bytes", "flows", "packets"))
        return {
            "totals": {"flows": self.total, "packets": self.packets, "bytes": self.bytes},
            "hosts": {**hosts, "known": len(self._hosts)},
            "pairs": pairs,
            "services": services,
            "protocols": self._tree(),
            "flows": {"columns": list(COLUMNS), "rows": self._rows(), "left_out": self._table.left_out},
            "loss": {
                **{name: self._lost[name] for name in _LOST},
                "causes": dict(sorted(self._causes.items())),
                "rows": self._lossy.items(),
                "left_out": self._lossy.left_out,
            },
        }

    def _rows(self) -> list[list[Any]]:
        rows: list[list[Any]] = []
        for entry in self._table.items():
            application, name = self._labels.of(entry["flow"])
            rows.append(
                [entry.get(column, {"application": application, "name": name}.get(column)) for column in COLUMNS]
            )
        return rows

    def _tree(self) -> dict[str, Any]:
        """Nested: name, flows, packets, bytes, and children, those with most bytes first."""
        root: dict[str, Any] = {"name": "all flows", "sums": [0, 0, 0], "children": {}}
        for layers, number in self._paths.items():
            own = list(self._by_path[number])
            _grow(root, [*layers.split("/")], own)
        paths = list(self._paths)
        for flow, label in self._labels.all():
            if flow > len(self._flow_path) or self._flow_path[flow - 1] >= len(paths):
                continue
            node = root
            for layer in paths[self._flow_path[flow - 1]].split("/"):
                node = node["children"][layer]
            if node["name"] == label:
                continue
            leaf = node["children"].setdefault(label, {"name": label, "sums": [0, 0, 0], "children": {}})
            for place, value in enumerate((1, self._flow_packets[flow - 1], self._flow_bytes[flow - 1])):
                leaf["sums"][place] += value
        if self._other_paths[0]:
            _grow(root, ["other paths"], self._other_paths)
        return _frozen(root)


_LOST = (
    "flows_with_rexmit", "rexmit_packets", "rexmit_bytes", "reordered", "flows_with_gaps", "gaps", "gap_bytes",
)  # fmt: skip


def _grow(root: dict[str, Any], layers: list[str], sums: list[int]) -> None:
    """Add sums to all nodes of a path."""
    node = root
    for layer in [None, *layers]:
        if layer is not None:
            node = node["children"].setdefault(layer, {"name": layer, "sums": [0, 0, 0], "children": {}})
        for place, value in enumerate(sums):
            node["sums"][place] += value


def _frozen(node: dict[str, Any]) -> dict[str, Any]:
    flows, packets, octets = node["sums"]
    children = [_frozen(child) for child in node["children"].values()]
    children.sort(key=lambda child: (-child["bytes"], child["name"]))
    return {"name": node["name"], "flows": flows, "packets": packets, "bytes": octets, "children": children}


def _ends(row: Mapping[str, Any]) -> str:
    return f"{end(row['src'], row['sport'])} → {end(row['dst'], row['dport'])}"


def _entry(row: Mapping[str, Any], packets: int) -> dict[str, Any]:
    """Of the flow table. The name and the application are known at the end."""
    gaps: list[Mapping[str, Any]] = row["gaps"] or []
    return {
        "flow": row["flow"],
        "first": nanoseconds(row["first_ts"]),
        "duration": nanoseconds(row["duration"]),
        "protocol": _PROTOCOLS.get(row["proto"], row["proto"]),
        "client": end(row["src"], row["sport"]),
        "server": end(row["dst"], row["dport"]),
        "packets": packets,
        "sent": row["src_bytes"],
        "received": row["dst_bytes"],
        "state": visible(row["state"] or "").lower(),
        "rexmit": row["src_rexmit_pkts"] + row["dst_rexmit_pkts"],
        "missing": sum(gap["length"] for gap in gaps),
        "layers": row["layers"],
    }
