"""What tshark calls the fields of the headers of capture facilities."""

from tests.tshark.table import NotShown, Table

LITTLE = NotShown("it is little-endian, and tshark gives its bytes")
EACH = NotShown("tshark shows each")
REST = NotShown("of this parser only what leads on is read")

TABLES = [
    Table(
        "nflog",
        "nflog",
        {
            "family": "nflog.family",
            "version": "nflog.version",
            "resource": "nflog.res_id",
            **dict.fromkeys(("attribute_length", "attribute", "value"), EACH),
        },
    ),
    Table(
        "pflog",
        "pflog",
        {
            "length": "pflog.length",
            "family": "pflog.af",
            "action": "pflog.action",
            "reason": "pflog.reason",
            "rest": REST,
        },
    ),
    Table(
        "enc",
        "enc",
        {
            **dict.fromkeys(("family_big", "family_rest", "family_low"), NotShown("parts of a number")),
            "spi": "enc.spi",
            "flags": "enc.flags",
        },
    ),
    Table(
        "ppi",
        "ppi",
        {"version": "ppi.version", "flags": "ppi.flags", "length": LITTLE, "link_type": LITTLE, "values": REST},
    ),
    Table("pktap", "pktap", {"length": LITTLE, "record": LITTLE, "link_type": LITTLE, "rest": REST}),
    Table(
        "ipnet",
        "ipnet",
        {
            "version": "ipnet.version",
            "family": "ipnet.family",
            "hook": "ipnet.htype",
            "length": "ipnet.pktlen",
            "interface": "ipnet.ifindex",
            "group": "ipnet.grifindex",
            "source_zone": "ipnet.zsrc",
            "target_zone": "ipnet.zdst",
        },
    ),
    Table("avs", (), dict.fromkeys(("magic", "version", "length", "values", "prism_values"), REST)),
]
