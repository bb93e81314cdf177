"""The pictures of `show` and `explain`: parse trees, state machines, graphs of the IR."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

from sluice.cli.common.describe import Data
from sluice.cli.common.drawing.svg import Arrow, Box, Drawn, graph, page, table
from sluice.cli.common.stack_tree_picture import STYLE, tree_picture

_LEAST_GROUP = 4  # minimum number of sources of one target that are drawn as a group
_FEW_OTHERS = 2  # if a group excludes at most this many nodes, its label is "any but ..."
_DEAREST_COVER = 6  # maximum number of lines to a target from existing groups; above it, the target gets a new group
_LONGEST_LABEL = 30
_SCREEN = 1800.0  # maximum width of a row of state machines below a large tree, unless the tree is wider
_MAX_LABELS = 30  # maximum number of steps of a parse tree with labels; above it, conditions are shown on hover only


def stack_picture(data: Data, tree: bool = True) -> str:
    """The SVG of a description: the parse tree, and the state machine of each layer that has one."""
    parts: list[tuple[str, Drawn]] = []
    large = tree and len(data["steps"]) > _MAX_LABELS
    if large:
        parts += tree_picture(data)
    elif tree:
        parts.append((f"{data['stack'] or 'stack'}: which layer follows which", _tree(data)))
    machines: dict[str, tuple[list[str], Data]] = {}
    for layer in data["layers"]:
        if layer["machine"] is not None:  # equal machines of several layers are drawn once
            machines.setdefault(json.dumps(layer["machine"]), ([], layer["machine"]))[0].append(layer["name"])
    for names, machine in machines.values():
        parts.append((f"{', '.join(names)}: states of an instance", _machine(machine)))
    if large:
        return page(parts, STYLE, max(_SCREEN, parts[1][1].width))
    if not parts:
        layer = data["layers"][0]["name"]
        parts.append((f"{layer}: no state machine", table([("", "its packets have no state")])))
    return page(parts)


# --- groups -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Group:
    """Nodes with lines to the same targets. The lines are drawn once, from a note that names the nodes."""

    name: str
    members: tuple[str, ...]


def _grouped(pairs: dict[str, list[str]], names: list[str]) -> tuple[list[_Group], dict[tuple[str, str], str]]:
    """Group sources with common targets. Returns the groups, and the group that replaces the line of each grouped
    (source, target).

    pairs: the sources of every target.
    """
    groups: list[_Group] = []
    drawn: dict[tuple[str, str], str] = {}

    def use(group: _Group, target: str) -> None:
        for member in group.members:
            drawn[member, target] = group.name

    for target, sources in sorted(pairs.items(), key=lambda item: (len(item[1]), names.index(item[0]))):
        left = set(sources)
        if len(left) < _LEAST_GROUP:
            continue
        cover: list[_Group] = []
        if len(names) - len(left) > _FEW_OTHERS:
            for group in sorted(groups, key=lambda group: -len(group.members)):
                if set(group.members) <= left:
                    cover.append(group)
                    left -= set(group.members)
        if cover and len(cover) + len(left) <= _DEAREST_COVER:
            for group in cover:
                use(group, target)
            continue
        same = next((group for group in groups if set(group.members) == set(sources)), None)
        if same is None:
            same = _Group(f"group {len(groups)}", tuple(name for name in names if name in sources))
            groups.append(same)
        use(same, target)
    return groups, drawn


def _notes(groups: list[_Group], names: list[str], arrows: list[Arrow]) -> tuple[list[Box], list[Arrow]]:
    """The boxes of the groups, and faint lines from members to their groups, except from members that are reached from
    the group, because these lines would go upwards.
    """
    boxes: list[Box] = []
    faint: list[Arrow] = []
    for group in groups:
        others = [name for name in names if name not in group.members]
        tip = "from any of " + ", ".join(group.members)
        if not others:
            boxes.append(Box(group.name, ["any"], "note", tip))
        elif len(others) <= _FEW_OTHERS:
            boxes.append(Box(group.name, ["any but", *_wrapped(others)], "note", tip))
        else:
            boxes.append(Box(group.name, ["any of", *_wrapped(group.members)], "note", tip))
            above = _reached(group.name, arrows + faint)
            faint += [Arrow(member, group.name, [], faint=True) for member in group.members if member not in above]
    return boxes, faint


def _reached(start: str, arrows: list[Arrow]) -> set[str]:
    """All nodes that are reachable from `start`."""
    found = {start}
    before = 0
    while len(found) != before:
        before = len(found)
        found |= {arrow.target for arrow in arrows if arrow.source in found}
    return found


def _wrapped(names: Iterable[str]) -> list[str]:
    return textwrap.wrap(", ".join(names), 30)


# --- parse tree ---------------------------------------------------------------------------------------------


def _tree(data: Data) -> Drawn:
    names = [layer["name"] for layer in data["layers"]]
    about = {layer["name"]: layer for layer in data["layers"]}
    kinds: dict[str, list[str]] = {}
    for root in data["roots"]:
        if root["link_type"] is not None:
            kinds.setdefault(root["layer"], []).append(str(root["link_type"]))
    boxes: list[Box] = []
    for name in names:
        lines = [name, *_features(about[name])]
        if name in kinds:
            lines.append("link type " + ", ".join(kinds[name]))
        boxes.append(Box(name, lines, "root" if any(root["layer"] == name for root in data["roots"]) else ""))
    sources: dict[str, list[str]] = {}
    conditions: dict[tuple[str, str], list[str]] = {}
    for step in data["steps"]:
        pair = (step["lower"], step["upper"])
        conditions.setdefault(pair, []).append(step["when"])
        if step["lower"] not in sources.setdefault(step["upper"], []):
            sources[step["upper"]].append(step["lower"])
    few = len(conditions) <= _MAX_LABELS
    groups, drawn = ([], dict[tuple[str, str], str]()) if few else _grouped(sources, names)
    arrows: list[Arrow] = []
    for (lower, upper), texts in conditions.items():
        if (lower, upper) not in drawn:
            tip = f"{lower} to {upper} when " + "\nor ".join(texts)
            arrows.append(Arrow(lower, upper, _short(texts) if few else [], tip))
    for name, upper in dict.fromkeys((name, upper) for (_, upper), name in drawn.items()):
        texts = [
            f"{lower} to {upper} when {' or '.join(conditions[lower, upper])}"
            for (lower, to), via in drawn.items()
            if to == upper and via == name
        ]
        arrows.append(Arrow(name, upper, [], "\n".join(texts)))
    notes, faint = _notes(groups, names, arrows)
    return graph(boxes + notes, arrows + faint)


def _features(layer: Data) -> list[str]:
    """The state of a layer as text: kind of instances, sequence, number of states."""
    found: list[str] = []
    if layer["key"]:
        found.append("connections" if len(layer["key"]) == 2 else "instances")
    if layer["sequence"] is not None:
        found.append("sequence")
    if layer["machine"] is not None:
        found.append(f"{len(layer['machine']['states'])} states")
    return [", ".join(found)] if found else []


def _short(texts: list[str]) -> list[str]:
    """A label of one or two lines; the tip has the full text."""
    shown = [text for text in texts if text != "1"]  # a step that is always taken needs no condition
    if len(shown) > 1:
        return [_cut(shown[0], _LONGEST_LABEL), f"or {len(shown) - 1} more"]
    lines = textwrap.wrap(shown[0], _LONGEST_LABEL) if shown else []
    return lines if len(lines) <= 2 else [lines[0], lines[1][: _LONGEST_LABEL - 2] + " …"]


# --- state machines -----------------------------------------------------------------------------------------


def _machine(machine: Data) -> Drawn:
    names = [state["name"] for state in machine["states"]]
    boxes: list[Box] = []
    for state in machine["states"]:
        marks = [mark for mark in ("start", "accept", "closed") if state[mark]]
        boxes.append(Box(state["name"], [state["name"], *([", ".join(marks)] if marks else [])], " ".join(marks)))
    taken: dict[tuple[str, str], list[Data]] = {}
    sources: dict[str, list[str]] = {}
    for t in machine["transitions"]:
        taken.setdefault((t["from"], t["to"]), []).append(t)
        if t["from"] not in sources.setdefault(t["to"], []):
            sources[t["to"]].append(t["from"])
    groups, drawn = _grouped(sources, names)
    arrows: list[Arrow] = []
    for pair, transitions in taken.items():
        if pair not in drawn:
            arrows.append(Arrow(*pair, _names(transitions), "\n".join(_tip(t) for t in transitions)))
    for name, target in dict.fromkeys((name, target) for (_, target), name in drawn.items()):
        transitions = [t for pair, ts in taken.items() if pair[1] == target and drawn.get(pair) == name for t in ts]
        arrows.append(Arrow(name, target, _names(transitions), "\n".join(_tip(t) for t in transitions)))
    notes, faint = _notes(groups, names, arrows)
    return graph(boxes + notes, arrows + faint)


def _names(transitions: list[Data]) -> list[str]:
    """A label with the names of transitions, without the names of the states. A single transition also gets its
    condition.
    """
    found: dict[str, None] = {}
    for t in transitions:
        ends = f"{t['from']}_to_{t['to']}"
        name = t["name"].replace(f"_{t['from']}", "").replace(f"{t['from']}_", "") if t["name"] != ends else ""
        if name:
            found[name] = None
        elif len(transitions) == 1:
            return _short([t["when"]])
    names = [name for name in found if name]
    if len(names) == 1 and len(transitions) == 1 and transitions[0]["name"] == names[0]:
        names += _short([transitions[0]["when"]])
    return names if len(names) <= 3 else [*names[:2], f"and {len(names) - 2} more"]


def _tip(t: Data) -> str:
    more = (f", timeout {t['timeout']:g} s" if t["timeout"] else "") + (", restart" if t["restart"] else "")
    return f"{t['name']}: {t['from']} to {t['to']} when {t['when']}{more}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
