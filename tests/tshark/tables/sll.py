"""What tshark calls the fields of sll."""

from tests.tshark.dissection import Node
from tests.tshark.table import Computed, Table, Value


def address(node: Node) -> Value:
    """Eight bytes, whose number of used ones stands before them."""
    for name in ("sll.src.eth", "sll.src.ipv4", "sll.src.other"):
        if name in node.fields:
            parts = node.bytes(name)[0] + (node.bytes("sll.unused") or [b""])[0]
            return int.from_bytes(parts.ljust(8, b"\0"), "big")
    return int.from_bytes((node.bytes("sll.unused") or [bytes(8)])[0], "big")


def version1(node: Node) -> list[Node]:
    """Version 2 has the interface, too."""
    return [] if "sll.ifindex" in node.fields else [node]


TABLES = [
    Table(
        "sll",
        "sll",
        {
            "packet_type": "sll.pkttype",
            "hardware": "sll.hatype",
            "address_length": "sll.halen",
            "address": Computed(address),
            "protocol": ("sll.etype", "sll.ltype", "sll.gretype"),
        },
        version1,
    )
]
