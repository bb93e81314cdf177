"""Suricata's eve.json: events in its shape, for the logs flow, http, tls, dns and file (fileinfo).

An exchange of DNS gives two events, a query and an answer, as in version 2 of Suricata's DNS events.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, cast

from sluice.report.errors import OutputError
from sluice.report.formats.base import Row, TextWriter, rows_of
from sluice.report.logs import CAPTURE
from sluice.report.schema import Schema

Event = dict[str, Any]


class EveWriter(TextWriter):
    """Writes events as JSON lines."""

    def __init__(self, path: str, schema: Schema) -> None:
        if schema.log not in _EVENTS:
            raise OutputError(f"{path}: eve.json has a shape for {', '.join(_EVENTS)}, and none for {schema.log}")
        self._events = _EVENTS[schema.log]
        super().__init__(path, schema)

    def convert(self, lines: bytes) -> bytes:
        """Rows as events."""
        events = [event for row in rows_of(lines) for event in self._events(row)]
        return b"".join(
            json.dumps(_without_none(event), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
            for event in events
        )


def _time(text: str) -> str:
    """Seconds since 1970 in the form of Suricata, with microseconds."""
    seconds, _, fraction = text.partition(".")
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%S.") + fraction[:6] + "+0000"


def _later(time: str, seconds: str | None) -> str:
    total = sum(int(text.replace(".", "")) for text in (time, seconds) if text)
    return f"{total // 10**9}.{total % 10**9:09d}"


def _begin(row: Row, kind: str, proto: str, time: str) -> Event:
    return {
        "timestamp": _time(time),
        "flow_id": row.get("flow"),
        "event_type": kind,
        "src_ip": row["src"],
        "src_port": row["sport"],
        "dest_ip": row["dst"],
        "dest_port": row["dport"],
        "proto": proto,
        "community_id": row.get("community_id"),
        "pcap_filename": row.get(CAPTURE),
    }


_REASONS = {"closed": "shutdown", "timeout": "timeout"}


def _protocol(name: str) -> str:
    return {"icmp": "ICMP", "icmp6": "IPv6-ICMP", "quic": "UDP"}.get(name, name.upper())


def _sent(row: Row, flag: str) -> bool | None:
    return row[flag] is not None or None


def _flow(row: Row) -> Iterator[Event]:
    tcp = row["proto"] == "tcp"
    state = "closed" if row["end"] == "closed" else "established" if row["dst_pkts"] else "new"
    event = _begin(row, "flow", _protocol(str(row["proto"])), row["last_ts"])
    event["icmp_type"], event["icmp_code"] = row.get("icmp_type"), row.get("icmp_code")
    event["flow"] = {
        "pkts_toserver": row["src_pkts"],
        "pkts_toclient": row["dst_pkts"],
        "bytes_toserver": row.get("src_bytes"),
        "bytes_toclient": row.get("dst_bytes"),
        "start": _time(row["first_ts"]),
        "end": _time(row["last_ts"]),
        "age": int(float(row["last_ts"])) - int(float(row["first_ts"])),
        "state": state,
        "reason": _REASONS.get(row["end"], "forced"),
        "alerted": False,
    }
    if tcp:
        event["tcp"] = {flag: _sent(row, flag) for flag in ("syn", "fin", "rst")} | {"state": state}
    yield event


def _http_members(row: Row) -> Event:
    return {
        "hostname": row["host"],
        "url": row["path"],
        "http_user_agent": row["user_agent"],
        "http_content_type": row["response_type"],
        "http_refer": row["referrer"],
        "http_method": row["method"],
        "protocol": f"HTTP/{row['request_version'] or row['response_version']}",
        "status": row["status"],
        "redirect": row["location"],
        "length": row["response_body"],
    }


def _carrier(row: Row) -> str:
    """What carries a connection: by the last one of its layers, as the stacks of Sluice name them."""
    last = str(row["layers"]).rpartition("/")[2]
    return "UDP" if last.startswith("quic") else "SCTP" if last.startswith("sctp") else "TCP"


def _http(row: Row) -> Iterator[Event]:
    yield _begin(row, "http", _carrier(row), row["ts"]) | {"http": _http_members(row)}


_VERSIONS = {"TLSv1.0": "TLSv1", "TLSv1.1": "TLS 1.1", "TLSv1.2": "TLS 1.2", "TLSv1.3": "TLS 1.3"}


def _tls(row: Row) -> Iterator[Event]:
    first: Row = row["certificates"][0] if row["certificates"] else {}
    serial = first.get("serial")
    proto = {"tcp": "TCP", "sctp": "SCTP"}.get(row["transport"], "UDP")
    event = _begin(row, "tls", proto, row["ts"])
    event["tls"] = {
        "subject": first.get("subject"),
        "issuerdn": first.get("issuer"),
        "serial": serial and ":".join(serial[at : at + 2] for at in range(0, len(serial), 2)).upper(),
        "sni": row["server_name"],
        "version": _VERSIONS.get(row["version"], row["version"]),
        "notbefore": first.get("not_before"),
        "notafter": first.get("not_after"),
        "session_resumed": row["resumed"] or None,
        "ja3": row["ja3"] and {"hash": row["ja3"]},
        "ja3s": row["ja3s"] and {"hash": row["ja3s"]},
        "ja4": row["ja4"],
    }
    yield event


def _dns(row: Row) -> Iterator[Event]:
    proto = "TCP" if row["proto"] == "tcp" else "UDP"
    question = {"id": row["id"], "opcode": row["opcode"], "rrname": row.get("query"), "rrtype": row.get("qtype")}
    if row["request"]:
        event = _begin(row, "dns", proto, row["ts"])
        yield event | {"dns": {"version": 2, "type": "query", **question}}
    if row["response"]:
        event = _begin(row, "dns", proto, _later(row["ts"], row["delay"]))
        answers = [
            {"rrname": item["name"], "rrtype": item["type"], "ttl": item["ttl"], "rdata": item["data"]}
            for item in row["answers"]
        ]
        grouped: dict[str, list[str]] = {}
        for item in answers:
            grouped.setdefault(item["rrtype"], []).append(item["rdata"])
        flags = {
            "qr": True,
            "aa": row["authoritative"] or None,
            "tc": row["truncated"] or None,
            "rd": row["recursion_desired"] or None,
            "ra": row["recursion_available"] or None,
            "rcode": row["rcode"],
        }
        members = {"version": 2, "type": "answer", **question, **flags}
        yield event | {"dns": members | {"answers": answers or None, "grouped": grouped or None}}


def _file(row: Row) -> Iterator[Event]:
    event = _begin(row, "fileinfo", _carrier(row), row["ts"])
    event["app_proto"] = row["source"]
    event["fileinfo"] = {
        "filename": row["name"] or "/",
        "magic": row["magic"],
        "gaps": row["missing"] > 0,
        "state": "CLOSED" if row["complete"] else "TRUNCATED",
        "md5": row["md5"],
        "sha1": row["sha1"],
        "sha256": row["sha256"],
        "stored": row["extracted"] is not None,
        "size": row["length"],
    }
    yield event


_EVENTS: dict[str, Callable[[Row], Iterator[Event]]] = {
    "flow": _flow,
    "http": _http,
    "tls": _tls,
    "dns": _dns,
    "file": _file,
}


def _without_none(event: Event) -> Event:
    """An event without members that are not known, as Suricata leaves them out."""
    return {
        name: _without_none(cast(Event, value)) if isinstance(value, dict) else value
        for name, value in event.items()
        if value is not None
    }
