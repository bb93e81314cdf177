"""What tshark calls the fields of the datagrams that may be QUIC."""

from tests.tshark.table import NotShown, Table

PEEK = NotShown("this parser only looks at what `quic` reads")

TABLES = [
    Table(
        "quic_datagram",
        (),
        dict.fromkeys(("long", "fixed", "type", "reserved", "number_length", "some_version"), PEEK),
    )
]
