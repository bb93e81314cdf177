"""The picture of a large stack: its layers as a tree from the link types down, coloured by kind.

Lines are drawn only for the steps of the tree. A layer's other successors are listed in its box; the tip shows their
conditions. Leaves with the same parent and kind share a box. Leaves without successors and leaves with successors
elsewhere in the tree have separate boxes.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from sluice.cli.common.describe import Data
from sluice.cli.common.drawing.svg import Arrow, Box, Drawn, graph, legend
from sluice.cli.common.layer_tree import LayerTree, layer_tree

_WIDTH = 20  # characters per line of a box
_NAMED = 6  # maximum number of other successors that a box names
_START = "a packet"  # a layer's name has no space, so this is unique
_COLLAPSED = 25  # minimum number of layers of a stack in which leaves share boxes
_TOGETHER = 3  # minimum number of leaves in a shared box

KINDS = (
    ("root", "link types: packets begin here"),
    ("stateless", "without state"),
    ("instances", "instances"),
    ("connections", "connections"),
    ("messages", "messages of a stream or a packet"),
)
STYLE = """\
.stateless { fill: #f5f6f7; stroke: #8a949e; }
.instances { fill: #e9f5ea; stroke: #4a8a55; }
.connections { fill: #fdeedd; stroke: #b8742a; }
.messages { fill: #f1eaf8; stroke: #7d5aa6; }
"""


def kind_of(layer: Data, roots: Iterable[str]) -> str:
    """The kind of a layer: one of KINDS."""
    if layer["name"] in roots:
        return "root"
    if layer["message"] is not None:
        return "messages"
    if layer["key"]:
        return "connections" if len(layer["key"]) == 2 else "instances"
    return "stateless"


def tree_picture(data: Data) -> list[tuple[str, Drawn]]:
    """The parts of the picture: a legend, and the tree."""
    tree = layer_tree(data)
    about = {layer["name"]: layer for layer in data["layers"]}
    when: dict[tuple[str, str], list[str]] = {}
    for step in data["steps"]:
        when.setdefault((step["lower"], step["upper"]), []).append(step["when"])
    boxes: list[Box] = [Box(_START, ["a packet"], "note")]
    arrows: list[Arrow] = []

    def tips(name: str) -> str:
        uppers = [*tree.children[name], *tree.others[name]]
        return "\n".join(f"{name} to {upper} when {' or '.join(when[name, upper])}" for upper in uppers)

    def place(lower: str, names: list[str]) -> None:
        for group in _grouped(names, tree, {name: kind_of(about[name], tree.roots) for name in names}):
            first = group[0]
            lines = [name for one in group for name in _lines(one, tree)] if len(group) == 1 else _wrapped(group, tree)
            tip = "\n".join(filter(None, map(tips, group)))
            boxes.append(Box(first, lines, kind_of(about[first], tree.roots), tip))
            between = [f"{lower} to {name} when {' or '.join(when[lower, name])}" for name in group if lower != _START]
            arrows.append(Arrow(lower, first, [], "\n".join(between)))
            for name in group:
                place(name, tree.children[name])

    place(_START, list(tree.roots))
    used = {box.kind for box in boxes}
    drawn = graph(boxes, arrows)
    heading = f"{data['stack'] or 'stack'}: {len(about)} layers and {len(when)} steps, from the link types down"
    return [(heading, legend([item for item in KINDS if item[0] in used])), ("", drawn)]


def _grouped(names: list[str], tree: LayerTree, kinds: dict[str, str]) -> list[list[str]]:
    """Siblings in groups that share a box: leaves are grouped by kind and by whether they have other successors."""
    leaves: dict[tuple[str, bool], list[str]] = {}
    for name in names:
        if not tree.children[name]:
            leads = name not in tree.roots and bool(tree.others[name])
            leaves.setdefault((kinds[name], leads), []).append(name)
    together = [group for group in leaves.values() if len(group) >= _TOGETHER]
    joined = {name for group in together for name in group}
    if len(tree.children) < _COLLAPSED:
        return [[name] for name in names]
    return [[name] for name in names if name not in joined] + together


def _lines(name: str, tree: LayerTree) -> list[str]:
    lines = [name]
    if kinds := tree.roots.get(name):
        lines.append(f"link type {', '.join(kinds)}")
    return lines + _others(tree.others[name])


def _others(others: list[str]) -> list[str]:
    """The lines of a box that list successors other than its children."""
    if not others:
        return []
    more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
    return textwrap.wrap(f"also to {', '.join(others[:_NAMED])}{more}", _WIDTH)


def _wrapped(names: list[str], tree: LayerTree) -> list[str]:
    """The lines of a box that several layers share."""
    if names[0] in tree.roots:
        kinds = ", ".join(f"{name} ({', '.join(tree.roots[name])})" for name in names)
        return ["other link types", *textwrap.wrap(kinds, 2 * _WIDTH)]
    others = list(dict.fromkeys(other for name in names for other in tree.others[name]))
    return textwrap.wrap(", ".join(names), _WIDTH) + _others(others)
