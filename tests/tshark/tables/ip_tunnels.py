"""What tshark calls the fields of EtherIP, PIM registers, WCCP's redirections and IPComp."""

from tests.tshark.table import NotShown, Table

PEEK = NotShown("this parser only looks at what comes next")

TABLES = [
    Table(
        "etherip",
        "etherip",
        {"version": "etherip.ver", "reserved": NotShown("tshark shows it with the version")},
    ),
    Table(
        "pim",
        "pim",
        {
            "version": "pim.version",
            "type": "pim.type",
            "reserved": "pim.res_bytes",
            "checksum": "pim.cksum",
            "border": "pim.register_flag.border",
            "null_register": "pim.register_flag.null_register",
            "reserved_register": NotShown("tshark does not show reserved bits"),
        },
    ),
    Table("wccp", (), {"kind": PEEK, "rest": PEEK}),
    Table("ipcomp", (), {"next": "ipcomp.next_header", "flags": "ipcomp.flags", "cpi": "ipcomp.cpi"}),
]
