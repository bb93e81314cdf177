"""What tshark calls the fields of geneve."""

from tests.tshark.table import Table, bits, last, piece, tail

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
            "option_class": last("geneve.option.class"),
            "option_type": last("geneve.option.type"),
            "option_reserved": last("geneve.option.flags.reserved"),
            "option_words": piece("geneve.option", 3, 1),
            "option_data": tail("geneve.option", 4),
        },
    )
]
