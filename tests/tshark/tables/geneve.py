"""What tshark calls the fields of geneve."""

from tests.tshark.table import Table, bits

TABLES = [
    Table(
        "geneve",
        "geneve",
        {
            "version": bits("geneve.version", 6, 2),
            "words": bits("geneve.option.length", 0, 6),
            "control": "geneve.flags.oam",
            "critical": "geneve.flags.critical",
            "reserved": "geneve.flags.reserved",
            "protocol": "geneve.proto_type",
            "vni": "geneve.vni",
            "reserved2": "geneve.reserved",
            "options": "geneve.options",
        },
    )
]
