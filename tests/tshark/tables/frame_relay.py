"""What tshark calls the fields of fr."""

from tests.tshark.dissection import Node
from tests.tshark.table import Computed, NotShown, Table, Value

ALIKE = NotShown("no capture has a longer address")


def high(node: Node) -> Value:
    """What follows the address: control, or the first byte of an EtherType."""
    return node.numbers("fr.control")[0] if "fr.control" in node.fields else node.numbers("fr.chdlctype")[0] >> 8


def low(node: Node) -> Value:
    """The second byte of an EtherType."""
    return node.numbers("fr.chdlctype")[0] & 0xFF if "fr.chdlctype" in node.fields else None


TABLES = [
    Table(
        "fr",
        "fr",
        {
            "dlci_high": "fr.upper_dlci",
            "command": "fr.cr",
            "extended_high": "fr.ea",
            "dlci_low": "fr.second_dlci",
            "fecn": "fr.fecn",
            "becn": "fr.becn",
            "discard_eligible": "fr.de",
            "extended_low": Computed(lambda node: node.numbers("fr.ea")[1]),
            "dlci_third": ALIKE,
            "extended_third": ALIKE,
            "dlci_fourth": ALIKE,
            "extended_fourth": ALIKE,
            "control": Computed(high),
            "nlpid": NotShown("tshark shows the padding apart from it"),
            "padded_nlpid": NotShown("tshark shows the padding apart from it"),
            "type_low": Computed(low),
        },
    )
]
