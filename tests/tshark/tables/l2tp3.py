"""What tshark calls the fields of l2tp3: a part of L2TP, with a cookie of the length that it is told."""

from tests.tshark.table import NotShown, Table

PEEK = NotShown("this parser looks for the frame, of which tshark is told where it begins")
NAMES = ["session", "addresses", "addresses_end"]
NAMES += [f"{what}_{place}" for place in (0, 4, 8) for what in ("type", "first")] + ["type_12"]

TABLES = [Table("l2tp3", (), dict.fromkeys(NAMES, PEEK))]
