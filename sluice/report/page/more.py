"""Alerts, scans and floods, and the logs of SSH, SMTP, FTP, DHCP, ICMP, GTP and SCTP."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from sluice.report.page.bounds import First, Ranking, ranked
from sluice.report.page.findings import Findings
from sluice.report.page.labels import Labels
from sluice.report.page.text import end, many, visible

ALERTS = 500
"""Alerts that are listed."""
TEXTS = 5000
SHOWN = 15

Row = Mapping[str, Any]


class Alerts:
    """Alerts of `ids` by rule, and the first of them."""

    def __init__(self) -> None:
        self._rules = Ranking[tuple[int, int, str, int]](TEXTS, 1)
        self._hosts = Ranking[str](TEXTS, 1)
        self._first = First(ALERTS)
        self.total = 0

    def add(self, row: Row) -> None:
        """An alert in eve.json's shape."""
        alert = row["alert"]
        self.total += 1
        message = visible(alert.get("signature", ""))
        priority = alert.get("severity", 3)
        self._rules.add((alert.get("gid", 1), alert.get("signature_id", 0), message, priority), 1)
        self._hosts.add(row.get("src_ip") or "?", 1)
        self._first.add(
            {
                "time": row["timestamp"][:23].replace("T", " "),
                "rule": message,
                "priority": priority,
                "src": end(row.get("src_ip"), row.get("src_port")),
                "dst": end(row.get("dest_ip"), row.get("dest_port")),
                "flow": row["flow_id"],
            }
        )

    def facts(self) -> dict[str, Any]:
        """By rule, those of the highest priority (the lowest number) first."""
        rules: list[dict[str, Any]] = [
            {"gid": gid, "sid": sid, "message": message, "priority": priority, "count": count}
            for (gid, sid, message, priority), (count,) in self._rules.top(100)
        ]
        rules.sort(key=lambda rule: (rule["priority"], -rule["count"], rule["sid"]))
        return {
            "total": self.total,
            "rules": {"rows": rules, "left_out": self._rules.left_out(len(rules))},
            "hosts": ranked(self._hosts, SHOWN, ("text", "count")),
            "first": {"rows": self._first.items, "left_out": self._first.left_out},
        }


class Others:
    """The remaining logs: a few lines of each, and findings."""

    def __init__(self, findings: Findings, labels: Labels) -> None:
        self._findings, self._labels = findings, labels
        self._texts = {name: Ranking[str](TEXTS, 1) for name in TITLES}
        self._logins = Ranking[tuple[str, str]](TEXTS, 1)
        self._counts: Counter[str] = Counter()

    def ssh(self, row: Row) -> None:
        """A row of sshlog."""
        self._labels.flow(row["flow"], "ssh", row["server"])
        self._counts["ssh"] += 1
        self._texts["ssh"].add(visible(f"{row['client'] or '?'} → {row['server'] or '?'}"), 1)
        self._logins.add((row["src"] or "?", row["dst"] or "?"), 1)

    def smtp(self, row: Row) -> None:
        """A row of smtplog."""
        self._labels.flow(row["flow"], "smtp", row["mail_from"])
        self._counts["smtp"] += 1
        if row["mail_from"] is not None or row["subject"] is not None:
            to = ", ".join(row["recipients"] or [])
            self._texts["smtp"].add(
                visible(f"{row['mail_from'] or '<>'} → {to}: {row['subject'] or '(no subject)'}"), 1
            )
        if row["authenticated"] and not row["tls"]:
            self._findings.add("cleartext", f"SMTP {row['src']} → {end(row['dst'], row['dport'])}", f"#{row['flow']}")

    def ftp(self, row: Row) -> None:
        """A row of ftplog."""
        self._labels.flow(row["flow"], "ftp", row["user"])
        self._counts["ftp"] += 1
        if row["command"]:
            self._texts["ftp"].add(visible(f"{row['command']} {row['argument'] or ''}".strip()), 1)
        anonymous = (row["user"] or "").lower() in ("anonymous", "ftp")
        if row["command"] == "PASS" and row["reply_code"] == 230 and not anonymous and not row["tls"]:
            text = f"FTP {row['src']} → {end(row['dst'], row['dport'])}: user {visible(row['user'] or '?', 60)}"
            self._findings.add("cleartext", text, f"#{row['flow']}")

    def dhcp(self, row: Row) -> None:
        """A row of dhcplog."""
        self._labels.flow(row["flow"], "dhcp", row["host_name"])
        self._counts["dhcp"] += 1
        address = row["your_address"] or row["requested_address"]
        text = f"{row['type']} {row['client_mac'] or ''} {row['host_name'] or ''} {address or ''}"
        self._texts["dhcp"].add(visible(" ".join(text.split())), 1)

    def icmp(self, row: Row) -> None:
        """A row of icmplog."""
        self._counts["icmp"] += 1
        self._texts["icmp"].add(visible(f"{row['name'] or row['type']} from {row['src']}"), 1)

    def gtp(self, row: Row) -> None:
        """A row of gtplog: a tunnel, or a message of GTP-C."""
        self._labels.flow(row["flow"], "gtp", row["apn"])
        self._counts["gtp"] += 1
        if row["kind"] == "tunnel":
            packets = many(row["packets"], "packet")
            text = f"tunnel {row['teid']:#010x} from {row['src']} to {row['dst']}: {packets}"
        else:
            text = f"{row['type']} {row['imsi'] or ''} {row['apn'] or ''}"
        self._texts["gtp"].add(visible(" ".join(text.split())), 1)

    def sctp(self, row: Row) -> None:
        """A row of sctplog."""
        self._counts["sctp"] += 1
        ends = f"{end(row['src'], row['sport'])} → {end(row['dst'], row['dport'])}"
        sent = f"{many(row['src_data_chunks'] or 0, 'chunk')} and {row['dst_data_chunks'] or 0:,} back"
        aborted = f", aborted by {row['aborted_by']}" if row["aborted_by"] else ""
        self._texts["sctp"].add(visible(f"{ends}: {sent}{aborted}"), 1)

    def scan(self, row: Row) -> None:
        """A row of portscan."""
        self._findings.add("scan", f"{row['scanner']}, found at packet {row['packet']:,}", str(row["scanner"]))

    def flood(self, row: Row) -> None:
        """A row of synflood."""
        if row["synflood"] == "begin":
            text = f"{end(row['dst'], row['dport'])}: {many(row['half_open'], 'half-open connection')}"
            self._findings.add("flood", text, str(row["dst"]))

    def facts(self) -> dict[str, Any]:
        """By log: the number of rows, and the most frequent texts."""
        for (src, dst), (number,) in self._logins.top(TEXTS):
            if number >= 20:
                self._findings.add("many_ssh", f"{src} → {dst}: {number:,} connections", f"{src} {dst}")
        return {
            name: {"count": self._counts[name], **ranked(self._texts[name], SHOWN, ("text", "count"))}
            for name in TITLES
            if self._counts[name]
        }


TITLES = {
    "ssh": ("SSH", "connections"),
    "smtp": ("Mail", "transactions"),
    "ftp": ("FTP", "commands"),
    "dhcp": ("DHCP", "messages"),
    "icmp": ("ICMP", "messages"),
    "gtp": ("GTP", "tunnels and messages"),
    "sctp": ("SCTP", "associations"),
}
"""By log: its title, and the meaning of a row."""
