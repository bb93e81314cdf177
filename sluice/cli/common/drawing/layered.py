"""Places a directed graph in layers, from top to bottom (after Sugiyama, Tagawa and Toda, 1981).

Cycles are broken by reversing edges, and nodes get ranks. An edge that crosses a rank gets a dummy place in it, so that
no line crosses a box; a label is a dummy place with a size. The order within a rank is determined by medians, positions
by least squares under minimum distances. The layout is deterministic.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field

GAP_X = 26.0
GAP_Y = 26.0
_THIN = 10.0  # width of a line's place in a rank that it crosses


@dataclass
class Node:
    """A box: its name and size. The layout sets `x` and `y`, its centre."""

    name: str
    width: float
    height: float
    x: float = 0.0
    y: float = 0.0


@dataclass
class Edge:
    """A line from one node to another, with space for a label. The layout sets `points` and `label_at`."""

    source: str
    target: str
    label_width: float = 0.0
    label_height: float = 0.0
    points: list[tuple[float, float]] = field(default_factory=lambda: [])
    label_at: tuple[float, float] = (0.0, 0.0)


@dataclass
class Place:
    """A place in a rank: a node, or a dummy where an edge crosses the rank. label: it contains the edge's label."""

    width: float
    height: float
    node: str = ""
    edge: int = -1
    label: bool = False
    x: float = 0.0
    up: list[int] = field(default_factory=lambda: [])
    down: list[int] = field(default_factory=lambda: [])

    def beside(self, side: str) -> list[int]:
        """The connected places in the rank above (`up`) or below (`down`)."""
        return self.up if side == "up" else self.down


class Layout:
    """The layout of a graph. The constructor sets the positions of nodes and edges, and `width` and `height`."""

    def __init__(self, nodes: Iterable[Node], edges: list[Edge]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.edges = edges
        self.places: list[Place] = []
        self.ranks: list[list[int]] = []
        self.width = self.height = 0.0
        if self.nodes:
            self._turned = self._break_cycles()
            self._make_places(self._rank())
            self._order()
            self._positions()
            self._route()

    # --- ranks --------------------------------------------------------------------------------------------

    def _break_cycles(self) -> set[int]:
        """The numbers of the edges to reverse: the back edges of a depth-first search."""
        leaving: dict[str, list[int]] = {name: [] for name in self.nodes}
        for number, edge in enumerate(self.edges):
            leaving[edge.source].append(number)
        state: dict[str, int] = {}
        turned: set[int] = set()
        for root in self.nodes:
            if root in state:
                continue
            state[root] = 1
            path = [(root, iter(leaving[root]))]
            while path:
                name, rest = path[-1]
                number = next(rest, None)
                if number is None:
                    state[name] = 2
                    path.pop()
                    continue
                target = self.edges[number].target
                if target == name:
                    continue
                if state.get(target) == 1:
                    turned.add(number)
                elif target not in state:
                    state[target] = 1
                    path.append((target, iter(leaving[target])))
        return turned

    def _ends(self, number: int) -> tuple[str, str]:
        """The upper and lower node of an edge."""
        edge = self.edges[number]
        return (edge.target, edge.source) if number in self._turned else (edge.source, edge.target)

    def _rank(self) -> dict[str, int]:
        """Even ranks for nodes. A node without predecessors is placed directly above its highest successor."""
        above: dict[str, set[str]] = {name: set() for name in self.nodes}
        below: dict[str, set[str]] = {name: set() for name in self.nodes}
        for number, edge in enumerate(self.edges):
            if edge.source != edge.target:
                upper, lower = self._ends(number)
                above[lower].add(upper)
                below[upper].add(lower)
        rank: dict[str, int] = {}
        waiting = dict.fromkeys(self.nodes)
        while waiting:
            ready = [name for name in waiting if above[name] <= rank.keys()]
            for name in ready:
                rank[name] = max((rank[item] + 2 for item in above[name]), default=0)
                del waiting[name]
        for name in self.nodes:
            if not above[name] and below[name]:
                rank[name] = min(rank[item] for item in below[name]) - 2
        return rank

    def _make_places(self, rank: dict[str, int]) -> None:
        self.ranks = [[] for _ in range(max(rank.values()) + 1)]
        number_of: dict[str, int] = {}
        for name, node in self.nodes.items():
            number_of[name] = self._place(rank[name], Place(node.width, node.height, node=name))
        self.first_of_edge: dict[int, list[int]] = {}
        for number, edge in enumerate(self.edges):
            if edge.source == edge.target:
                continue
            upper, lower = self._ends(number)
            chain = [number_of[upper]]
            ranks = range(rank[upper] + 1, rank[lower])
            middle = rank[upper] + 1 if number not in self._turned else rank[lower] - 1
            for at in ranks:
                label = at == middle and edge.label_width > 0
                width, height = (edge.label_width, edge.label_height) if label else (_THIN, 0.0)
                chain.append(self._place(at, Place(width, height, edge=number, label=label)))
            chain.append(number_of[lower])
            for one, other in itertools.pairwise(chain):
                self.places[one].down.append(other)
                self.places[other].up.append(one)
            self.first_of_edge[number] = chain

    def _place(self, rank: int, place: Place) -> int:
        self.places.append(place)
        self.ranks[rank].append(len(self.places) - 1)
        return len(self.places) - 1

    # --- order --------------------------------------------------------------------------------------------

    def _order(self) -> None:
        self._first_order()
        best, least = [list(rank) for rank in self.ranks], self._crossings()
        for sweep in range(24):
            down = sweep % 2 == 0
            order = range(1, len(self.ranks)) if down else range(len(self.ranks) - 2, -1, -1)
            for rank in order:
                self._by_medians(rank, down)
            self._swap_neighbours()
            crossings = self._crossings()
            if crossings < least:
                best, least = [list(rank) for rank in self.ranks], crossings
        self.ranks = best

    def _first_order(self) -> None:
        seen: dict[int, int] = {}
        for start in [p for rank in self.ranks for p in rank]:
            stack = [start]
            while stack:
                place = stack.pop()
                if place not in seen:
                    seen[place] = len(seen)
                    stack.extend(reversed(self.places[place].down))
        for rank in self.ranks:
            rank.sort(key=lambda place: seen[place])

    def _by_medians(self, rank: int, down: bool) -> None:
        other = self.ranks[rank - 1 if down else rank + 1]
        at = {place: index for index, place in enumerate(other)}
        keys: dict[int, float] = {}
        for index, place in enumerate(self.ranks[rank]):
            near = sorted(at[p] for p in (self.places[place].up if down else self.places[place].down) if p in at)
            keys[place] = _median(near) if near else float(index)
        self.ranks[rank].sort(key=lambda place: keys[place])

    def _swap_neighbours(self) -> None:
        """Swap adjacent places if this reduces the number of crossings."""
        index = {place: at for rank in self.ranks for at, place in enumerate(rank)}
        for _ in range(8):
            better = False
            for rank in self.ranks:
                for at in range(len(rank) - 1):
                    one, other = rank[at], rank[at + 1]
                    now = then = 0
                    for side in ("up", "down"):
                        a = [index[p] for p in self.places[one].beside(side)]
                        b = [index[p] for p in self.places[other].beside(side)]
                        now += sum(x > y for x in a for y in b)
                        then += sum(x < y for x in a for y in b)
                    if then < now:
                        rank[at], rank[at + 1] = other, one
                        index[one], index[other] = at + 1, at
                        better = True
            if not better:
                return

    def _crossings(self) -> int:
        total = 0
        for upper, lower in zip(self.ranks, self.ranks[1:], strict=False):
            at = {place: index for index, place in enumerate(lower)}
            ends = [sorted(at[p] for p in self.places[place].down) for place in upper]
            flat = [end for group in ends for end in group]
            total += sum(x > y for index, x in enumerate(flat) for y in flat[index + 1 :])
        return total

    # --- positions ----------------------------------------------------------------------------------------

    def _positions(self) -> None:
        for rank in self.ranks:
            x = 0.0
            for place in rank:
                self.places[place].x = x + self.places[place].width / 2
                x += self.places[place].width + GAP_X
        for sweep in range(60):
            order = self.ranks if sweep % 2 == 0 else self.ranks[::-1]
            for rank in order:
                self._settle(rank, ("up", "down") if sweep >= 20 else (("up",) if sweep % 2 == 0 else ("down",)))
        left = min(place.x - place.width / 2 for place in self.places)
        for place in self.places:
            place.x -= left
        self.width = max(place.x + place.width / 2 for place in self.places)
        y = 0.0
        self.tops: list[float] = []
        self.bottoms: list[float] = []
        for index, rank in enumerate(self.ranks):
            height = max((self.places[place].height for place in rank), default=0.0)
            self.tops.append(y)
            self.bottoms.append(y + height)
            for place in rank:
                item = self.places[place]
                if item.node:
                    node = self.nodes[item.node]
                    node.x, node.y = item.x, y + height / 2
            self.height = y + height
            y += height + self._gap_below(index)

    def _gap_below(self, rank: int) -> float:
        """The space for lines below a rank. It grows with their largest horizontal extent, so that no line is flat."""
        farthest = max(
            (abs(self.places[p].x - self.places[q].x) for p in self.ranks[rank] for q in self.places[p].down),
            default=0.0,
        )
        return min(max(GAP_Y / 2, farthest * 0.09), 3 * GAP_Y)

    def _settle(self, rank: list[int], sides: tuple[str, ...]) -> None:
        """Move a rank's places as close to their connected places as order and minimum distances allow."""
        offset = 0.0
        wish: list[float] = []
        weight: list[float] = []
        offsets: list[float] = []
        for index, number in enumerate(rank):
            place = self.places[number]
            if index:
                before = self.places[rank[index - 1]]
                gap = GAP_X if place.node or before.node or place.label or before.label else _THIN
                offset += (before.width + place.width) / 2 + gap
            near = [self.places[p] for side in sides for p in place.beside(side)]
            weights = [8.0 if place.edge >= 0 and p.edge >= 0 else 1.0 for p in near]
            total = sum(weights)
            want = sum(p.x * w for p, w in zip(near, weights, strict=True)) / total if near else place.x
            wish.append(want - offset)
            weight.append(total if near else 0.1)
            offsets.append(offset)
        for index, x in enumerate(_rising(wish, weight)):
            self.places[rank[index]].x = x + offsets[index]

    # --- lines --------------------------------------------------------------------------------------------

    def _route(self) -> None:
        rank_of = {place: rank for rank, places in enumerate(self.ranks) for place in places}
        leave = self._ports("down")
        enter = self._ports("up")
        for number, chain in self.first_of_edge.items():
            points: list[tuple[float, float]] = []
            for index, place in enumerate(chain):
                item, rank = self.places[place], rank_of[place]
                if index == 0:
                    node = self.nodes[item.node]
                    points.append((leave[place, chain[1], number], node.y + node.height / 2))
                elif index == len(chain) - 1:
                    node = self.nodes[item.node]
                    points.append((enter[place, chain[-2], number], node.y - node.height / 2))
                else:
                    points += [(item.x, self.tops[rank]), (item.x, self.bottoms[rank])]
                    if item.label:
                        self.edges[number].label_at = (item.x, (self.tops[rank] + self.bottoms[rank]) / 2)
            self.edges[number].points = points[::-1] if number in self._turned else points

    def _ports(self, side: str) -> dict[tuple[int, int, int], float]:
        """The x coordinates where lines leave or enter a node's side, in the order of the lines' other ends."""
        found: dict[tuple[int, int, int], float] = {}
        lines: dict[int, list[tuple[float, int, int]]] = {}
        for number, chain in self.first_of_edge.items():
            place, near = (chain[0], chain[1]) if side == "down" else (chain[-1], chain[-2])
            lines.setdefault(place, []).append((self.places[near].x, near, number))
        for place, items in lines.items():
            item = self.places[place]
            step = min(18.0, item.width * 0.8 / len(items))
            for index, (_, near, number) in enumerate(sorted(items)):
                found[place, near, number] = item.x + (index - (len(items) - 1) / 2) * step
        return found


def _median(values: list[int]) -> float:
    middle = len(values) // 2
    return float(values[middle]) if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def _rising(wish: list[float], weight: list[float]) -> list[float]:
    """The non-decreasing values closest to `wish` by weighted least squares (pool adjacent violators)."""
    blocks: list[tuple[float, float, int]] = []
    for value, mass in zip(wish, weight, strict=True):
        block = (value, mass, 1)
        while blocks and blocks[-1][0] > block[0]:
            value_before, mass_before, count = blocks.pop()
            total = mass_before + block[1]
            block = ((value_before * mass_before + block[0] * block[1]) / total, total, count + block[2])
        blocks.append(block)
    return [value for value, _, count in blocks for _ in range(count)]
