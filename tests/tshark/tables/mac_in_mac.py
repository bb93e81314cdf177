"""What tshark calls the fields of PBB and FabricPath."""

from tests.tshark.table import NotShown, Table

TABLES = [
    Table(
        "pbb",
        (),
        {
            "priority": "ieee8021ah.priority",
            "drop_eligible": "ieee8021ah.drop",
            "customer_addresses": "ieee8021ah.nca",
            "reserved": NotShown("tshark shows it in two parts"),
            "isid": "ieee8021ah.isid",
        },
    ),
    Table("fabricpath", (), {"ftag": "cfp.ftag", "ttl": "cfp.ttl"}),
]
