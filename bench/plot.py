"""A picture of results as SVG: bars, one row for each program on each trace. Nothing is loaded from elsewhere."""

from __future__ import annotations

from dataclasses import replace
from html import escape

from bench import cases
from bench.cases import SLUICE
from bench.measuring import Results
from bench.programs import PEERS

LEFT, BAR, GAP, WIDTH, RIGHT = 150, 15, 16, 560, 90
COLOURS = {"bound": "#8a94a3", "libnids": "#c9a24a", "ndpi": "#b98a6a", "gopacket": "#a77fb3", SLUICE: "#2f6fb5"}
STYLE = """\
svg { background: #fff; font: 12px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; }
.text { fill: #16202c; }
.title { fill: #16202c; font-weight: bold; }
.span { stroke: #16202c; stroke-width: 1; }
"""


def bars(results: Results, function: str, warm: bool) -> str:
    """Nanoseconds a packet of every program on the main traces; thin lines show the span of the rounds."""
    groups: list[tuple[str, list[tuple[str, float, float, float]]]] = []
    for ours in cases.main(functions=(function,)):
        if ours.program != SLUICE or ours.prefault or ours.warm != warm:
            continue
        rows: list[tuple[str, float, float, float]] = []
        for name in (*(peer.name for peer in PEERS), SLUICE):
            case = ours if name == SLUICE else replace(ours, program=name, stack="", passes="")
            found, middle = results.ns(case), results.middle(case)
            if middle is not None:
                rows.append((name, middle, min(found), max(found)))
        groups.append((ours.trace, rows))
    most = max((row[3] for _, rows in groups for row in rows), default=1.0)
    heat = "in a ring, warm" if warm else "where the file has them, cold"
    title = f"{function}: nanoseconds of CPU time a packet; packets {heat}"
    out = [f'<text class="title" x="8" y="20">{escape(title)}</text>']
    y = 36.0
    for trace, rows in groups:
        out.append(f'<text class="text" x="8" y="{y + 12:g}">{escape(trace)}</text>')
        for name, middle, low, high in rows:
            width, begin, end = (WIDTH * value / most for value in (middle, low, high))
            beside = LEFT + max(width, end) + 6
            out += [
                f'<text class="text" x="{LEFT - 8}" y="{y + 12:g}" text-anchor="end">{escape(name)}</text>',
                f'<rect x="{LEFT}" y="{y:g}" width="{width:.1f}" height="{BAR - 3}" fill="{COLOURS[name]}"/>',
                f'<path class="span" d="M{LEFT + begin:.1f} {y + BAR / 2 - 1.5:g}H{LEFT + end:.1f}"/>',
                f'<text class="text" x="{beside:.1f}" y="{y + 11:g}">{middle:.1f}</text>',
            ]
            y += BAR
        y += GAP
    size = f"0 0 {LEFT + WIDTH + RIGHT} {y:g}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}" role="img" aria-label="{escape(title)}">'
    return "\n".join([head, f"<style>{STYLE}</style>", *out, "</svg>"]) + "\n"
