"""What tshark calls the fields of ERSPAN's headers."""

from tests.tshark.dissection import Node
from tests.tshark.table import NotShown, Shown, Table


def of_type(*versions: int):
    def headers(node: Node) -> list[Node]:
        return [node] if node.numbers("erspan.version")[0] in versions else []

    return headers


COMMON: dict[str, Shown] = {
    "version": "erspan.version",
    "vlan": "erspan.vlan",
    "cos": "erspan.cos",
    "truncated": "erspan.truncated",
    "session": "erspan.spanid",
}

TABLES = [
    Table(
        "erspan",
        "erspan",
        COMMON
        | {
            "encapsulation": "erspan.encap",
            "reserved": "erspan.reserved",
            "port_index": "erspan.index",
        },
        of_type(1),
    ),
    Table(
        "erspan3",
        "erspan",
        COMMON
        | {
            "bad": "erspan.bso",
            "timestamp": "erspan.timestamp",
            "security_group": "erspan.sgt",
            "protocol_data": "erspan.p",
            "frame_type": "erspan.ft",
            "hardware": "erspan.hw",
            "direction": "erspan.direction",
            "granularity": "erspan.gra",
            "O": "erspan.o",
            "platform": NotShown("tshark shows its parts, by platform"),
        },
        of_type(2),
    ),
]
