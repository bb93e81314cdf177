"""What tshark calls the fields of Juniper's headers."""

from tests.tshark.table import NotShown, Table

REST = NotShown("of these headers only what leads on is read")

TABLES = [
    Table(
        "juniper",
        (),
        {
            "magic": "juniper.magic-number",
            "flags": REST,
            "no_link_header": "juniper.l2hdr",
            "incoming": "juniper.direction",
            "extension_length": "juniper.ext_total_len",
            "extension": REST,
            "type": REST,
        },
    ),
]
