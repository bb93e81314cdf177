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


THIRD = {(0, 0): "wlan.bssid", (0, 1): "wlan.sa", (1, 0): "wlan.da", (1, 1): "wlan.da"}
"""What the third address is, by the directions (IEEE 802.11, 9.3.2.1)."""

SINGLE = "it is no data frame, or an aggregate, in which these addresses are others"


def third(node: Node) -> Value:
    """The third address."""
    return node.numbers(THIRD[directions(node)])[0]


def has_third(node: Node) -> bool:
    """Whether tshark shows it."""
    return is_data(node) and THIRD[directions(node)] in node.fields


def fourth(node: Node) -> Value:
    """The fourth address, the source of what passes between access points."""
    return node.numbers("wlan.sa")[0] if directions(node) == (1, 1) else None


def words(node: Node) -> list[int]:
    """Which fields radiotap has, a word for each namespace."""
    return [int.from_bytes(word, "little") for word in node.bytes("radiotap.present.word")]


def present(node: Node) -> Value:
    """The first of these words."""
    return words(node)[0]


def present_more(node: Node) -> Value:
    """The last one, if there are several."""
    return words(node)[-1] if len(words(node)) > 1 else None


TABLES = [
    Table(
        "radiotap",
        "radiotap",
        {
            "version": "radiotap.version",
            "pad": "radiotap.pad",
            "length": piece("radiotap.length", 0, 2, "little"),
            "present": Computed(present),
            "present_more": Computed(present_more),
            "alignment": NotShown("tshark skips it"),
            "time": piece("radiotap.mactime", 0, 8, "little"),
            "flags": "radiotap.flags",
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
            "address3": Where(Computed(third), has_third, SINGLE),
            "sequence_low": Where(Computed(lambda node: node.numbers("wlan.seq")[0] & 15), is_data, ONLY_DATA),
            "fragment": Where("wlan.frag", is_data, ONLY_DATA),
            "sequence_high": Where(Computed(lambda node: node.numbers("wlan.seq")[0] >> 4), is_data, ONLY_DATA),
            "address4": Where(Computed(fourth), has_third, SINGLE),
            "aggregate": "wlan.qos.amsdupresent",
            "acknowledgement": "wlan.qos.ack",
            "end_of_service": ("wlan.qos.eosp", "wlan.qos.bit4"),
            "tid": "wlan.qos.tid",
            "queue": piece("wlan.qos", 1, 1),
            "ht": "wlan.htc",
            "padding": NotShown("tshark skips it"),
        },
    ),
    Table("msdu", (), dict.fromkeys(("dst", "src", "length"), NotShown("no capture has an aggregate in the clear"))),
]
