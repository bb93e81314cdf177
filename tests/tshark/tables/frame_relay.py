"""What tshark calls the fields of fr."""

from tests.tshark.dissection import Node
from tests.tshark.table import Computed, NotShown, Table, Value

ALIKE = NotShown("no capture has a longer address")


def ethertype_or_nlpid(node: Node) -> Value:
    """What follows the address: an EtherType, or control and NLPID."""
    if "fr.chdlctype" in node.fields:
        return node.numbers("fr.chdlctype")[0]
    control = node.numbers("fr.control")[0]
    return control << 8 | node.numbers("fr.nlpid")[0]


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
            "type": Computed(ethertype_or_nlpid),
        },
    )
]
