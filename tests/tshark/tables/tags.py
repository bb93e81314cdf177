"""What tshark calls the fields of the tags between EtherTypes."""

from tests.tshark.table import NotShown, Table

TTAG = NotShown("tshark has another tag for this EtherType")

TABLES = [
    Table(
        "vntag",
        "vntag",
        {
            "direction": "vntag.dir",
            "pointer": "vntag.ptr",
            "destination_vif": "vntag.dst",
            "looped": "vntag.looped",
            "reserved": "vntag.r",
            "version": "vntag.version",
            "source_vif": "vntag.src",
            "type": ("vntag.etype", "vntag.len"),
        },
    ),
    Table("ttag", (), {"timestamp": TTAG, "type": TTAG}),
    Table(
        "hsr",
        "hsr",
        {"path": "hsr.path", "size": "hsr.lsdu_size", "sequence": "hsr.sequence_nr", "type": "hsr.type"},
    ),
    Table(
        "cmd",
        "cmd",
        {
            "version": "cmd.version",
            "words": "cmd.length",
            "options": NotShown("tshark shows their parts"),
            "type": "cmd.type",
        },
    ),
    Table(
        "macsec",
        "macsec",
        {
            "version": "macsec.TCI.V",
            "end_station": "macsec.TCI.ES",
            "has_channel": "macsec.TCI.SC",
            "broadcast": "macsec.TCI.SCB",
            "encrypted": "macsec.TCI.E",
            "changed": "macsec.TCI.C",
            "association": "macsec.AN",
            "short_length": "macsec.SL",
            "packet_number": "macsec.PN",
            "channel": NotShown("tshark shows its two parts"),
            "type": "macsec.etype",
        },
    ),
]
