"""Parts of the page about the whole capture: summary, time line, hosts, protocols, flows, loss, alerts, findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sluice.report.page.charts import bar, timeline
from sluice.report.page.html import Content, Html, data, element, foreign, joined
from sluice.report.page.text import count, duration, many, rate, share, size, when

Facts = Mapping[str, Any]
LEVELS = ("look first", "worth a look", "good to know")


def section(name: str, title: str, *contents: Content, note: Content = None) -> Html:
    """A section with its title."""
    about = element("p", note, class_="note") if note else None
    return element("section", element("h2", title), about, *contents, id=name, aria_label=title)


def table(
    heads: Sequence[tuple[str, str]], rows: Iterable[Sequence[Content]], left_out: int = 0, what: str = ""
) -> Html:
    """A table. heads: title and class of each column: `number`, `bar`, `low` (left out in a narrow window), `wide`."""
    head = element("tr", *(element("th", title, scope="col", class_=kind or None) for title, kind in heads))
    body = [
        element("tr", *(element("td", cell, class_=kind or None) for cell, (_, kind) in zip(row, heads, strict=True)))
        for row in rows
    ]
    caption = element("p", left_out_text(left_out, what), class_="left-out") if left_out else None
    return joined(
        [element("div", element("table", element("thead", head), element("tbody", *body)), class_="scroll"), caption]
    )


def left_out_text(number: int, what: str) -> str:
    """The note that a table is incomplete."""
    return f"{number:,} more {what} not shown"


def flow_link(flow: int, text: Content) -> Html:
    """The link to a flow in the table."""
    return element("button", text, type="button", class_="find", data_search=f"#{flow}")


def summary(facts: Facts, findings: Sequence[Facts]) -> Html:
    """The first lines: the content of the capture."""
    capture, totals = facts["capture"], facts["totals"]
    bars = facts["timeline"]["bars"]
    span = facts["timeline"]["width"] * len(bars)
    speed = rate(capture["bytes"], span)
    tiles = [
        ("packets", count(capture["packets"]), f"{share(totals['packets'], capture['packets'])} of them in flows"),
        ("on the wire", size(capture["bytes"]), speed and f"{speed} on average"),
        ("duration", duration(span), f"from {when(capture['first'], 0)} UTC" if capture["packets"] else "no packet"),
        ("flows", count(totals["flows"]), many(facts["hosts"]["known"], "host")),
        ("lost in capture", size(facts["loss"]["gap_bytes"]), many(facts["loss"]["gaps"], "gap")),
        ("findings", count(len(findings)), _levels(findings)),
    ]
    if facts["alerts"]:
        rules = facts["alerts"]["rules"]
        tiles.append(
            ("alerts", count(facts["alerts"]["total"]), f"of {many(len(rules['rows']) + rules['left_out'], 'rule')}")
        )
    shown = [
        element("div", element("dt", name), element("dd", value, element("small", about)), class_="tile")
        for name, value, about in tiles
    ]
    warnings = [f"The capture ends early: {capture['fault']}."] if capture["fault"] else []
    if capture["captured_bytes"] < capture["bytes"]:
        missing = capture["bytes"] - capture["captured_bytes"]
        warnings.append(f"{share(missing, capture['bytes'])} of the bytes were cut at capture by the snap length.")
    warnings += [f"Not in this report: {text}." for text in capture["not_run"]]
    return joined([element("dl", *shown, class_="tiles"), [element("p", text, class_="warning") for text in warnings]])


def _levels(findings: Sequence[Facts]) -> str:
    first = sum(found["level"] == 0 for found in findings)
    return many(first, "kind", "kinds") + " to look at first" if first else "none to look at first"


def when_section(facts: Facts) -> Html:
    """The time line, in bytes and in packets."""
    line = facts["timeline"]
    if not line["bars"]:
        return section("when", "When", element("p", "The capture has no packet.", class_="none"))
    legend = element(
        "p",
        element("span", class_="key column-key"),
        "bytes ",
        element("span", class_="key again-key"),
        "retransmissions; ",
        f"each bar is {duration(line['width'])}",
        class_="legend",
    )
    both = element("details", element("summary", "Packets over time"), timeline(line, 0), class_="more")
    begin = when(line["begin"])
    end_time = when(line["begin"] + line["width"] * len(line["bars"]))
    return section("when", "When", timeline(line, 1), legend, both, note=f"{begin} to {end_time} UTC")


def findings_section(findings: Sequence[Facts]) -> Html:
    """The findings, with the reasons."""
    if not findings:
        return section(
            "look", "Worth a look", element("p", "Nothing of what this report looks for was found.", class_="none")
        )
    parts: list[Html] = []
    for found in findings:
        places = [
            element(
                "li",
                element("button", foreign(place["text"]), type="button", class_="find", data_search=place["search"]),
            )
            if place["search"]
            else element("li", foreign(place["text"]))
            for place in found["places"]
        ]
        more = found["count"] - len(places)
        if more > 0 and all(place["search"] for place in found["places"]):
            places.append(element("li", left_out_text(more, "places"), class_="left-out"))
        head = element(
            "summary",
            element("span", LEVELS[found["level"]], class_=f"level level-{found['level']}"),
            element("strong", found["title"]),
            element("span", count(found["count"]), class_="amount"),
        )
        parts.append(
            element(
                "details",
                head,
                element("p", found["why"]),
                element("ul", *places),
                class_="finding",
                open=found["level"] == 0,
            )
        )
    return section(
        "look", "Worth a look", *parts, note="Each kind has its reason. A line leads to its flows in the table."
    )


def hosts_section(facts: Facts) -> Html:
    """Top talkers: hosts, pairs, services."""
    hosts, pairs, services = facts["hosts"], facts["pairs"], facts["services"]
    most = hosts["rows"][0]["bytes"] if hosts["rows"] else 0
    rows = [
        [
            _find(row["host"]),
            foreign(", ".join(row["names"])),
            bar(row["bytes"], most),
            size(row["bytes"]),
            size(row["bytes_sent"]),
            size(row["bytes_received"]),
            count(row["flows"]),
        ]
        for row in hosts["rows"]
    ]
    heads = [("host", "address"), ("names", "wide"), ("", "bar"), ("bytes", "number"), ("sent", "number low")]
    heads += [("received", "number low"), ("flows", "number")]
    first = table(heads, rows, hosts["left_out"], "hosts")
    between = table(
        [("between", "wide"), ("", "bar"), ("bytes", "number"), ("packets", "number low"), ("flows", "number")],
        [
            [
                _find(f"{row['pair'][0]} {row['pair'][1]}", f"{row['pair'][0]} ↔ {row['pair'][1]}"),
                bar(row["bytes"], pairs["rows"][0]["bytes"]),
                size(row["bytes"]),
                count(row["packets"]),
                count(row["flows"]),
            ]
            for row in pairs["rows"]
        ],
        pairs["left_out"],
        "pairs",
    )
    ports = table(
        [("service", ""), ("", "bar"), ("bytes", "number"), ("packets", "number low"), ("flows", "number")],
        [
            [
                f"{row['service'][0]}/{row['service'][1]}",
                bar(row["bytes"], services["rows"][0]["bytes"]),
                size(row["bytes"]),
                count(row["packets"]),
                count(row["flows"]),
            ]
            for row in services["rows"]
        ],
        services["left_out"],
        "services",
    )
    note = "Bytes on the wire of the flows of a host. Names are those of DNS answers and TLS hellos of this capture."
    return section(
        "who",
        "Who talks most",
        first,
        element("details", element("summary", "Pairs of hosts"), between, class_="more"),
        element("details", element("summary", "Services, by protocol and port of the server"), ports, class_="more"),
        note=note,
    )


def _find(search: str, shown: str | None = None) -> Html:
    return element("button", foreign(shown or search), type="button", class_="find", data_search=search)


def protocols_section(facts: Facts) -> Html:
    """Protocols as a tree, and all layers."""
    root = facts["protocols"]
    layers = table(
        [("layer", ""), ("packets", "number"), ("bytes", "number"), ("given up", "wide")],
        [
            [
                layer["name"],
                count(layer["packets"]),
                size(layer["bytes"]),
                ", ".join(f"{name}: {number:,}" for name, number in layer["given_up"].items()),
            ]
            for layer in facts["layers"]
        ],
    )
    tree = element("ul", *(_node(child, root["bytes"], 0) for child in root["children"]), class_="tree")
    return section(
        "protocols",
        "Protocols",
        tree,
        element("details", element("summary", "All layers, and packets that were given up"), layers, class_="more"),
        note="Flows by the layers of their first packets; applications are those that their logs detected, on any "
        "port. "
        "A tunnel's packets count in the flow of the tunnel, and in the flows that it carries.",
    )


def _node(node: Facts, whole: int, depth: int) -> Html:
    line = element(
        "span",
        element("span", node["name"], class_="name"),
        bar(node["bytes"], whole),
        element("span", share(node["bytes"], whole), class_="number"),
        element("span", size(node["bytes"]), class_="number"),
        element("span", many(node["flows"], "flow"), class_="number low"),
        class_="line",
    )
    if not node["children"]:
        return element("li", line)
    below = element("ul", *(_node(child, whole, depth + 1) for child in node["children"]))
    return element("li", element("details", element("summary", line), below, open=depth < 4))


def flows_section(facts: Facts) -> Html:
    """The table of flows, which the script of the page fills."""
    flows = facts["flows"]
    columns = [name for name in flows["columns"] if name != "layers"]
    begin = facts["timeline"]["begin"]
    place = flows["columns"].index("first")
    rows = [[*row[:place], row[place] - begin, *row[place + 1 :]] for row in flows["rows"]]
    shown = {"begin": begin // 1000 / 1000, "columns": flows["columns"], "rows": rows}
    search = element(
        "div",
        element("label", "Search", for_="search", class_="hidden"),
        element(
            "input",
            id="search",
            type="search",
            placeholder="address, name, protocol, port, #flow …   ( / )",
            autocomplete="off",
            spellcheck="false",
        ),
        element("output", id="found", aria_live="polite"),
        class_="search",
    )
    heads = [
        element(
            "th",
            element("button", _HEADS[name][0], type="button", data_column=name, title=_HEADS[name][2]),
            scope="col",
            class_=_HEADS[name][1] or None,
        )
        for name in columns
    ]
    body = element("table", element("thead", element("tr", *heads)), element("tbody", id="rows"), id="flow-table")
    left = None
    if flows["left_out"]:
        text = (
            f"The table has the {len(rows):,} flows with most bytes; {flows['left_out']:,} smaller ones are not in it. "
        )
        left = element("p", text, "--flows N shows more, and `sluice flows` writes all.", class_="left-out")
    noscript = element("noscript", element("p", "The table of flows needs JavaScript.", class_="warning"))
    more = element("button", "Show more", type="button", id="more-flows", hidden=True)
    note = joined(
        [
            "All words must match. ",
            element("kbd", "/"),
            " searches, ",
            element("kbd", "↑"),
            " ",
            element("kbd", "↓"),
            " move between flows, ",
            element("kbd", "Enter"),
            " shows all about one, ",
            element("kbd", "Esc"),
            " clears the search.",
        ]
    )
    scroll = element("div", body, class_="scroll", tabindex="0", role="region", aria_label="Flows")
    return section("flows", "Flows", search, noscript, scroll, more, left, data("flow-data", shown), note=note)


_HEADS = {
    "flow": ("#", "number low", "number of the flow"),
    "first": ("time", "number", "of the first packet, UTC"),
    "duration": ("duration", "number low", "from the first packet to the last"),
    "protocol": ("proto", "low", "protocol over IP"),
    "application": ("app", "", "what the logs detected"),
    "client": ("client", "address", "the end that sent first"),
    "server": ("server", "address", "the other end"),
    "name": ("name", "low wide", "host, server name, query or user"),
    "packets": ("packets", "number low", "of both sides"),
    "sent": ("sent", "number", "bytes on the wire from the client"),
    "received": ("received", "number", "bytes on the wire from the server"),
    "state": ("state", "state low", "of TCP at the end"),
    "rexmit": ("rexmit", "rexmit number low", "packets with bytes that were sent before"),
    "missing": ("missing", "missing number low", "bytes that were never captured"),
}


def loss_section(facts: Facts) -> Html:
    """Retransmissions and gaps."""
    loss, totals = facts["loss"], facts["totals"]
    if not loss["rows"]:
        return section("loss", "Retransmissions and gaps", element("p", "None.", class_="none"))
    lines = [
        f"{many(loss['rexmit_packets'], 'packet')} ({share(loss['rexmit_packets'], totals['packets'])}) with "
        f"{size(loss['rexmit_bytes'])} were sent again, in {many(loss['flows_with_rexmit'], 'flow')}. "
        f"{many(loss['reordered'], 'segment')} arrived out of order.",
        f"{many(loss['gaps'], 'gap')} with {size(loss['gap_bytes'])} in {many(loss['flows_with_gaps'], 'flow')}"
        + (
            ": " + ", ".join(f"{cause} {number:,}" for cause, number in loss["causes"].items())
            if loss["causes"]
            else ""
        )
        + ".",
    ]
    heads = [("flow", "wide"), ("packets", "number low"), ("rexmit", "number"), ("share", "number low")]
    heads += [("reordered", "number low"), ("gaps", "number"), ("missing", "number")]
    rows = [
        [
            flow_link(row["flow"], foreign(row["ends"])),
            count(row["packets"]),
            count(row["rexmit"]),
            share(row["rexmit"], row["packets"]),
            count(row["reordered"]),
            count(row["gaps"]),
            size(row["missing"]),
        ]
        for row in loss["rows"]
    ]
    shown = table(heads, rows, loss["left_out"], "flows")
    return section("loss", "Retransmissions and gaps", *(element("p", line) for line in lines), shown)


def alerts_section(facts: Facts) -> Html | None:
    """Alerts of rules, if there were rules."""
    alerts = facts["alerts"]
    if alerts is None:
        return None
    if not alerts["total"]:
        return section("alerts", "Alerts", element("p", "No rule matched.", class_="none"))
    rules = table(
        [("priority", "number"), ("rule", "wide"), ("id", "number low"), ("alerts", "number")],
        [
            [row["priority"], foreign(row["message"]), f"{row['gid']}:{row['sid']}", count(row["count"])]
            for row in alerts["rules"]["rows"]
        ],
        alerts["rules"]["left_out"],
        "rules",
    )
    first = table(
        [("time", "number"), ("rule", "wide"), ("from", "address"), ("to", "address"), ("flow", "number")],
        [
            [row["time"], foreign(row["rule"]), row["src"], row["dst"], flow_link(row["flow"], f"#{row['flow']}")]
            for row in alerts["first"]["rows"]
        ],
        alerts["first"]["left_out"],
        "alerts",
    )
    each = element("details", element("summary", "Each alert"), first, class_="more")
    return section(
        "alerts", "Alerts", rules, each, note=f"{many(alerts['total'], 'alert')}; priority 1 is the highest."
    )
