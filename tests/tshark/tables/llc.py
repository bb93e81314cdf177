"""What tshark calls the fields of llc."""

from tests.tshark.dissection import Node
from tests.tshark.table import Computed, Table, Value, piece


def second(node: Node) -> Value:
    """The second byte of the control field; unnumbered frames have none."""
    control = node.bytes("llc.control")[0]
    return control[1] if len(control) > 1 else None


TABLES = [
    Table(
        "llc",
        "llc",
        {
            "dsap": "llc.dsap",
            "ssap": "llc.ssap",
            "control": piece("llc.control", 0, 1),
            "control_high": Computed(second),
        },
    )
]
