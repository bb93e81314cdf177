"""What tshark calls the fields of 802.11 and radiotap."""

from tests.tshark.dissection import Node
from tests.tshark.table import Computed, NotShown, Table, Value, Where, piece

ONLY_DATA = "our parser reads this of data frames only"


def is_data(node: Node) -> bool:
    """Whether it is a data frame."""
    return node.numbers("wlan.fc.type")[0] == 2


def directions(node: Node) -> tuple[int, int]:
    """To and from a distribution system, which settles what the addresses are."""
    return node.numbers("wlan.fc.tods")[0], node.numbers("wlan.fc.fromds")[0]


def third(node: Node) -> Value:
    """The third address, as IEEE 802.11 has it by the directions."""
    names = {(0, 0): "wlan.bssid", (0, 1): "wlan.sa", (1, 0): "wlan.da", (1, 1): "wlan.da"}
    return node.numbers(names[directions(node)])[0]


def fourth(node: Node) -> Value:
    """The fourth address, the source of what passes between access points."""
    return node.numbers("wlan.sa")[0] if directions(node) == (1, 1) else None


def sequence(node: Node) -> Value:
    """Number of the frame and of the fragment."""
    return node.numbers("wlan.seq")[0] << 4 | node.numbers("wlan.frag")[0] if "wlan.seq" in node.fields else None


TABLES = [
    Table(
        "radiotap",
        "radiotap",
        {
            "version": "radiotap.version",
            "pad": "radiotap.pad",
            "length": piece("radiotap.length", 0, 2, "little"),
            "content": NotShown("tshark shows each field, not all of them in one"),
        },
    ),
    Table(
        "wlan",
        "wlan",
        {
            "subtype": "wlan.fc.subtype",
            "type": "wlan.fc.type",
            "version": "wlan.fc.version",
            "order": "wlan.fc.order",
            "protected": "wlan.fc.protected",
            "more_data": "wlan.fc.moredata",
            "power": "wlan.fc.pwrmgt",
            "retry": "wlan.fc.retry",
            "more_frag": "wlan.fc.frag",
            "from_ds": "wlan.fc.fromds",
            "to_ds": "wlan.fc.tods",
            "duration": Where("wlan.duration", is_data, ONLY_DATA),
            "address1": Where("wlan.ra", is_data, ONLY_DATA),
            "address2": Where("wlan.ta", is_data, ONLY_DATA),
            "address3": Where(Computed(third), is_data, ONLY_DATA),
            "sequence": Where(Computed(sequence), is_data, ONLY_DATA),
            "address4": Where(Computed(fourth), is_data, ONLY_DATA),
            "tid": piece("wlan.qos", 0, 1),
            "queue": piece("wlan.qos", 1, 1),
            "ht": "wlan.htc",
        },
    ),
]
