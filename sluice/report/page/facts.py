"""All facts of a report: reads the rows of logs as they are written, and returns a value that is JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from sluice.report.page.applications import Dns, Files, Http, Tls
from sluice.report.page.findings import Findings
from sluice.report.page.flows import Flows
from sluice.report.page.labels import Labels
from sluice.report.page.more import Alerts, Others
from sluice.report.page.text import many, visible
from sluice.report.page.timeline import Timeline

SCHEMA = "sluice-report-1"
FLOWS = 5000
"""Flows in the table of a page."""
PARAMETERS: dict[str, dict[str, str]] = {"synflood": {"cookies": "never"}}
"""Parameters that functions of a report have."""
_GIVEN_UP = ("malformed", "cut", "dropped")


class Facts:
    """Aggregates of a run. flows: how many flows the table has."""

    def __init__(self, flows: int = FLOWS) -> None:
        self._findings, self._labels = Findings(), Labels()
        self.timeline = Timeline()
        self.flows = Flows(self._findings, self._labels, flows)
        self.dns, self.http = Dns(self._findings, self._labels), Http(self._findings, self._labels)
        self.tls, self.files = Tls(self._findings, self._labels), Files(self._findings)
        self.alerts, self.others = Alerts(), Others(self._findings, self._labels)
        others = self.others
        self._takers: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "timeline": self.timeline.add,
            "flowlog": self.flows.add,
            "httplog": self.http.add,
            "tlslog": self.tls.add,
            "dnslog": self.dns.add,
            "filelog": self.files.add,
            "sshlog": others.ssh,
            "smtplog": others.smtp,
            "ftplog": others.ftp,
            "dhcplog": others.dhcp,
            "icmplog": others.icmp,
            "gtplog": others.gtp,
            "sctplog": others.sctp,
            "portscan": others.scan,
            "synflood": others.flood,
            "ids": self.alerts.add,
        }

    def sink(self, function: str) -> Rows:
        """Where the rows of a ready function go. Raises KeyError for one that a report does not use."""
        return Rows(self._takers[function])

    def facts(
        self,
        *,
        captures: list[str],
        octets: int,
        counters: Mapping[str, Mapping[str, int]],
        reports: Mapping[str, int],
        alerts: bool,
        fault: str | None = None,
        missing: list[str] | None = None,
        version: str = "",
    ) -> dict[str, Any]:
        """After the run: everything that a page shows.

        captures: names of files; octets: their size. counters, reports: of the box. alerts: whether there were rules.
        fault: why the capture ended early. missing: functions that could not run, each with the reason.
        """
        timeline = self.timeline.facts()
        layers = _layers(counters)
        for layer in layers:
            for name, number in layer["given_up"].items():
                kind, _, reason = name.partition(":")
                if kind in ("malformed", "cut"):
                    self._findings.add(kind, f"{layer['name']}, {reason}: {many(number, 'packet')}", "", number)
        flows = self.flows.facts()
        facts = {
            "schema": SCHEMA,
            "sluice": version,
            "capture": {
                "files": [visible(name) for name in captures],
                "file_bytes": octets,
                "packets": self.timeline.packets,
                "bytes": self.timeline.bytes,
                "captured_bytes": self.timeline.captured,
                "first": timeline["begin"],
                "fault": visible(fault) if fault else None,
                "not_run": missing or [],
            },
            "timeline": timeline,
            **flows,
            "dns": self.dns.facts(),
            "http": self.http.facts(),
            "tls": self.tls.facts(),
            "files": self.files.facts(),
            "others": self.others.facts(),
            "alerts": self.alerts.facts() if alerts else None,
            "layers": layers,
            "bounds": _bounds(reports, self._labels.left_out),
        }
        facts["findings"] = self._findings.facts()
        return facts


class Row(dict[str, Any]):
    """A row. Members that it lacks are null, as those of a question in a DNS message without one."""

    def __missing__(self, name: str) -> None:
        return None


class Rows:
    """Accepts whole lines of JSON, and forwards each row."""

    def __init__(self, take: Callable[[Mapping[str, Any]], None]) -> None:
        self._take = take

    def write(self, lines: bytes) -> None:
        """Accept whole lines."""
        for line in lines.splitlines():
            self._take(Row(json.loads(line)))

    def close(self) -> None:
        """The last row was taken."""


def _layers(counters: Mapping[str, Mapping[str, int]]) -> list[dict[str, Any]]:
    """Packets and bytes by layer, and drops by reason."""
    return [
        {
            "name": name,
            "packets": own.get("packets", 0),
            "bytes": own.get("bytes", 0),
            "given_up": {
                key: number for key, number in sorted(own.items()) if number and key.partition(":")[0] in _GIVEN_UP
            },
        }
        for name, own in counters.items()
        if name != "box" and own.get("packets")
    ]


BOUNDS = {
    "connections_left_out": "connections that a log left out, as too many were open",
    "streams_left_out": "exchanges that a log left out, as too many were open",
    "not_read": "connections with HTTP/2 or HTTP/3 that were not read",
    "undecodable": "sides of HTTP/2 connections, or streams of HTTP/3, not read after a head without a meaning",
    "no_memory": "events that a log left out for want of memory",
    "too_many": "messages that a log left out, as too many waited",
    "malformed": "messages that could not be read to their end",
    "cut_values": "texts that were cut",
    "gaps": "places where bytes of messages are missing",
    "early": "messages without their counterpart, as too many waited",
    "undecided": "connections that were not judged",
}
"""Counters of functions for incomplete results, by the end of their names."""


def _bounds(reports: Mapping[str, int], labels: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name, number in reports.items():
        text = next((text for ending, text in BOUNDS.items() if name.endswith(f"_{ending}")), None)
        if number and (text or name in ("flows out of order", "gaps left out")):
            found.append({"name": name, "what": text or name, "count": number})
    if labels:
        found.append({"name": "labels", "what": "flows without the name of their application", "count": labels})
    return found
