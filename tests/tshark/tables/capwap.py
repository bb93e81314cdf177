"""What tshark calls the fields of capwap."""

from tests.tshark.table import NotShown, Table

PEEK = NotShown("this parser only looks at what comes next")

TABLES = [
    Table(
        "capwap",
        "capwap.data",
        {
            "version": "capwap.preamble.version",
            "type": "capwap.preamble.type",
            "words": "capwap.header.length",
            "radio": "capwap.header.rid",
            "binding": "capwap.header.wbid",
            "T": "capwap.header.flags.t",
            "F": "capwap.header.flags.f",
            "last": "capwap.header.flags.l",
            "W": "capwap.header.flags.w",
            "M": "capwap.header.flags.m",
            "K": "capwap.header.flags.k",
            "flags": "capwap.header.flags.r",
            "fragment_id": "capwap.header.fragment.id",
            "fragment_offset": "capwap.header.fragment.offset",
            "reserved": "capwap.header.fragment.reserved",
            "optional": NotShown("tshark shows its parts"),
        },
    ),
    Table("capwap_frame", (), {"first": PEEK, "second": PEEK, "addresses": PEEK, "type": PEEK}),
]
