"""What tshark calls the fields of snap."""

from tests.tshark.dissection import Node
from tests.tshark.table import NotShown, Table

PEEK = NotShown("the parser looks at the bridged frame, where it begins")


def with_snap(node: Node) -> list[Node]:
    """tshark shows SNAP as a part of LLC, or of frame relay."""
    return [node] if {"llc.oui", "fr.snap.oui"} & node.fields.keys() else []


TABLES = [
    Table(
        "snap",
        ("llc", "fr"),
        {
            "oui": ("llc.oui", "fr.snap.oui"),
            "type": ("llc.type", "fr.snaptype", "llc.cisco_pid", "llc.nortel_pid", "llc.apple_atalk_pid", "llc.pid"),
            "addresses": PEEK,
            "bridged_type": PEEK,
            "bridged_type_padded": PEEK,
        },
        with_snap,
    )
]
