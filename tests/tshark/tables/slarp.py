"""What tshark calls the fields of slarp."""

from tests.tshark.table import Table

TABLES = [
    Table(
        "slarp",
        "slarp",
        {
            "type": "slarp.ptype",
            "address": "slarp.address",
            "mask": "slarp.netmask",
            "number": "slarp.mysequence",
            "returned": "slarp.yoursequence",
            "reliability": "slarp.reliability",
        },
    )
]
