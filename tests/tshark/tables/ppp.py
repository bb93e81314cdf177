"""What tshark calls the fields of ppp."""

from tests.tshark.dissection import Node
from tests.tshark.table import Computed, Table, Value


def first(node: Node) -> Value:
    """The first byte: the address, or the first of the protocol where address and control were compressed away."""
    return (node.bytes("ppp.address") or node.bytes("ppp.protocol"))[0][0]


def high(node: Node) -> Value:
    """The protocol's first byte, after address and control."""
    return node.bytes("ppp.protocol")[0][0] if "ppp.address" in node.fields else None


def low(node: Node) -> Value:
    """The protocol's second byte, where there are two."""
    protocol = node.bytes("ppp.protocol")[0]
    return protocol[1] if len(protocol) > 1 else None


TABLES = [
    Table(
        "ppp",
        "ppp",
        {
            "first": Computed(first),
            "control": "ppp.control",
            "high": Computed(high),
            "low": Computed(low),
        },
    )
]
