"""What tshark calls the fields of sll2."""

from tests.tshark.dissection import Node
from tests.tshark.table import Computed, NotShown, Table, Value


def address(node: Node) -> Value:
    """Eight bytes, whose number of used ones stands before them."""
    for name in ("sll.src.eth", "sll.src.ipv4", "sll.src.other"):
        if name in node.fields:
            parts = node.bytes(name)[0] + (node.bytes("sll.unused") or [b""])[0]
            return int.from_bytes(parts.ljust(8, b"\0"), "big")
    return int.from_bytes((node.bytes("sll.unused") or [bytes(8)])[0], "big")


def version2(node: Node) -> list[Node]:
    """Version 1 has no interface."""
    return [node] if "sll.ifindex" in node.fields else []


TABLES = [
    Table(
        "sll2",
        "sll",
        {
            "protocol": ("sll.etype", "sll.ltype", "sll.gretype"),
            "reserved": NotShown("tshark skips it"),
            "interface": "sll.ifindex",
            "hardware": "sll.hatype",
            "packet_type": "sll.pkttype",
            "address_length": "sll.halen",
            "address": Computed(address),
        },
        version2,
    )
]
