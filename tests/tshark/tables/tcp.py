"""What tshark calls the fields of tcp."""

from tests.tshark.dissection import Node
from tests.tshark.table import Computed, Table, Value, bits, piece, tail

KNOWN = (0, 1, 2, 3, 4, 5, 8)


def reserved(node: Node) -> Value:
    """Four bits, of which tshark shows the last as accurate ECN's."""
    return node.numbers("tcp.flags.res")[0] << 1 | node.numbers("tcp.flags.ae")[0]


def other(node: Node) -> bytes | None:
    """The last option that our parser has no layout for."""
    if "tcp.options" not in node.fields:
        return None
    options, found = node.bytes("tcp.options")[0], None
    while options and options[0] != 0:
        size = options[1] if options[0] != 1 and len(options) > 1 else 1
        if options[0] not in KNOWN:
            found = options[:size]
        options = options[max(size, 1) :]
    return found


def other_type(node: Node) -> Value:
    """Its type."""
    option = other(node)
    return option[0] if option else None


def other_length(node: Node) -> Value:
    """Its length."""
    option = other(node)
    return option[1] if option else None


def other_value(node: Node) -> Value:
    """What is after type and length."""
    option = other(node)
    return option[2:] if option else None


TABLES = [
    Table(
        "tcp",
        "tcp",
        {
            "sport": "tcp.srcport",
            "dport": "tcp.dstport",
            "seq_num": "tcp.seq",
            "ack_num": "tcp.ack",
            "hdr_len": bits("tcp.hdr_len", 4, 4),
            "reserved": Computed(reserved),
            "cwr": "tcp.flags.cwr",
            "ece": "tcp.flags.ece",
            "urg": "tcp.flags.urg",
            "ack": "tcp.flags.ack",
            "psh": "tcp.flags.push",
            "rst": "tcp.flags.reset",
            "syn": "tcp.flags.syn",
            "fin": "tcp.flags.fin",
            "window_size": "tcp.window_size_value",
            "checksum": "tcp.checksum",
            "urgent_pointer": "tcp.urgent_pointer",
            "eol_type": piece("tcp.options.eol", 0, 1),
            "nop_type": piece("tcp.options.nop", 0, 1),
            "mss_type": piece("tcp.options.mss", 0, 1),
            "mss_len": piece("tcp.options.mss", 1, 1),
            "ws_type": piece("tcp.options.wscale", 0, 1),
            "ws_len": piece("tcp.options.wscale", 1, 1),
            "sack_permitted_type": piece("tcp.options.sack_perm", 0, 1),
            "sack_permitted_len": piece("tcp.options.sack_perm", 1, 1),
            "sack_type": piece("tcp.options.sack", 0, 1),
            "sack_len": piece("tcp.options.sack", 1, 1),
            "ts_type": piece("tcp.options.timestamp", 0, 1),
            "ts_len": piece("tcp.options.timestamp", 1, 1),
            "mss_value": "tcp.options.mss_val",
            "ws_value": "tcp.options.wscale.shift",
            "sack_value": tail("tcp.options.sack", 2),
            "ts_value": "tcp.options.timestamp.tsval",
            "ts_echo_reply": "tcp.options.timestamp.tsecr",
            "other_type": Computed(other_type),
            "other_len": Computed(other_length),
            "other_value": Computed(other_value),
        },
    )
]
