"""What tshark calls the fields of pppoe."""

from tests.tshark.table import Table

TABLES = [
    Table(
        "pppoe",
        "pppoes",
        {
            "version": "pppoe.version",
            "type": "pppoe.type",
            "code": "pppoe.code",
            "session": "pppoe.session_id",
            "length": "pppoe.payload_length",
        },
    )
]
