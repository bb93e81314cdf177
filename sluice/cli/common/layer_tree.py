"""The layers of a stack as a tree: each below the layer that comes to it in the fewest steps from a link type.

A stack such as `everything` is a graph of some hundred steps, in which most layers follow several others; the tree has
each layer once, as near to the link types as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sluice.cli.common.describe import Data


@dataclass
class LayerTree:
    """roots: the layers with which packets begin, with their link types. children: of each layer, breadth first.
    others: the layers that follow it as well, but are below another one.
    """

    roots: dict[str, list[str]] = field(default_factory=lambda: {})
    children: dict[str, list[str]] = field(default_factory=lambda: {})
    others: dict[str, list[str]] = field(default_factory=lambda: {})

    def below(self, name: str) -> int:
        """How many layers are below one."""
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
