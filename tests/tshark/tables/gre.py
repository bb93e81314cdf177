"""What tshark calls the fields of gre."""

from tests.tshark.table import NotShown, Table, bits

LAST = NotShown("the last entry of a source route, which is empty; tshark shows those before it")

TABLES = [
    Table(
        "gre",
        "gre",
        {
            "C": "gre.flags.checksum",
            "R": "gre.flags.routing",
            "K": "gre.flags.key",
            "S": "gre.flags.sequence_number",
            "strict": "gre.flags.strict_source_route",
            "recursion": "gre.flags.recursion_control",
            "A": bits("gre.flags_and_version", 7, 1),
            "flags": bits("gre.flags_and_version", 3, 4),
            "version": "gre.flags.version",
            "protocol": "gre.proto",
            "checksum": "gre.checksum",
            "offset": "gre.offset",
            "route_family": LAST,
            "route_offset": LAST,
            "route_length": LAST,
            "route": LAST,
            "key": "gre.key",
            "payload_length": "gre.key.payload_length",
            "call": "gre.key.call_id",
            "sequence_number": "gre.sequence_number",
            "acknowledgement": "gre.ack_number",
        },
    )
]
