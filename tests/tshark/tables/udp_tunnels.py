"""What tshark calls the fields of GTP version 0, GUE, LISP, TZSP and AYIYA."""

from tests.tshark.dissection import Node
from tests.tshark.table import NotShown, Table

GUE = NotShown("tshark has no GUE")
OPTIONS = NotShown("tshark shows each")
LISP = NotShown("tshark shows it as a part of the flags, or not")


def version_0(node: Node) -> list[Node]:
    """Version 1 has a table of its own."""
    return [node] if node.numbers("gtp.flags.version") == [0] else []


TABLES = [
    Table(
        "gtp0",
        "gtp",
        {
            "version": "gtp.flags.version",
            "PT": "gtp.flags.payload",
            "spare": NotShown("tshark does not show reserved bits"),
            "SNN": NotShown("tshark calls it by the name that it has in version 1"),
            "MT": "gtp.message",
            "length": "gtp.length",
            "sequence_number": "gtp.seq_number",
            "flow": "gtp.flow_label",
            "sndcp": "gtp.sndcp_number",
            "spare2": NotShown("tshark does not show reserved bits"),
            "TID": NotShown("tshark shows it as digits"),
        },
        version_0,
    ),
    Table(
        "gue",
        (),
        dict.fromkeys(("version", "control", "words", "protocol", "flags", "extensions"), GUE),
    ),
    Table(
        "lisp",
        "lisp-data",
        {
            "N": "lisp-data.flags.nonce",
            "L": "lisp-data.flags.lsb",
            "E": "lisp-data.flags.enr",
            "V": "lisp-data.flags.mv",
            "I": "lisp-data.flags.iid",
            "flags": LISP,
            "nonce": LISP,
            "instance_id": LISP,
            "status": LISP,
        },
    ),
    Table(
        "tzsp",
        "tzsp",
        {
            "version": "tzsp.version",
            "type": "tzsp.type",
            "protocol": "tzsp.encap",
            **dict.fromkeys(("pad", "end", "tag", "tag_length", "tag_value"), OPTIONS),
        },
    ),
    Table(
        "ayiya",
        (),
        {
            "identity_size": "ayiya.idlen",
            "identity_type": "ayiya.idtype",
            "signature_words": "ayiya.siglen",
            "hash_method": "ayiya.hashmethod",
            "authentication": "ayiya.authmethod",
            "operation": "ayiya.opcode",
            "next": "ayiya.nextheader",
            "epoch": "ayiya.epoch",
            "identity": "ayiya.identity",
            "signature": "ayiya.signature",
        },
    ),
]
