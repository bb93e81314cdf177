"""What tshark calls the fields of Teredo's headers."""

from tests.tshark.table import NotShown, Table, piece

PEEK = NotShown("this parser only looks at what comes next")

TABLES = [
    Table("teredo", (), {"kind": PEEK}),
    Table(
        "teredo_authentication",
        "teredo.auth",
        {
            "indicator": NotShown("tshark shows what it indicates"),
            "id_length": "teredo.auth.idlen",
            "value_length": "teredo.auth.aulen",
            "client": "teredo.auth.id",
            "value": "teredo.auth.value",
            "nonce": "teredo.auth.nonce",
            "confirmation": "teredo.auth.conf",
        },
    ),
    Table(
        "teredo_origin",
        "teredo.orig",
        {
            "indicator": NotShown("tshark shows what it indicates"),
            "port": piece("teredo.orig.port", 0, 2),
            "address": "teredo.orig.addr",
        },
    ),
]
