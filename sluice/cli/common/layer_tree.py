"""The layers of a stack as a tree, in which each layer has its shortest distance from a link type (breadth first).

A stack such as `everything` is a graph with hundreds of steps, in which a layer usually has several predecessors. The
tree contains each layer once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sluice.cli.common.describe import Data


@dataclass
class LayerTree:
    """roots: the root layers with their link types. children: the children of each layer, breadth first. others: the
    other successors of each layer, which are placed elsewhere in the tree.
    """

    roots: dict[str, list[str]] = field(default_factory=lambda: {})
    children: dict[str, list[str]] = field(default_factory=lambda: {})
    others: dict[str, list[str]] = field(default_factory=lambda: {})

    def below(self, name: str) -> int:
        """The number of layers below a layer."""
        return sum(1 + self.below(child) for child in self.children[name])


def layer_tree(data: Data) -> LayerTree:
    """The tree of a description."""
    tree = LayerTree()
    for root in data["roots"]:
        kinds = tree.roots.setdefault(root["layer"], [])
        if root["link_type"] is not None:
            kinds.append(str(root["link_type"]))
    above: dict[str, list[str]] = {layer["name"]: [] for layer in data["layers"]}
    for step in data["steps"]:
        if step["upper"] not in above[step["lower"]]:
            above[step["lower"]].append(step["upper"])
    seen = set(tree.roots)
    waiting = list(tree.roots)
    while waiting:
        name = waiting.pop(0)
        tree.children[name] = [upper for upper in above[name] if upper not in seen]
        tree.others[name] = [upper for upper in above[name] if upper in seen]
        seen.update(tree.children[name])
        waiting += tree.children[name]
    return tree
