"""DNS, HTTP, TLS and files: summaries of the rows of their logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from sluice.report.page.bounds import First, Largest, Ranking, ranked
from sluice.report.page.findings import Findings
from sluice.report.page.labels import Labels
from sluice.report.page.text import end, many, nanoseconds, share, size, visible, when

TEXTS = 5000
"""Different names, paths, clients and so on, whose numbers are stored."""
SHOWN = 15

Row = Mapping[str, Any]


def _client(row: Row) -> str:
    return row["src"] or "?"


def _counted(texts: Ranking[str], shown: int = SHOWN) -> dict[str, Any]:
    return ranked(texts, shown, ("text", "count"))


class Dns:
    """Names, types, outcomes and delays."""

    def __init__(self, findings: Findings, labels: Labels) -> None:
        self._findings, self._labels = findings, labels
        self._queries, self._clients, self._missing = (Ranking[str](TEXTS, 1) for _ in range(3))
        self._domains = Ranking[str](TEXTS, 2)
        self._names: dict[str, set[int]] = {}
        self._types: Counter[str] = Counter()
        self._codes: Counter[str] = Counter()
        self._outcomes = Ranking[str](TEXTS, 2)
        self._slow = Largest(SHOWN)
        self._counts: Counter[str] = Counter()

    def add(self, row: Row) -> None:
        """A row of dnslog."""
        proto = row["proto"]
        self._labels.flow(row["flow"], proto if proto in ("mdns", "llmnr") else "dns", row["query"])
        counts = self._counts
        counts["messages"] += 1
        counts["unanswered"] += bool(row["request"] and not row["response"] and proto in ("udp", "tcp"))
        counts["retries"] += row["retries"] or 0
        counts["malformed"] += row["malformed"] is not None
        name = (row["query"] or "").lower()
        if name:
            self._queries.add(visible(name), 1)
            self._clients.add(_client(row), 1)
            self._types[row["qtype"] if len(self._types) < TEXTS else "others"] += 1
            self._long(row, name)
        if row["response"] and row["rcode"]:
            self._codes[row["rcode"] if len(self._codes) < TEXTS else "others"] += 1
            missing = row["rcode"] == "NXDOMAIN"
            self._outcomes.add(_client(row), missing, 1)
            if missing and name:
                self._missing.add(visible(name), 1)
        answers: list[Row] = row["answers"] or []
        for answer in answers:
            if answer["type"] in ("A", "AAAA") and name:
                self._labels.address(answer["data"], row["query"])
        if row["delay"] is not None:
            delay = nanoseconds(row["delay"])
            if self._slow.wants(delay):
                self._slow.add(delay, {"query": visible(name), "delay": delay, "server": row["dst"]})
            else:
                self._slow.skip()

    def _long(self, row: Row, name: str) -> None:
        if len(name) >= 100:
            self._findings.add("long_name", f"{_client(row)}: {visible(name, 120)}", f"#{row['flow']}")
        labels = name.rstrip(".").rsplit(".", 2)
        if len(labels) < 3 or name.endswith(".arpa"):
            return
        domain = ".".join(labels[1:])
        # different names, estimated by the hashes of those that were seen: at most 200 of a domain
        seen = self._names.get(domain)
        if seen is None:
            if len(self._names) >= TEXTS:
                return
            seen = self._names[domain] = set()
        if len(seen) < 200:
            seen.add(hash(labels[0]))

    def facts(self) -> dict[str, Any]:
        """The summary; adds findings about hosts and domains."""
        for domain, seen in sorted(self._names.items(), key=lambda item: (-len(item[1]), item[0])):
            if len(seen) >= 100:
                more = " or more" if len(seen) >= 200 else ""
                self._findings.add("many_names", f"{domain}: {len(seen)}{more} names", domain)
        for host, (missing, answers) in self._outcomes.top(TEXTS):
            if missing >= 20 and missing * 2 > answers:
                text = f"{host}: {missing:,} of {many(answers, 'answer')} ({share(missing, answers)})"
                self._findings.add("nxdomain", text, host)
        return {
            **{name: self._counts[name] for name in ("messages", "unanswered", "retries", "malformed")},
            "names": _counted(self._queries),
            "clients": _counted(self._clients),
            "missing": _counted(self._missing),
            "types": dict(self._types.most_common(SHOWN)),
            "codes": dict(self._codes.most_common(SHOWN)),
            "slow": {"rows": self._slow.items(), "left_out": self._slow.left_out},
        }


BROKEN_2 = frozenset({"HEAD_TOO_LONG", "TABLE_TOO_LARGE"})
"""Errors of HTTP/2 and HTTP/3 for hostile heads. Others are those of captures, and codes of streams that are reset."""
CAPTURED = frozenset({"GAP", "EOF", "TLS"})
"""Errors of HTTP/1 that the capture or its key log is the reason of."""


class Http:
    """Hosts, methods, status, clients and servers."""

    def __init__(self, findings: Findings, labels: Labels) -> None:
        self._findings, self._labels = findings, labels
        self._hosts = Ranking[str](TEXTS, 2)
        self._paths, self._agents, self._servers, self._types = (Ranking[str](TEXTS, 1) for _ in range(4))
        self._methods: Counter[str] = Counter()
        self._status: Counter[str] = Counter()
        self._failed = First(SHOWN)
        self._counts: Counter[str] = Counter()

    def add(self, row: Row) -> None:
        """A row of httplog."""
        host = row["host"] or row["dst"] or "?"
        self._labels.flow(row["flow"], "http", row["host"])
        counts = self._counts
        counts["exchanges"] += 1
        counts["unanswered"] += bool(row["request"] and not row["response"])
        counts["request_bytes"] += row["request_body"] or 0
        counts["response_bytes"] += row["response_body"] or 0
        counts["incomplete"] += row["request_complete"] is False or row["response_complete"] is False
        self._hosts.add(visible(host), (row["response_body"] or 0) + (row["request_body"] or 0), 1)
        if row["request"]:
            self._methods[visible(row["method"], 20) if len(self._methods) < 100 else "others"] += 1
            self._paths.add(visible(f"{host}{row['path'] or ''}", 160), 1)
            self._agents.add(visible(row["user_agent"] or "(none)"), 1)
        if row["status"] is not None:
            self._status[str(row["status"]) if len(self._status) < 1000 else "others"] += 1
            if row["server"]:
                self._servers.add(visible(row["server"]), 1)
            self._types.add(visible((row["response_type"] or "(none)").partition(";")[0]), 1)
            if row["status"] >= 400:
                self._failed.add(
                    {"status": row["status"], "url": visible(f"{host}{row['path'] or ''}", 160), "flow": row["flow"]}
                )
        for side in ("request", "response"):
            error = row[f"{side}_error"]
            if error and (error in BROKEN_2 if row[f"{side}_version"] in ("2", "3") else error not in CAPTURED):
                self._findings.add("smuggling", f"{_ends(row)}: {side}: {error}", f"#{row['flow']}")

    def facts(self) -> dict[str, Any]:
        """The summary."""
        names = ("exchanges", "unanswered", "incomplete", "request_bytes", "response_bytes")
        return {
            **{name: self._counts[name] for name in names},
            "hosts": ranked(self._hosts, SHOWN, ("text", "bytes", "count")),
            "paths": _counted(self._paths),
            "agents": _counted(self._agents),
            "servers": _counted(self._servers),
            "types": _counted(self._types),
            "methods": dict(self._methods.most_common(SHOWN)),
            "status": dict(sorted(self._status.items())),
            "failed": {"rows": self._failed.items, "left_out": self._failed.left_out},
        }


OBSOLETE = frozenset({"SSLv2", "SSLv3", "TLSv1.0", "TLSv1.1", "TLSv1", "DTLSv1.0"})


class Tls:
    """Versions, ciphers, names, fingerprints and certificates."""

    def __init__(self, findings: Findings, labels: Labels) -> None:
        self._findings, self._labels = findings, labels
        self._names, self._ciphers, self._clients, self._issuers = (Ranking[str](TEXTS, 1) for _ in range(4))
        self._versions: Counter[str] = Counter()
        self._alpn: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()

    def add(self, row: Row) -> None:
        """A row of tlslog."""
        name = row["server_name"]
        self._labels.flow(row["flow"], "tls", name)
        if name and row["dst"]:
            self._labels.address(row["dst"], name)
        counts = self._counts
        counts["connections"] += 1
        counts["quic"] += row["transport"] == "quic"
        counts["dtls"] += str(row["version"] or row["version_offered"]).startswith("DTLS")
        counts["established"] += bool(row["established"])
        counts["resumed"] += bool(row["resumed"])
        version = row["version"] or "(no answer)"
        self._versions[version if len(self._versions) < 100 else "others"] += 1
        if row["version"] in OBSOLETE:
            self._findings.add(
                "old_tls", f"{_ends(row)} {visible(name or '', 80)}: {row['version']}", f"#{row['flow']}"
            )
        self._names.add(visible(name or "(none)"), 1)
        if row["cipher"] or row["cipher_id"]:
            self._ciphers.add(visible(row["cipher"] or row["cipher_id"]), 1)
        if row["ja4"]:
            self._clients.add(visible(row["ja4"]), 1)
        offered: list[str] = row["alpn_offered"] or []
        for text in offered:
            self._alpn[visible(text, 40) if len(self._alpn) < 100 else "others"] += 1
        self._certificate(row)
        alerts: list[Row] = row["alerts"] or []
        for alert in alerts:
            if alert["level"] == 2 and not row["established"]:
                text = f"{_ends(row)} {visible(name or '', 80)}: alert {alert['description']} of the {alert['from']}"
                self._findings.add("tls_alert", text, f"#{row['flow']}")

    def _certificate(self, row: Row) -> None:
        if not row["certificates"]:
            return
        leaf = row["certificates"][0]
        self._issuers.add(visible(leaf["issuer"] or "(none)"), 1)
        why: list[str] = []
        if leaf["issuer"] and leaf["issuer"] == leaf["subject"]:
            why.append("self-signed")
        time = when(nanoseconds(row["ts"]), 0).replace(" ", "T")
        if (leaf["not_after"] or "~") < time[: len(leaf["not_after"] or "")]:
            why.append(f"expired on {leaf['not_after']}")
        if (leaf["not_before"] or "")[: len(time)] > time:
            why.append(f"not valid before {leaf['not_before']}")
        if why:
            text = f"{end(row['dst'], row['dport'])} {visible(leaf['subject'] or '', 80)}: {', '.join(why)}"
            self._findings.add("certificate", text, f"#{row['flow']}")

    def facts(self) -> dict[str, Any]:
        """The summary."""
        return {
            **{name: self._counts[name] for name in ("connections", "quic", "dtls", "established", "resumed")},
            "versions": dict(self._versions.most_common(SHOWN)),
            "names": _counted(self._names),
            "ciphers": _counted(self._ciphers),
            "clients": _counted(self._clients),
            "issuers": _counted(self._issuers),
            "alpn": dict(self._alpn.most_common(SHOWN)),
        }


PROGRAMS = (
    "application/x-dosexec", "application/vnd.microsoft.portable-executable", "application/x-executable",
    "application/x-sharedlib", "application/x-pie-executable", "application/x-mach-binary", "application/x-msi",
)  # fmt: skip
_PACKED = ("application/zip", "application/x-rar", "application/x-7z-compressed", "application/java-archive")
_HARMLESS = ("text/", "image/", "video/", "audio/")


class Files:
    """Types, and the largest files."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._types = Ranking[str](TEXTS, 2)
        self._largest = Largest(40)
        self._counts: Counter[str] = Counter()

    def add(self, row: Row) -> None:
        """A row of filelog."""
        kind, declared = row["type"] or row["declared_type"] or "(unknown)", row["declared_type"] or ""
        self._counts["files"] += 1
        self._counts["bytes"] += row["length"] or 0
        self._counts["incomplete"] += not row["complete"]
        self._types.add(visible(kind, 80), row["length"] or 0, 1)
        name = visible(row["name"] or "(no name)", 120)
        if self._largest.wants(row["length"] or 0):
            members = {"name": name, "type": visible(kind, 80), "length": row["length"], "source": row["source"]}
            ends = {"src": row["src"], "dst": row["dst"], "flow": row["flow"]}
            self._largest.add(
                row["length"] or 0, {**members, **ends, "complete": row["complete"], "sha256": row["sha256"]}
            )
        else:
            self._largest.skip()
        where = f"{row['src']} → {row['dst']}: {name}, {visible(kind, 60)}, {size(row['length'] or 0)}"
        program = kind in PROGRAMS
        if program:
            self._findings.add("executable", where, f"#{row['flow']}")
        if (program or kind in _PACKED) and declared.startswith(_HARMLESS):
            self._findings.add("disguised", f"{where}, declared as {visible(declared, 60)}", f"#{row['flow']}")

    def facts(self) -> dict[str, Any]:
        """The summary."""
        return {
            **{name: self._counts[name] for name in ("files", "bytes", "incomplete")},
            "types": ranked(self._types, SHOWN, ("text", "bytes", "count")),
            "largest": {"rows": self._largest.items(), "left_out": self._largest.left_out},
        }


def _ends(row: Row) -> str:
    return f"{end(row['src'], row['sport'])} → {end(row['dst'], row['dport'])}"
