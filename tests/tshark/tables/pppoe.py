"""What tshark calls the fields of pppoe."""

from tests.tshark.table import NotShown, Table, last

TABLES = [
    Table(
        "pppoe",
        ("pppoes", "pppoed"),
        {
            "version": "pppoe.version",
            "type": "pppoe.type",
            "code": "pppoe.code",
            "session": "pppoe.session_id",
            "length": "pppoe.payload_length",
            "tag": last("pppoed.tag"),
            "tag_length": last("pppoed.tag_length"),
            "tag_value": NotShown("tshark shows it by the kind of the tag"),
        },
    )
]
