"""What tshark calls the fields of eth."""

from tests.tshark.table import Table

TABLES = [
    Table(
        "eth",
        "eth",
        {
            "dst": "eth.dst",
            "src": "eth.src",
            "type": ("eth.type", "eth.len"),
        },
    )
]
