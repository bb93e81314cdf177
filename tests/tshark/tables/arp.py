"""What tshark calls the fields of arp."""

from tests.tshark.table import Table

TABLES = [
    Table(
        "arp",
        "arp",
        {
            "hardware": "arp.hw.type",
            "protocol": "arp.proto.type",
            "hardware_length": "arp.hw.size",
            "protocol_length": "arp.proto.size",
            "operation": "arp.opcode",
            "sender_hardware": ("arp.src.hw_mac", "arp.src.hw"),
            "sender_protocol": ("arp.src.proto_ipv4", "arp.src.proto"),
            "target_hardware": ("arp.dst.hw_mac", "arp.dst.hw"),
            "target_protocol": ("arp.dst.proto_ipv4", "arp.dst.proto"),
        },
    )
]
