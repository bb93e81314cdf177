"""Parts of the page about applications: DNS, HTTP, TLS, files, and others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluice.report.page.charts import bar
from sluice.report.page.html import Content, Html, element, foreign, joined
from sluice.report.page.more import TITLES
from sluice.report.page.sections import Facts, flow_link, section, table
from sluice.report.page.text import count, duration, many, size


def _card(title: str, *contents: Content) -> Html:
    return element("div", element("h3", title), *contents, class_="card")


def _cards(*cards: Html | None) -> Html:
    return element("div", *(card for card in cards if card), class_="cards")


def _counted(title: str, texts: Facts, what: str) -> Html | None:
    """A ranking of texts by number."""
    rows: list[Mapping[str, Any]] = texts["rows"]
    if not rows:
        return None
    most = rows[0]["count"]
    shown = [[foreign(row["text"]), bar(row["count"], most), count(row["count"])] for row in rows]
    return _card(title, table([(what, "wide"), ("", "bar"), ("number", "number")], shown, texts["left_out"], "entries"))


def _numbers(title: str, numbers: Mapping[str, int], what: str) -> Html | None:
    rows = [{"text": text, "count": number} for text, number in numbers.items()]
    rows.sort(key=lambda row: -row["count"])  # pyright: ignore[reportOperatorIssue, reportUnknownLambdaType]
    return _counted(title, {"rows": rows, "left_out": 0}, what)


def _sized(title: str, texts: Facts, what: str) -> Html | None:
    rows: list[Mapping[str, Any]] = texts["rows"]
    if not rows:
        return None
    shown = [
        [foreign(row["text"]), bar(row["bytes"], rows[0]["bytes"]), size(row["bytes"]), count(row["count"])]
        for row in rows
    ]
    heads = [(what, "wide"), ("", "bar"), ("bytes", "number"), ("number", "number")]
    return _card(title, table(heads, shown, texts["left_out"], "entries"))


def dns_section(facts: Facts) -> Html | None:
    """DNS, mDNS and LLMNR."""
    dns = facts["dns"]
    if not dns["messages"]:
        return None
    slow = [[foreign(row["query"]), row["server"], duration(row["delay"])] for row in dns["slow"]["rows"]]
    heads = [("name", "wide"), ("server", "address low"), ("delay", "number")]
    note = (
        f"{many(dns['messages'], 'exchange')}: {count(dns['unanswered'])} without an answer, "
        f"{many(dns['retries'], 'retry', 'retries')}, {count(dns['malformed'])} malformed."
    )
    cards = _cards(
        _counted("Names", dns["names"], "name"),
        _counted("Names that do not exist", dns["missing"], "name"),
        _counted("Clients", dns["clients"], "host"),
        _numbers("Types", dns["types"], "type"),
        _numbers("Outcomes", dns["codes"], "code"),
        _card("Slowest answers", table(heads, slow)) if slow else None,
    )
    return section("dns", "DNS", cards, note=note)


def http_section(facts: Facts) -> Html | None:
    """HTTP in the clear."""
    http = facts["http"]
    if not http["exchanges"]:
        return None
    failed = [[row["status"], flow_link(row["flow"], foreign(row["url"]))] for row in http["failed"]["rows"]]
    received, sent = size(http["response_bytes"]), size(http["request_bytes"])
    note = (
        f"{many(http['exchanges'], 'exchange')}, {received} received and {sent} sent in bodies; "
        f"{count(http['unanswered'])} without a response, {count(http['incomplete'])} incomplete."
    )
    heads = [("status", "number"), ("URL", "wide")]
    cards = _cards(
        _sized("Hosts", http["hosts"], "host"),
        _counted("URLs", http["paths"], "URL"),
        _counted("User agents", http["agents"], "user agent"),
        _numbers("Status", http["status"], "status"),
        _numbers("Methods", http["methods"], "method"),
        _counted("Content types", http["types"], "type"),
        _counted("Servers", http["servers"], "server"),
        _card("Errors", table(heads, failed, http["failed"]["left_out"], "responses")) if failed else None,
    )
    return section("http", "HTTP", cards, note=note)


def tls_section(facts: Facts) -> Html | None:
    """TLS over TCP and QUIC, and DTLS."""
    tls = facts["tls"]
    if not tls["connections"]:
        return None
    note = (
        f"{many(tls['connections'], 'connection')}, {count(tls['quic'])} of them over QUIC, "
        f"{count(tls['dtls'])} of DTLS; "
        f"{count(tls['established'])} established, {count(tls['resumed'])} resumed."
    )
    cards = _cards(
        _counted("Server names", tls["names"], "name"),
        _numbers("Versions", tls["versions"], "version"),
        _counted("Ciphers", tls["ciphers"], "cipher"),
        _counted("Clients, by JA4", tls["clients"], "fingerprint"),
        _counted("Issuers of certificates", tls["issuers"], "issuer"),
        _numbers("Offered application protocols", tls["alpn"], "protocol"),
    )
    return section("tls", "TLS", cards, note=note)


def files_section(facts: Facts) -> Html | None:
    """Files that HTTP, FTP and SMTP carried."""
    files = facts["files"]
    if not files["files"]:
        return None
    heads = [("name", "wide"), ("type", ""), ("length", "number"), ("from", "address low"), ("to", "address low")]
    rows = [
        [
            joined(
                [
                    flow_link(row["flow"], foreign(row["name"])),
                    None if row["complete"] else element("span", "incomplete", class_="tag"),
                    element("code", row["sha256"], class_="hash", title="SHA-256") if row["sha256"] else None,
                ]
            ),
            f"{row['type']} ({row['source']})",
            size(row["length"] or 0),
            row["src"] or "?",
            row["dst"] or "?",
        ]
        for row in files["largest"]["rows"]
    ]
    cards = _cards(_sized("Types", files["types"], "type"))
    note = f"{many(files['files'], 'file')}, {size(files['bytes'])}; {count(files['incomplete'])} incomplete."
    return section("files", "Files", cards, table(heads, rows, files["largest"]["left_out"], "files"), note=note)


def others_section(facts: Facts) -> Html | None:
    """SSH, mail, FTP, DHCP, ICMP, GTP, SCTP."""
    found = facts["others"]
    if not found:
        return None
    cards = [
        _counted(f"{TITLES[name][0]}: {count(about['count'])} {TITLES[name][1]}", about, "what")
        for name, about in found.items()
        if about["rows"]
    ]
    return section("others", "Other protocols", _cards(*cards)) if cards else None


def bounds_section(facts: Facts) -> Html | None:
    """The omissions of this report."""
    bounds = facts["bounds"]
    if not bounds:
        return None
    rows = [[row["what"], element("code", row["name"]), count(row["count"])] for row in bounds]
    note = "Counters of the functions that wrote the rows of this report."
    return section(
        "bounds",
        "What is incomplete",
        table([("what", "wide"), ("counter", "low"), ("number", "number")], rows),
        note=note,
    )
