"""What tshark calls the fields of ah."""

from tests.tshark.table import Table

TABLES = [
    Table(
        "ah",
        "ah",
        {
            "next": "ah.next_header",
            "length": "ah.length",
            "reserved": "ah.reserved",
            "spi": "ah.spi",
            "sequence": "ah.sequence",
            "check": "ah.icv",
        },
    )
]
