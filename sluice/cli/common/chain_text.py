"""A chain as `sluice show` prints it, and its picture."""

from __future__ import annotations

from sluice.chain.describe import Data
from sluice.cli.common.drawing.svg import Arrow, Box, graph, page


def chain_text(data: Data) -> str:
    """The arrangement, then each function."""
    out = [f"chain {data['chain']} over stack {data['stack']}: {data['arrangement']}"]
    for function in data["functions"]:
        out += ["", f"{function['name']} ({function['source']})"]
        rows = [
            ("parameters", [f"{name}={value}" for name, value in function["parameters"].items()]),
            ("subscribes", function["subscribes"]),
            ("receives", [_received(one) for one in function["receives"]]),
            ("publishes", [_published(one) for one in function["publishes"]]),
            ("decides", function["decides"]),
            ("writes", function["writes"]),
        ]
        out += [f"  {name:<11}{', '.join(values)}" for name, values in rows if values]
    return "\n".join(out)


def _received(event: Data) -> str:
    return f"{event['event']} of {', '.join(event['from'] or ['no function'])}"


def _published(event: Data) -> str:
    fields = "; ".join(f"{kind} {name}" for name, kind in event["fields"].items())
    return f"{event['event']} {{ {fields} }}" + (f" after {event['base']}" if event["base"] else "")


def chain_picture(data: Data) -> str:
    """The SVG: packets go from top to bottom, published events beside the lines. Functions that decide have a thick
    border.
    """
    boxes = [Box("in", [f"stack {data['stack']}"], "root")]
    for function in data["functions"]:
        lines = [function["name"], *function["subscribes"][:4]]
        if len(function["subscribes"]) > 4:
            lines.append(f"... {len(function['subscribes']) - 4} more")
        lines += [f"decides: {', '.join(function['decides'])}"] if function["decides"] else []
        boxes.append(Box(function["name"], lines, "start" if function["decides"] else "", function["source"]))
    boxes.append(Box("out", ["packets leave"], "root"))
    events: dict[tuple[str, str], list[str]] = {}
    for function in data["functions"]:
        for one in function["receives"]:
            for publisher in one["from"]:
                events.setdefault((publisher, function["name"]), []).append(one["event"])
    lines = [(one, other) for one, other in data["steps"]]
    arrows = [Arrow("in", name, []) for name in data["first"]]
    arrows += [Arrow(one, other, events.pop((one, other), [])) for one, other in lines]
    arrows += [Arrow(one, other, names, "published", faint=True) for (one, other), names in events.items()]
    arrows += [Arrow(name, "out", []) for name in data["last"]]
    return page([(f"{data['chain']}: {data['arrangement']}", graph(boxes, arrows))])
