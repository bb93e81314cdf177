"""What tshark calls the fields of headers in front of another link's frames: as a rule it shows none of them."""

from tests.tshark.table import NotShown, Table

REST = NotShown("of these headers only what leads on is read")

TABLES = [
    *(Table(f"{name}_direction", (), {"direction": REST}) for name in ("ppp", "chdlc", "fr")),
    Table("ipoib", "ipoib", {"route": REST, "type": "ipoib.type", "reserved": "ipoib.reserved"}),
    Table("slip", (), {"direction": REST, "compressed": REST}),
    Table("fddi", "fddi", {"frame_control": "fddi.fc", "dst": "fddi.dst", "src": "fddi.src"}),
    Table("sunatm", (), dict.fromkeys(("flags", "kind", "vpi", "vci"), REST)),
    Table("clip", (), {"kind": REST, "rest": REST}),
    Table("dsa", (), dict.fromkeys(("dst", "src", "tag", "type"), REST)),
    Table("edsa", (), dict.fromkeys(("dst", "src", "announced", "reserved", "tag", "type"), REST)),
    Table("broadcom", (), {"tag": REST}),
]
