"""The part of our rows in Zeek's logs: the names and types of its fields, and which member of a row they are.

Zeek's documentation, "Log files", has the meanings of its fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class Field:
    """A field: its name and type in Zeek, the member of a row that it replaces, and its value if it differs."""

    name: str
    type: str
    member: str = ""
    value: Callable[[Row], Any] | None = None


PATHS = {"flow": "conn", "tls": "ssl", "file": "files", "ntp": "ntp", "dhcp": "dhcp", "ssh": "ssh", "smtp": "smtp"}
"""Zeek's name of a log, where it differs from ours."""


def _uid(row: Row) -> str | None:
    return f"C{row['flow']}" if row.get("flow") is not None else None


def _begins(time: str = "ts") -> list[Field]:
    return [
        Field("ts", "time", time),
        Field("uid", "string", "", _uid),
        Field("id.orig_h", "addr", "src"),
        Field("id.orig_p", "port", "sport", lambda row: row.get("sport") or 0),
        Field("id.resp_h", "addr", "dst"),
        Field("id.resp_p", "port", "dport", lambda row: row.get("dport") or 0),
        Field("community_id", "string", "community_id"),
    ]


def _proto(row: Row) -> str:
    proto = str(row["proto"])
    return "icmp" if proto.startswith("icmp") else proto if proto in ("tcp", "udp") else "unknown_transport"


def conn_state(row: Row) -> str:
    """Zeek's state of a connection, from the packets of each side."""
    if row["proto"] != "tcp":
        return "SF" if row["src_pkts"] and row["dst_pkts"] else "S0" if row["src_pkts"] else "SHR"
    sent = {flag: {"src", "dst"} if row[flag] == "both" else {row[flag]} for flag in ("syn", "fin", "rst")}
    opened = {"src", "dst"} <= sent["syn"]
    if opened:
        if sent["rst"] & {"src", "dst"}:
            return "RSTO" if "src" in sent["rst"] else "RSTR"
        ends = sent["fin"] & {"src", "dst"}
        return "SF" if len(ends) == 2 else "S2" if "src" in ends else "S3" if ends else "S1"
    if "src" in sent["syn"]:
        if "dst" in sent["rst"]:
            return "REJ"
        return (
            "RSTOS0" if "src" in sent["rst"] else "SH" if "src" in sent["fin"] else "OTH" if row["dst_pkts"] else "S0"
        )
    if "dst" in sent["syn"]:
        return "RSTRH" if "dst" in sent["rst"] else "SHR" if "dst" in sent["fin"] else "OTH"
    return "OTH"


def _missed(row: Row) -> int:
    gaps: list[Row] = row["gaps"] or []
    return sum(int(gap["length"]) for gap in gaps)


def _tls_version(row: Row) -> str | None:
    version: str | None = row["version"]
    return version and re.sub(r"^(D?TLSv1)\.(\d)$", r"\1\2", version)


def _names(what: str) -> Callable[[Row], Any]:
    return lambda row: row["certificates"][0][what] if row["certificates"] else None


def _answers(what: str) -> Callable[[Row], Any]:
    return lambda row: [item[what] for item in row["answers"]] if row["response"] else None


def _transport(row: Row) -> str:
    return "tcp" if row["proto"] == "tcp" else "udp"


FIELDS: dict[str, list[Field]] = {
    "flow": [
        *_begins("first_ts"),
        Field("proto", "enum", "", _proto),
        Field("duration", "interval", "duration"),
        Field("orig_bytes", "count", "src_payload"),
        Field("resp_bytes", "count", "dst_payload"),
        Field("conn_state", "string", "", conn_state),
        Field("missed_bytes", "count", "", _missed),
        Field("orig_pkts", "count", "src_pkts"),
        Field("resp_pkts", "count", "dst_pkts"),
    ],
    "http": [
        *_begins(),
        Field("method", "string", "method"),
        Field("host", "string", "host"),
        Field("uri", "string", "path"),
        Field("referrer", "string", "referrer"),
        Field("version", "string", "request_version"),
        Field("user_agent", "string", "user_agent"),
        Field("request_body_len", "count", "request_body"),
        Field("response_body_len", "count", "response_body"),
        Field("status_code", "count", "status"),
        Field("status_msg", "string", "reason"),
        Field("resp_mime_types", "vector[string]", "", lambda row: row["response_type"] and [row["response_type"]]),
    ],
    "tls": [
        *_begins(),
        Field("version", "string", "version", _tls_version),
        Field("cipher", "string", "cipher"),
        Field("server_name", "string", "server_name"),
        Field("resumed", "bool", "resumed"),
        Field("next_protocol", "string", "alpn"),
        Field("established", "bool", "established"),
        Field("cert_chain_fps", "vector[string]", "", lambda row: [item["sha256"] for item in row["certificates"]]),
        Field("subject", "string", "", _names("subject")),
        Field("issuer", "string", "", _names("issuer")),
        Field("ja3", "string", "ja3"),
        Field("ja3s", "string", "ja3s"),
        Field("ja4", "string", "ja4"),
        Field("ja4s", "string", "ja4s"),
    ],
    "dns": [
        *_begins(),
        Field("proto", "enum", "", _transport),
        Field("trans_id", "count", "id"),
        Field("rtt", "interval", "delay"),
        Field("query", "string", "query"),
        Field("qclass_name", "string", "qclass"),
        Field("qtype_name", "string", "qtype"),
        Field("rcode_name", "string", "rcode"),
        Field("AA", "bool", "authoritative"),
        Field("TC", "bool", "truncated"),
        Field("RD", "bool", "recursion_desired"),
        Field("RA", "bool", "recursion_available"),
        Field("answers", "vector[string]", "", _answers("data")),
        Field("TTLs", "vector[interval]", "", _answers("ttl")),
    ],
    "icmp": _begins(),
    "dhcp": [
        *_begins(),
        Field("mac", "string", "client_mac"),
        Field("host_name", "string", "host_name"),
        Field("client_fqdn", "string", "client_fqdn"),
        Field("domain", "string", "domain"),
        Field("requested_addr", "string", "requested_address"),
        Field("lease_time", "count", "lease_time"),
    ],
    "ntp": [
        *_begins(),
        Field("version", "count", "version"),
        Field("stratum", "count", "stratum"),
        Field("ref_id", "string", "reference"),
    ],
    "ssh": [
        *_begins(),
        Field("client", "string", "client"),
        Field("server", "string", "server"),
        Field("hassh", "string", "hassh"),
        Field("hasshServer", "string", "hassh_server"),
    ],
    "smtp": [
        *_begins(),
        Field("helo", "string", "helo"),
        Field("mailfrom", "string", "mail_from"),
        Field("rcptto", "vector[string]", "recipients"),
        Field("from", "string", "from"),
        Field("to", "vector[string]", "to"),
        Field("subject", "string", "subject"),
        Field("msg_id", "string", "message_id"),
        Field("user_agent", "string", "user_agent"),
        Field("tls", "bool", "tls"),
    ],
    "ftp": [
        *_begins(),
        Field("user", "string", "user"),
        Field("command", "string", "command"),
        Field("arg", "string", "argument"),
        Field("reply_code", "count", "reply_code"),
        Field("reply_msg", "string", "reply"),
    ],
    "file": [
        *_begins(),
        Field("source", "string", "source", lambda row: str(row["source"]).upper()),
        Field("filename", "string", "name"),
        Field("mime_type", "string", "type"),
        Field("seen_bytes", "count", "length"),
        Field("missing_bytes", "count", "missing"),
        Field("md5", "string", "md5"),
        Field("sha1", "string", "sha1"),
        Field("sha256", "string", "sha256"),
        Field("extracted", "string", "extracted"),
    ],
}
"""By log, in the order of the columns."""
