"""The logs agree with tshark's fields on every capture of the corpus that has them."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.functions.logs.boxes import Logs, Row, needs_parsers, run_capture
from tests.functions.logs.explained import EXPLAINED
from tests.functions.logs.names import CODES, TYPES
from tests.functions.logs.truth import TRUTH
from tests.support.corpus import captures

pytestmark = [pytest.mark.corpus, needs_parsers]

KINDS = ("dns", "request", "response", "hello", "answer", "certificate")
Message = tuple[str, ...]


@cache
def truth() -> dict[str, dict[str, list[list[Any]]]]:
    return json.loads(TRUTH.read_text())


@cache
def logs_of(capture: Path) -> Logs:
    """The rows about a capture, which several tests look at."""
    return run_capture(capture)


def number(word: str, words: dict[str, int], otherwise: str) -> str:
    """A type or code of DNS as a number."""
    return str(words.get(word, word.removeprefix(otherwise)))


def dns(row: Row) -> Iterator[tuple[Message, int]]:
    """Messages of DNS: tshark has the lower bits of the code alone, and calls the root by a name of its own."""
    name = str(row.get("query", ""))
    name = "<Root>" if name == "." else name
    kind = number(row["qtype"], TYPES, "TYPE") if "qtype" in row else ""
    if row["request"]:
        yield (str(row["id"]), "0", name, kind, ""), 1 + row["retries"]
    if row["response"]:
        yield (str(row["id"]), "1", name, kind, str(int(number(row["rcode"], CODES, "RCODE")) & 15)), 1


def hello(row: Row) -> Iterator[tuple[str, Message]]:
    """Hellos and certificates of TLS."""
    if row["ja3"]:
        yield "hello", (row["ja3"], row["server_name"] or "")
    if row["ja3s"]:
        yield "answer", (row["ja3s"], row["cipher_id"])
    if row["certificates"]:
        yield "certificate", tuple(str(int(item["serial"], 16)) for item in row["certificates"])


def ours(logs: Logs) -> dict[str, Counter[Message]]:
    """What rows say, by kind."""
    found: dict[str, Counter[Message]] = defaultdict(Counter)
    for row in logs["dnslog"]:
        for message, count in dns(row):
            found["dns"][message] += count
    for row in logs["httplog"]:
        if row["request"]:
            version = f"HTTP/{row['request_version']}"
            texts = (row["method"], row["path"], row["host"], version, row["user_agent"], row["referrer"])
            found["request"][tuple(text or "" for text in texts)] += 1
        if row["response"]:
            length = "" if row["response_length"] is None else str(row["response_length"])
            version = f"HTTP/{row['response_version']}"
            whole = row["response_complete"] and not row["response_missing"]
            found["response" if whole else "partial"][
                str(row["status"]), version, row["response_type"] or "", length
            ] += 1
        for code in row["interim"]:
            found["response"][str(code), "HTTP/1.1", "", ""] += 1
    for row in logs["tlslog"]:
        for kind, message in hello(row):
            found[kind][message] += 1
    return found


def theirs(name: str) -> dict[str, Counter[Message]]:
    """What tshark says: of DNS without the number of answers, serial numbers as numbers."""
    found: dict[str, Counter[Message]] = defaultdict(Counter)
    for kind, rows in truth()[name].items():
        for count, *texts in rows:
            if kind == "dns":
                texts = texts[:5]
            if kind == "certificate":
                octets = [bytes.fromhex(text.replace(":", "")) for text in texts[0].split(",")]
                texts = [str(int.from_bytes(item, "big", signed=True)) for item in octets]
            found[kind][tuple(texts)] += count
    return found


def differences(name: str, logs: Logs) -> dict[str, tuple[Counter[Message], Counter[Message]]]:
    """Of each kind what no row has, and what tshark does not have, but for what these rules explain.

    - tshark counts a message again for a copy of its packet, and for what an ICMP error quotes of it.
    - tshark shows no response whose body is not complete; and some that are not, which rows have as incomplete.
    - Serial numbers after those of the certificates are those of a stapled OCSP response.
    """
    rows, said = ours(logs), theirs(name)
    found: dict[str, tuple[Counter[Message], Counter[Message]]] = {}
    for kind in KINDS:
        missing, extra = said[kind] - rows[kind], rows[kind] - said[kind]
        missing = Counter({message: count for message, count in missing.items() if not rows[kind][message]})
        if kind == "response":
            missing -= rows["partial"]
        if kind == "certificate":
            for message in list(extra):
                for other in [item for item in missing if item[: len(message)] == message]:
                    extra[message] = 0
                    missing[other] = 0
        found[kind] = +missing, +extra
    return found


@pytest.mark.parametrize("name", sorted(truth()))
def test_messages(name: str) -> None:
    capture = next((path for path in captures() if path.name == name), None)
    if capture is None:
        pytest.skip("not in this corpus")
    for kind, (missing, extra) in differences(name, logs_of(capture)).items():
        expected = EXPLAINED.get((name, kind), (0, 0, ""))[:2]
        assert (missing.total(), extra.total()) == expected, (kind, list(missing)[:5], list(extra)[:5])


def test_every_explanation_is_about_a_capture() -> None:
    assert {name for name, _ in EXPLAINED} <= set(truth())


TUNNEL_PORTS = {2152, 3544, 4789, 6081}
"""Of GTP-U, Teredo, VXLAN and Geneve."""


ROUTED = ("ntop_PF_RING__ipv6-routing-header.pcap", "seladb_PcapPlusPlus__ipv6_options.pcapng")
"""Captures of source routes: our flows have the final destination of the pseudo-header (RFC 8200, 8.1), tshark's ids
the address of the IP header.
"""


@pytest.mark.parametrize("name", sorted(truth()))
def test_community_ids(name: str) -> None:
    """Of flows that lie in no tunnel, and carry none: of packets in tunnels tshark shows the innermost id alone."""
    capture = next((path for path in captures() if path.name == name), None)
    if capture is None:
        pytest.skip("not in this corpus")
    known = {id for _, id in truth()[name].get("community", [])}
    for row in logs_of(capture)["flowlog"]:
        inner = row["layers"].count("ipv4") + row["layers"].count("ipv6") != 1
        if name in ROUTED and "ext" in row["layers"].split("/"):
            continue
        outer = row["proto"] == "udp" and TUNNEL_PORTS & {row["sport"], row["dport"]}
        if row["proto"] in ("tcp", "udp", "icmp", "icmp6") and not inner and not outer:
            assert row["community_id"] in known, row


PUBLISHED = {
    "ja3": "cd08e31494f9531f560d64c695473da9",
    "ja4": "t13d1516h2_8daaf6152771_e5627efa2ab1",
    "ja4s": "t130200_1301_234ea6891581",
}
"""What the authors of JA4 publish for a connection of their capture, and tshark's JA3."""


def test_published_fingerprints() -> None:
    name = "FoxIO-LLC_ja4__chrome-cloudflare-quic-with-secrets.pcapng"
    capture = next((path for path in captures() if path.name == name), None)
    if capture is None:
        pytest.skip("not in this corpus")
    (row,) = [row for row in logs_of(capture)["tlslog"] if row["transport"] == "tcp"]
    assert {kind: row[kind] for kind in PUBLISHED} == PUBLISHED
