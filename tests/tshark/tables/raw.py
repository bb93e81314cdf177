"""What tshark calls the fields of raw."""

from tests.tshark.table import NotShown, Table

PEEK = "this parser only looks at what comes next"


TABLES = [
    Table(
        "raw",
        (),
        {
            "version": NotShown(PEEK),
            "rest": NotShown(PEEK),
        },
    )
]
