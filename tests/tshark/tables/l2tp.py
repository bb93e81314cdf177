"""What tshark calls the fields of l2tp."""

from tests.tshark.dissection import Node
from tests.tshark.table import NotShown, Shown, Table, Where, bits, last

NO_BITS = NotShown("tshark does not show these bits")


def has_several(node: Node) -> bool:
    """Whether there are attributes after the kind of the message."""
    return len(node.fields.get("l2tp.avp.type", [])) > 1


def several(name: str) -> Shown:
    """What the last attribute says."""
    return Where(last(f"l2tp.avp.{name}"), has_several, "the only attribute is the kind of the message")


TABLES = [
    Table(
        "l2tp",
        "l2tp",
        {
            "T": "l2tp.type",
            "L": "l2tp.length_bit",
            "reserved": bits("l2tp.flags", 12, 2),
            "S": "l2tp.seq_bit",
            "reserved2": bits("l2tp.flags", 10, 1),
            "O": "l2tp.offset_bit",
            "P": "l2tp.priority",
            "reserved3": bits("l2tp.flags", 4, 4),
            "version": "l2tp.version",
            "length": "l2tp.length",
            "tunnel": "l2tp.tunnel",
            "session": "l2tp.session",
            "ns": "l2tp.Ns",
            "nr": "l2tp.Nr",
            "offset": "l2tp.offset",
            "mandatory": "l2tp.avp.mandatory",
            "hidden": "l2tp.avp.hidden",
            "reserved_message": NO_BITS,
            "message_length": "l2tp.avp.length",
            "vendor": "l2tp.avp.vendor_id",
            "attribute": "l2tp.avp.type",
            "message_type": "l2tp.avp.message_type",
            "attribute_mandatory": several("mandatory"),
            "attribute_hidden": several("hidden"),
            "attribute_reserved": NO_BITS,
            "attribute_length": several("length"),
            "attribute_vendor": several("vendor_id"),
            "attribute_type": several("type"),
            "attribute_value": NotShown("tshark shows it by the kind of the attribute"),
            "padding": NotShown("tshark skips the padding"),
        },
    )
]
