"""What tshark calls the fields of null."""

from tests.tshark.table import Table

TABLES = [
    Table(
        "null",
        "null",
        {
            "family": "null.family",
        },
    )
]
