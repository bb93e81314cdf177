"""What tshark calls the fields of ipv6."""

from tests.tshark.table import Table, bits

TABLES = [
    Table(
        "ipv6",
        "ipv6",
        {
            "version": bits("ipv6.version", 4, 4),
            "traffic_class": "ipv6.tclass",
            "flow_label": "ipv6.flow",
            "payload_length": "ipv6.plen",
            "next": "ipv6.nxt",
            "hop_limit": "ipv6.hlim",
            "src": "ipv6.src",
            "dst": "ipv6.dst",
        },
    )
]
