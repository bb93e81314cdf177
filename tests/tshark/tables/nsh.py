"""What tshark calls the fields of nsh."""

from tests.tshark.table import NotShown, Table

TABLES = [
    Table(
        "nsh",
        "nsh",
        {
            "version": "nsh.version",
            "O": "nsh.Obit",
            "unassigned": NotShown("tshark shows the bit of an older draft"),
            "ttl": "nsh.ttl",
            "words": "nsh.length",
            "unassigned2": NotShown("tshark does not show reserved bits"),
            "metadata_type": "nsh.mdtype",
            "next": "nsh.nextproto",
            "path": "nsh.spi",
            "index": "nsh.si",
            "metadata": NotShown("tshark shows its parts"),
        },
    )
]
