"""What tshark calls the fields of chdlc."""

from tests.tshark.table import Table

TABLES = [
    Table(
        "chdlc",
        "chdlc",
        {
            "address": "chdlc.address",
            "control": "chdlc.control",
            "protocol": "chdlc.protocol",
        },
    )
]
