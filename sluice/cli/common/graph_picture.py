"""The picture of one graph of the IR. Blocks in a straight line are drawn as one box.

A picture is at most LARGEST pixels wide and high. If a graph does not fit, boxes get fewer lines; if it still does not
fit, the blocks farthest from the entry are left out, and a box in their place gives their number.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sluice.cli.common.drawing.svg import MARGIN, Arrow, Box, Drawn, graph, page
from sluice.ir.graph import Graph
from sluice.ir.text import print_instruction

LARGEST = 4000
_LETTERS = 88
_LINES = (12, 5)
"""Limits for the number of instructions in a box, tried in this order."""
_MOST_BOXES = 72
"""The number of boxes that is tried first for larger graphs: more are slow to place, and do not fit."""
_ROLES = ("to", "yes", "no", "cut", "short")


@dataclass
class _Run:
    """Blocks in a straight line, drawn as one box with the name of the first."""

    names: list[str]
    lines: list[str] = field(default_factory=lambda: [])
    targets: dict[str, list[str]] = field(default_factory=lambda: {})


@dataclass(frozen=True)
class Picture:
    """svg: the file. blocks: the number of blocks in the graph. left_out: the number of blocks that are not drawn.
    cut: whether boxes show only a part of their instructions.
    """

    svg: str
    blocks: int
    left_out: int
    cut: bool

    @property
    def note(self) -> str:
        """A sentence on the omissions of the picture; empty if it is complete."""
        parts = [f"{self.left_out} of {self.blocks} blocks, those farthest from the entry"] if self.left_out else []
        parts += ["further instructions of long blocks"] if self.cut else []
        return f"left out: {'; '.join(parts)}" if parts else ""


def graph_picture(heading: str, item: Graph) -> Picture:
    """The largest part of a graph that fits."""
    runs = _runs(item)
    order = _by_distance(runs, item.entry)
    count = min(len(order), _MOST_BOXES)
    while True:
        for most in _LINES:
            picture = _picture(heading, item, runs, order[:count], most)
            if picture is not None:
                return picture
        if count == 1:
            raise ValueError("a box of a few lines is larger than a picture may be")
        count = max(1, count * 2 // 3)


def _picture(heading: str, item: Graph, runs: dict[str, _Run], shown: list[str], most: int) -> Picture | None:
    """The picture of the boxes in `shown`, each with at most `most` lines; None if it is too large."""
    drawn, cut = _drawn(item.entry, runs, shown, most)
    left_out = len(item.order()) - sum(len(runs[name].names) for name in shown)
    picture = Picture("", len(item.order()), left_out, cut)
    title = f"{heading}: {item.name}" + (f" ({picture.note})" if picture.note else "")
    size = max(drawn.width, len(title) * 9.8) + 2 * MARGIN, drawn.height + 34 + 2 * MARGIN
    if max(size) > LARGEST:
        return None
    return Picture(page([(title, drawn)]), picture.blocks, left_out, cut)


def _runs(item: Graph) -> dict[str, _Run]:
    """Group the blocks of a graph into boxes. The key is the name of a box's first block."""
    order = item.order()
    reached = set(order)
    sources: dict[str, int] = {}
    for name in order:
        for target in set(item.blocks[name].terminator.targets()):
            sources[target] = sources.get(target, 0) + 1
    runs: dict[str, _Run] = {}
    first: dict[str, str] = {}
    for name in order:
        begin = first.get(name, name)
        run = runs.setdefault(begin, _Run([]))
        if run.names:
            run.lines.append(name)
        run.names.append(name)
        block = item.blocks[name]
        targets = [target for target in block.terminator.targets() if target in reached]
        follows = (
            len(targets) == 1 and sources[targets[0]] == 1 and targets[0] != item.entry and targets[0] not in first
        )
        run.lines += [print_instruction(instruction) for instruction in (block.body if follows else block.instructions)]
        if follows:
            first[targets[0]] = begin
            continue
        for role in _ROLES:
            target = getattr(block.terminator, role, None)
            if isinstance(target, str):
                run.targets.setdefault(target, []).append("" if role == "to" else role)
    return runs


def _by_distance(runs: dict[str, _Run], entry: str) -> list[str]:
    """The names of the boxes, breadth first from the entry."""
    order, seen = [entry], {entry}
    for name in order:
        for target in runs[name].targets:
            if target in runs and target not in seen:
                seen.add(target)
                order.append(target)
    return order


def _drawn(entry: str, runs: dict[str, _Run], shown: list[str], most: int) -> tuple[Drawn, bool]:
    boxes: list[Box] = []
    arrows: list[Arrow] = []
    cut = False
    there = set(shown)
    for name in shown:
        run = runs[name]
        lines = [_cut(line) for line in run.lines[:most]]
        if len(run.lines) > most:
            cut = True
            lines.append(f"... {len(run.lines) - most} more")
        kind = "start" if name == entry else ""
        boxes.append(Box(name, [_cut(run.names[0]), *lines], kind, "\n".join(run.lines)))
        missing = [target for target in run.targets if target not in there]
        for target, roles in run.targets.items():
            if target in there:
                arrows.append(Arrow(name, target, [", ".join(filter(None, roles))] if any(roles) else []))
        if missing:
            beyond = f"{name} -> left out"
            boxes.append(Box(beyond, [f"... {len(missing)} left out"], "note", "\n".join(missing)))
            arrows.append(Arrow(name, beyond, []))
    return graph(boxes, arrows), cut


def _cut(text: str) -> str:
    return text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…"
