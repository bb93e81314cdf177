"""What tshark calls the fields of ext."""

from tests.tshark.table import NotShown, Table

NODES = ("ipv6.hopopts", "ipv6.dstopts", "ipv6.routing", "mip6", "hip", "shim6")
COMMON = NODES[:3]
EACH = NotShown("tshark shows each option, not all of them in one field")

ROUTE = NotShown("tshark shows each address, and tells the final one by the segments left")

TABLES = [
    Table(
        "ext",
        NODES,
        {
            "next": (*(f"{node}.nxt" for node in COMMON), "mip6.proto", "hip.proto", "shim6.nxt"),
            "length": (*(f"{node}.len" for node in COMMON), "mip6.hlen", "hip.hdr_len", "shim6.len"),
            "body": EACH,
            "pad1": NotShown("tshark shows each"),
            "jumbo": NotShown("tshark shows the types of all options alike"),
            "jumbo_size": NotShown("tshark shows the lengths of all options alike"),
            "jumbo_length": "ipv6.opt.jumbo",
            "home_type": EACH,
            "home_size": EACH,
            "home_address": "ipv6.opt.mipv6.home_address",
            "routing_type": "ipv6.routing.type",
            "segments_left": "ipv6.routing.segleft",
            "last_entry": ROUTE,
            "routing_rest": ROUTE,
            "before_final": ROUTE,
            "final": ROUTE,
            "after_final": ROUTE,
            "option": EACH,
            "option_size": EACH,
            "option_data": EACH,
        },
    )
]
