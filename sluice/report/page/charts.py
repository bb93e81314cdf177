"""Pictures: the time line, and bars in tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sluice.report.page.html import Html, element
from sluice.report.page.text import count, duration, rate, size, when

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 960, 210, 64, 28, 10


def bar(part: int, whole: int) -> Html:
    """A bar for a share."""
    percent = 100 * part / whole if whole else 0
    fill = element("rect", width=f"{max(percent, 0.4 if part else 0):.2f}", height="6", rx="1")
    return element("svg", fill, class_="bar", viewBox="0 0 100 6", preserveAspectRatio="none", aria_hidden="true")


def _scale(most: int) -> list[int]:
    """Round values from 0 to at least `most`, three or four."""
    step = 10 ** math.floor(math.log10(max(most, 1)))
    while step * 2 >= most and step > 1:
        step = step // 2 if step % 2 == 0 else max(step // 5, 1)
    for times in (1, 2, 5, 10):
        if step * times * 4 >= most:
            step *= times
            break
    return [step * number for number in range(-(-max(most, 1) // step) + 1)]


def timeline(facts: Mapping[str, Any], measure: int) -> Html:
    """Bars over time. measure: 0 packets, 1 bytes. The part with retransmissions is marked below the bars."""
    bars: list[list[int]] = facts["bars"]
    begin, width = facts["begin"], facts["width"]
    ticks = _scale(max((each[measure] for each in bars), default=1))
    inner, high = _WIDTH - _LEFT - 8, _HEIGHT - _BOTTOM - _TOP
    each = inner / max(len(bars), 1)
    shown = size if measure else count
    parts: list[Html] = []
    for tick in ticks:
        y = round(_TOP + high - high * tick / ticks[-1], 1)
        parts.append(element("line", x1=_LEFT, x2=_WIDTH - 8, y1=y, y2=y, class_="grid"))
        parts.append(element("text", shown(tick), x=_LEFT - 8, y=y + 4, text_anchor="end"))
    for number, values in enumerate(bars):
        if not any(values):
            continue
        x, tall = _LEFT + each * number, high * values[measure] / ticks[-1]
        about = f"{when(begin + number * width)} + {duration(width)}: {count(values[0])} packets, {size(values[1])}"
        speed = rate(values[1], width)
        about += f", {speed}" if speed else ""
        about += f", {count(values[2])} retransmissions" if values[2] else ""
        tall = max(tall, 1.0) if values[measure] else 0.0
        y = _TOP + high - tall
        rect = element(
            "rect",
            element("title", about),
            x=f"{x:.1f}",
            y=f"{y:.1f}",
            width=f"{max(each - 0.8, 0.8):.1f}",
            height=f"{tall:.1f}",
            class_="column",
        )
        parts.append(rect)
        if values[2]:
            parts.append(
                element(
                    "rect",
                    element("title", about),
                    x=f"{x:.1f}",
                    y=_TOP + high + 1,
                    width=f"{max(each - 0.8, 0.8):.1f}",
                    height=3,
                    class_="again",
                )
            )
    total = width * len(bars)
    for number in range(5):
        x = _LEFT + inner * number / 4
        anchor = ("start", "middle", "middle", "middle", "end")[number]
        text = when(begin, 0)[11:] or "0" if number == 0 else f"+ {duration(total * number // 4)}"
        parts.append(element("text", text, x=f"{x:.1f}", y=_HEIGHT - 6, text_anchor=anchor))
    label = f"{'Bytes' if measure else 'Packets'} in intervals of {duration(width)}"
    picture = element("svg", *parts, class_="time", viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img", aria_label=label)
    return element("div", picture, class_="chart")
