"""What tshark calls the fields of mpls."""

from tests.tshark.table import NotShown, Table

PEEK = NotShown("this parser only looks at what comes next")

TABLES = [
    Table(
        "mpls",
        "mpls",
        {
            "label": "mpls.label",
            "traffic_class": "mpls.exp",
            "bottom": "mpls.bottom",
            "ttl": "mpls.ttl",
        },
    ),
    Table(
        "mpls_payload",
        (),
        dict.fromkeys(
            (
                *("kind", "rest", "second", "total", "payload_length"),
                *("addresses", "type", "between", "type_later"),
            ),
            PEEK,
        ),
    ),
]
