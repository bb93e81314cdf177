"""SVG output: boxes with lines of text, arrows with labels, headings. The SVG file loads no other resources."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from html import escape

from sluice.cli.common.drawing.layered import Edge, Layout, Node

SIZE = 12.0
LINE = 15.0
CHARACTER = 7.25  # width of a character of a monospaced font of SIZE, rounded up
_LABEL = 6.1  # width of a character of a label, whose font is smaller
_LABEL_LINE = 12.5
MARGIN = 24.0
_LOOP = 24.0

STYLE = """\
svg { background: #fff; font: 12px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; }
.box { fill: #f4f7fb; stroke: #41597a; stroke-width: 1.2; }
.start { stroke-width: 2.6; }
.accept { fill: #e6f4e8; stroke: #3b7d46; }
.closed { fill: #eef0f2; stroke: #7b858f; }
.note { fill: #fff8e6; stroke: #b08a2e; stroke-dasharray: 4 3; }
.root { fill: #e4edf9; }
.text { fill: #16202c; }
.small { fill: #4d5a68; font-size: 10px; }
.label { fill: #33475e; font-size: 10px; }
.under { fill: #fff; fill-opacity: 0.92; }
.line { fill: none; stroke: #6b7f96; stroke-width: 1.1; }
.faint { fill: none; stroke: #d9c48d; stroke-width: 1; stroke-dasharray: 2 3; }
.title { fill: #16202c; font-size: 16px; font-weight: bold; }
"""


@dataclass
class Box:
    """A node to draw; its first line of text is large, the others are small. kind: classes of STYLE. tip: text shown on
    hover.
    """

    name: str
    lines: list[str]
    kind: str = ""
    tip: str = ""


@dataclass
class Arrow:
    """A line to draw, with a label of several lines. faint: without a head, to connect related boxes."""

    source: str
    target: str
    lines: list[str]
    tip: str = ""
    faint: bool = False


@dataclass
class Drawn:
    """A part of a picture: its SVG text, with its origin at (0, 0), and its size."""

    text: str
    width: float
    height: float


def graph(boxes: list[Box], arrows: list[Arrow]) -> Drawn:
    """Draw a graph."""
    loops: dict[str, list[Arrow]] = {}
    for arrow in arrows:
        if arrow.source == arrow.target:
            loops.setdefault(arrow.source, []).append(arrow)
    sizes = {box.name: _size(box) for box in boxes}
    nodes: list[Node] = []
    for box in boxes:
        width, height = sizes[box.name]
        beside = _loop_room(loops.get(box.name, []))
        nodes.append(Node(box.name, width + 2 * beside, max(height, _loop_height(loops.get(box.name, [])))))
    straight = [arrow for arrow in arrows if arrow.source != arrow.target]
    edges = [Edge(a.source, a.target, _label_width(a.lines), len(a.lines) * _LABEL_LINE) for a in straight]
    placed = Layout(nodes, edges)
    at = {node.name: node for node in nodes}
    out: list[str] = []
    for arrow, edge in zip(straight, edges, strict=True):
        # lines end at the border of the box, which is smaller than the layout node if the box has loops
        points = list(edge.points)
        points[0] = (points[0][0], _edge_of(at[edge.source], sizes[edge.source][1], points[0][1]))
        points[-1] = (points[-1][0], _edge_of(at[edge.target], sizes[edge.target][1], points[-1][1]))
        out.append(_line(points, arrow))
    for arrow, edge in zip(straight, edges, strict=True):
        if arrow.lines:
            out.append(_label(arrow.lines, *edge.label_at))
    for box in boxes:
        node = at[box.name]
        width, height = sizes[box.name]
        for arrow in loops.get(box.name, [])[:1]:
            out.append(_loop(arrow, loops[box.name], node, width))
        out.append(_box(box, node.x, node.y, width, height))
    return Drawn("\n".join(out), placed.width, placed.height)


def _edge_of(node: Node, height: float, y: float) -> float:
    return node.y + height / 2 if y > node.y else node.y - height / 2


def _size(box: Box) -> tuple[float, float]:
    first, rest = box.lines[0], box.lines[1:]
    width = max([len(first) * CHARACTER, *(len(line) * _LABEL for line in rest)]) + 20
    return max(width, 46.0), 14 + LINE + _LABEL_LINE * len(rest)


def _label_width(lines: list[str]) -> float:
    return max((len(line) for line in lines), default=0) * _LABEL + (8 if lines else 0)


def _loop_room(loops: list[Arrow]) -> float:
    return _LOOP + 6 + max(_label_width(_loop_lines(loops)), 0) if loops else 0.0


def _loop_height(loops: list[Arrow]) -> float:
    return max(34.0, len(_loop_lines(loops)) * _LABEL_LINE) if loops else 0.0


def _loop_lines(loops: list[Arrow]) -> list[str]:
    return [line for arrow in loops for line in arrow.lines]


def _loop(arrow: Arrow, loops: list[Arrow], node: Node, width: float) -> str:
    x, y = node.x + width / 2, node.y
    far = f"{x + _LOOP:.1f}"
    path = f"M {x:.1f} {y - 8:.1f} C {far} {y - 20:.1f} {far} {y + 20:.1f} {x:.1f} {y + 8:.1f}"
    tip = "\n".join(item.tip for item in loops if item.tip)
    out = [f'<path class="line" d="{path}" marker-end="url(#head)">{_tip(tip)}</path>']
    lines = _loop_lines(loops)
    if lines:
        out.append(_label(lines, x + _LOOP + _label_width(lines) / 2, y))
    return "\n".join(out)


def _line(points: list[tuple[float, float]], arrow: Arrow) -> str:
    x, y = points[0]
    path = [f"M {x:.1f} {y:.1f}"]
    for (x1, y1), (x2, y2) in itertools.pairwise(points):
        if abs(x1 - x2) < 0.5:
            path.append(f"L {x2:.1f} {y2:.1f}")
        else:
            middle = (y1 + y2) / 2
            path.append(f"C {x1:.1f} {middle:.1f} {x2:.1f} {middle:.1f} {x2:.1f} {y2:.1f}")
    head = "" if arrow.faint else ' marker-end="url(#head)"'
    kind = "faint" if arrow.faint else "line"
    return f'<path class="{kind}" d="{" ".join(path)}"{head}>{_tip(arrow.tip)}</path>'


def _label(lines: list[str], x: float, y: float) -> str:
    width, height = _label_width(lines), len(lines) * _LABEL_LINE
    corner = f'x="{x - width / 2:.1f}" y="{y - height / 2:.1f}"'
    out = [f'<rect class="under" {corner} width="{width:.1f}" height="{height:.1f}"/>']
    for index, line in enumerate(lines):
        top = y - height / 2 + (index + 0.78) * _LABEL_LINE
        out.append(f'<text class="label" x="{x:.1f}" y="{top:.1f}" text-anchor="middle">{escape(line)}</text>')
    return "\n".join(out)


def _box(box: Box, x: float, y: float, width: float, height: float) -> str:
    out = [f"<g>{_tip(box.tip)}"]
    frame = f'x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" height="{height:.1f}" rx="7"'
    out.append(f'<rect class="{("box " + box.kind).strip()}" {frame}/>')
    top = y - height / 2 + 7 + 11
    for index, line in enumerate(box.lines):
        kind = "text" if index == 0 else "small"
        out.append(f'<text class="{kind}" x="{x:.1f}" y="{top:.1f}" text-anchor="middle">{escape(line)}</text>')
        top += LINE if index == 0 else _LABEL_LINE
    return "\n".join([*out, "</g>"])


def _tip(text: str) -> str:
    return f"<title>{escape(text)}</title>" if text else ""


def table(rows: list[tuple[str, str]]) -> Drawn:
    """Draw pairs of text, one per line."""
    out: list[str] = []
    first = max((len(name) for name, _ in rows), default=0) * _LABEL + 14
    for index, (name, text) in enumerate(rows):
        y = (index + 0.8) * _LABEL_LINE
        out.append(f'<text class="label" x="0" y="{y:.1f}">{escape(name)}</text>')
        out.append(f'<text class="small" x="{first:.1f}" y="{y:.1f}">{escape(text)}</text>')
    width = first + max((len(text) for _, text in rows), default=0) * _LABEL
    return Drawn("\n".join(out), width, len(rows) * _LABEL_LINE)


def page(parts: list[tuple[str, Drawn]], style: str = "", width_most: float = 0.0) -> str:
    """The text of an SVG file: parts one below the other, each under its heading (empty: none).

    style: CSS for further classes. width_most: from the third part on, a part is placed next to the previous one if
    the row is then at most this wide.
    """
    out: list[str] = []
    width = x = row = 0.0
    y = MARGIN
    for number, (heading, drawn) in enumerate(parts):
        across = max(drawn.width, len(heading) * 9.8 if heading else 0.0)
        if number > 1 and x + across <= width_most:
            x += MARGIN
        else:  # a new row
            y, x, row = y + row, 0.0, 0.0
        top = y
        if heading:
            out.append(f'<text class="title" x="{MARGIN + x}" y="{top + 14:.1f}">{escape(heading)}</text>')
            top += 34
        out.append(f'<g transform="translate({MARGIN + x} {top:.1f})">\n{drawn.text}\n</g>')
        x += across
        row = max(row, top - y + drawn.height + MARGIN)
        width = max(width, x)
    y += row
    width += 2 * MARGIN
    head = (
        '<marker id="head" viewBox="0 0 8 8" refX="7.2" refY="4" markerWidth="7.5" markerHeight="7.5" '
        'orient="auto"><path d="M 0 0.8 L 7.6 4 L 0 7.2 z" fill="#6b7f96"/></marker>'
    )
    size = f'width="{width:.0f}" height="{y:.0f}" viewBox="0 0 {width:.0f} {y:.0f}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<style>\n{STYLE}{style}</style>\n<defs>{head}</defs>\n'
        '<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(out) + "\n</svg>\n"
    )


def legend(items: list[tuple[str, str]]) -> Drawn:
    """Draw a legend of box classes in one row. items: (class, text)."""
    out: list[str] = []
    x = 0.0
    for kind, text in items:
        out.append(f'<rect class="box {kind}" x="{x:.1f}" y="1" width="22" height="14" rx="4"/>')
        out.append(f'<text class="label" x="{x + 28:.1f}" y="12">{escape(text)}</text>')
        x += 28 + len(text) * _LABEL + 22
    return Drawn("\n".join(out), x, 16.0)
