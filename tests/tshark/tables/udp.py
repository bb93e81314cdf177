"""What tshark calls the fields of udp."""

from tests.tshark.table import Table

TABLES = [
    Table(
        "udp",
        "udp",
        {
            "sport": "udp.srcport",
            "dport": "udp.dstport",
            "length": "udp.length",
            "checksum": "udp.checksum",
        },
    )
]
