"""Pictures of what bench/isolate.py and bench/isolate_single.py measured: bars of medians, thin lines from the least to
the greatest round. Nothing is loaded from elsewhere.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from statistics import median
from typing import Any

from bench.plot import STYLE

LEFT, BAR, GAP, WIDTH, RIGHT = 230, 14, 12, 520, 80
COLOURS = ("#8a94a3", "#c9a24a", "#2f6fb5", "#5a9a6f", "#b98a6a", "#a77fb3", "#6b7f2a")
FIGURES = {
    "2.9": ("Penalty beside UDP senders", "UDP out", ("none", "charging", "dropping")),
    "2.10": ("Penalty beside TCP senders", "TCP out", ("none", "charging", "dropping")),
    "2.11": ("Penalty beside UDP receivers", "UDP in", ("none", "charging", "dropping", "threads")),
    "2.12": ("Penalty beside TCP receivers", "TCP in", ("none", "charging", "dropping", "threads")),
    "2.16": ("Dropping before and after the driver", "UDP in", ("dropping", "xdp", "tc")),
}
"""By the number of the thesis's figure: title, rows by the beginning of their name, and columns."""


def picture(title: str, groups: list[tuple[str, list[tuple[str, list[float]]]]], mark: float | None = None) -> str:
    """Bars in groups, one for each series of values. mark: a value with a line through all groups."""
    names = list(dict.fromkeys(name for _, rows in groups for name, _ in rows))
    most = max([value for _, rows in groups for _, values in rows for value in values] + [mark or 0, 1e-9])
    out = [f'<text class="title" x="8" y="20">{escape(title)}</text>']
    y = 36.0
    for group, rows in groups:
        out.append(f'<text class="text" x="8" y="{y + 11:g}">{escape(group)}</text>')
        y += BAR
        for name, values in rows:
            middle, low, high = (WIDTH * one / most for one in (median(values), min(values), max(values)))
            out += [
                f'<text class="text" x="{LEFT - 8}" y="{y + 11:g}" text-anchor="end">{escape(name)}</text>',
                f'<rect x="{LEFT}" y="{y:g}" width="{middle:.1f}" height="{BAR - 3}" '
                f'fill="{COLOURS[names.index(name) % len(COLOURS)]}"/>',
                f'<path class="span" d="M{LEFT + low:.1f} {y + BAR / 2 - 1.5:g}H{LEFT + high:.1f}"/>',
                f'<text class="text" x="{LEFT + max(middle, high) + 6:.1f}" y="{y + 11:g}">{median(values):.2f}</text>',
            ]
            y += BAR
        y += GAP
    if mark is not None:
        at = LEFT + WIDTH * mark / most
        out.append(f'<path class="span" stroke-dasharray="3 3" d="M{at:.1f} 30V{y - GAP:g}"/>')
    size = f"0 0 {LEFT + WIDTH + RIGHT} {y:g}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}" role="img" aria-label="{escape(title)}">'
    return "\n".join([head, f"<style>{STYLE}</style>", *out, "</svg>"]) + "\n"


def penalty_pictures(results: list[dict[str, Any]], folder: Path) -> list[Path]:
    """Write figures 2.9 to 2.12 and 2.16 from what bench/isolate.py measured for each number of containers."""
    written: list[Path] = []
    for number, (title, begins, modes) in FIGURES.items():
        groups = [
            (f"{name}, {one['containers']} containers", rows)
            for one in results
            for name, row in one["penalties"].items()
            if name.startswith(begins) and (rows := [(mode, row[mode]) for mode in modes if row.get(mode)])
        ]
        if groups:
            written.append(folder / f"isolate-{number}.svg")
            written[-1].write_text(picture(f"{title} (1: perfect isolation)", groups, 1.0))
    return written
