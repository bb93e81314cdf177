"""What tshark calls the fields of VLAN tags; of 802.1ad it may show two tags as one header."""

from tests.tshark.dissection import Node
from tests.tshark.table import Table

AD = "ieee8021ad"


def tags(node: Node) -> list[Node]:
    """The tags of a header."""
    if f"{AD}.cvid" not in node.fields:
        return [node]
    outer, inner = Node(node.name), Node(node.name)
    for number, tag in enumerate((outer, inner)):
        tag.fields = {name: node.fields[name][number:] for name in (f"{AD}.priority", f"{AD}.dei")}
    outer.fields |= {f"{AD}.id": node.fields[f"{AD}.svid"], "ieee8021ah.etype": [("88a8", False)]}
    inner.fields |= {f"{AD}.id": node.fields[f"{AD}.cvid"], "ieee8021ah.etype": node.fields["ieee8021ah.etype"]}
    return [outer, inner]


TABLES = [
    Table(
        "vlan",
        ("vlan", AD),
        {
            "pcp": ("vlan.priority", f"{AD}.priority"),
            "dei": ("vlan.dei", f"{AD}.dei"),
            "vid": ("vlan.id", f"{AD}.id"),
            "type": ("vlan.etype", "vlan.len", "ieee8021ah.etype"),
        },
        tags,
    )
]
