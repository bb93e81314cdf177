"""What tshark calls the fields of l2tp."""

from tests.tshark.table import NotShown, Table, bits

TABLES = [
    Table(
        "l2tp",
        "l2tp",
        {
            "T": "l2tp.type",
            "L": "l2tp.length_bit",
            "reserved": bits("l2tp.flags", 12, 2),
            "S": "l2tp.seq_bit",
            "reserved2": bits("l2tp.flags", 10, 1),
            "O": "l2tp.offset_bit",
            "P": "l2tp.priority",
            "reserved3": bits("l2tp.flags", 4, 4),
            "version": "l2tp.version",
            "length": "l2tp.length",
            "tunnel": "l2tp.tunnel",
            "session": "l2tp.session",
            "ns": "l2tp.Ns",
            "nr": "l2tp.Nr",
            "offset": "l2tp.offset",
            "padding": NotShown("tshark skips the padding"),
        },
    )
]
