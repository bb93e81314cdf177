"""The whole page: one file without external resources. Its policy permits only its own script and style."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sluice.report.page import lists, sections
from sluice.report.page.html import Html, element, foreign, joined, own
from sluice.report.page.text import many, size, visible

_HERE = Path(__file__).resolve().parent


def page(facts: Mapping[str, Any], title: str | None = None) -> str:
    """The report as HTML. title: the default is the name of the capture."""
    files = facts["capture"]["files"]
    heading = visible(title or (Path(files[0]).name if files else "report"))
    heading += f" and {len(files) - 1} more" if not title and len(files) > 1 else ""
    style = (_HERE / "page.css").read_text(encoding="utf-8")
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )
    parts = [
        sections.summary(facts, facts["findings"]),
        sections.findings_section(facts["findings"]),
        sections.when_section(facts),
        sections.hosts_section(facts),
        sections.protocols_section(facts),
        sections.alerts_section(facts),
        sections.flows_section(facts),
        sections.loss_section(facts),
        lists.dns_section(facts),
        lists.http_section(facts),
        lists.tls_section(facts),
        lists.files_section(facts),
        lists.others_section(facts),
        lists.bounds_section(facts),
    ]
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", f"{heading} - Sluice report"),
        own("style", style),
    )
    about = f"{size(facts['capture']['file_bytes'])} in {many(len(files), 'file')}"
    top = element(
        "header",
        element("p", "Sluice report", class_="kicker"),
        element("h1", foreign(heading)),
        element("p", about, class_="note"),
        element("button", "Light or dark", type="button", id="theme", aria_label="Switch between light and dark"),
    )
    version = element("footer", f"Made by Sluice {facts['sluice']}. The page contains everything that it shows.")
    body = element(
        "body",
        element("a", "Skip to the flows", href="#flows", class_="skip"),
        element("div", _contents(parts), element("main", top, *parts, version), class_="layout"),
        own("script", script),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _contents(parts: list[Html | None]) -> Html:
    names = [
        ("look", "Worth a look"),
        ("when", "When"),
        ("who", "Who"),
        ("protocols", "Protocols"),
        ("alerts", "Alerts"),
        ("flows", "Flows"),
        ("loss", "Loss"),
        ("dns", "DNS"),
        ("http", "HTTP"),
        ("tls", "TLS"),
        ("files", "Files"),
        ("others", "Others"),
        ("bounds", "Incomplete"),
    ]
    there = [(name, title) for name, title in names if any(part and f'<section id="{name}"' in part for part in parts)]
    return element(
        "nav", joined([element("a", title, href=f"#{name}") for name, title in there]), aria_label="Contents"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
