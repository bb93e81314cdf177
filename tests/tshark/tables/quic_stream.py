"""What tshark calls the fields of STREAM, RESET_STREAM and CRYPTO frames, where they are put into order."""

from tests.tshark.dissection import Node
from tests.tshark.table import COUNT, Table, bits, varint
from tests.tshark.tables.quic_frame import TOLD_TWICE

TYPE = "quic.frame_type"


def streams(frame: Node) -> list[Node]:
    """The frame, if it is a STREAM or RESET_STREAM frame."""
    return [frame] if {"quic.stream.stream_id", "quic.rsts.stream_id"} & set(frame.fields) else []


def handshakes(frame: Node) -> list[Node]:
    """The frame, if it is a CRYPTO frame."""
    return [frame] if "quic.crypto.offset" in frame.fields else []


TABLES = [
    Table(
        "quic_stream",
        "quic.frame",
        {
            "mark": bits(TYPE, 3, 5),
            "OFF": bits(TYPE, 2, 1),
            "LEN": bits(TYPE, 1, 1),
            "FIN": bits(TYPE, 0, 1),
            "stream": varint("quic.stream.stream_id", "quic.rsts.stream_id"),
            "offset": varint("quic.stream.offset"),
            "length": varint("quic.stream.length"),
            "error": varint("quic.rsts.application_error_code"),
            "final_size": varint("quic.rsts.final_size"),
        },
        streams,
        explained={COUNT: TOLD_TWICE},
    ),
    Table(
        "quic_crypto",
        "quic.frame",
        {
            "type": TYPE,
            "offset": varint("quic.crypto.offset"),
            "length": varint("quic.crypto.length"),
        },
        handshakes,
        explained={COUNT: TOLD_TWICE},
    ),
]
