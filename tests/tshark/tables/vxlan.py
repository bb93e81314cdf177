"""What tshark calls the fields of VXLAN and VXLAN-GPE."""

from tests.tshark.dissection import Node
from tests.tshark.table import NotShown, Table, bits

FLAGS = "vxlan.flags"


def is_gpe(node: Node) -> bool:
    return "vxlan.next_proto" in node.fields


TABLES = [
    Table(
        "vxlan",
        "vxlan",
        {
            "reserved": bits(FLAGS, 12, 4),
            "I": "vxlan.flag_i",
            "reserved2": NotShown("tshark takes it for the flags and the group of a policy (VXLAN-GBP)"),
            "vni": "vxlan.vni",
            "reserved3": "vxlan.reserved8",
        },
        lambda node: [] if is_gpe(node) else [node],
    ),
    Table(
        "vxlan_gpe",
        "vxlan",
        {
            "reserved": bits(FLAGS, 6, 2),
            "version": "vxlan.ver",
            "I": "vxlan.i_bit",
            "P": "vxlan.p_bit",
            "B": bits(FLAGS, 1, 1),
            "O": "vxlan.o_bit",
            "reserved2": "vxlan.reserved_16",
            "next": "vxlan.next_proto",
            "vni": "vxlan.vni",
            "reserved3": "vxlan.reserved8",
        },
        lambda node: [node] if is_gpe(node) else [],
    ),
]
