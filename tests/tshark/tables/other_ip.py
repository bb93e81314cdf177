"""What tshark calls the fields of ip."""

from tests.tshark.table import Table

TABLES = [
    Table(
        "ip",
        (),
        {},
    )
]
