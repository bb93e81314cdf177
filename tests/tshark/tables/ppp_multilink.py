"""What tshark calls the fields of multilink."""

from tests.tshark.table import NotShown, Table

TABLES = [
    Table(
        "multilink",
        "mp",
        {
            "begin": "mp.first",
            "end": "mp.last",
            "link_class": "mp.sequence_num_cls",
            "reserved": NotShown("tshark does not show reserved bits"),
            "sequence": "mp.seq",
        },
    ),
    Table("multilink_fragment", (), {}),
]
