"""What tshark calls the fields of SCTP; chunks are branches of its tree of a packet."""

from tests.tshark.dissection import Node
from tests.tshark.table import NotShown, Table, Where, bits, piece

TYPE = "sctp.chunk_type"


def packets(node: Node) -> list[Node]:
    """The packet, if it is one: tshark shows what it puts together of chunks under the same name."""
    return [node] if "sctp.verification_tag" in node.fields else []


def chunks(packet: Node) -> list[Node]:
    """The chunks of a packet."""
    return [chunk for chunk in packet.nodes if TYPE in chunk.fields]


def interleaved(chunk: Node) -> bool:
    """Whether it is I-DATA."""
    return chunk.numbers(TYPE) == [64]


def plain(chunk: Node) -> bool:
    """Whether it is another one."""
    return not interleaved(chunk)


TABLES = [
    Table(
        "sctp_packet",
        "sctp",
        {
            "sport": "sctp.srcport",
            "dport": "sctp.dstport",
            "tag": "sctp.verification_tag",
            "checksum": piece("sctp.checksum", 0, 4, "little"),
        },
        packets,
    ),
    Table(
        "sctp",
        "sctp",
        {
            "type": TYPE,
            "reserved": bits("sctp.chunk_flags", 4, 4),
            "immediate": bits("sctp.chunk_flags", 3, 1),
            "unordered": bits("sctp.chunk_flags", 2, 1),
            "begin": bits("sctp.chunk_flags", 1, 1),
            "end": bits("sctp.chunk_flags", 0, 1),
            "length": "sctp.chunk_length",
            "tsn": "sctp.data_tsn_raw",
            "stream": "sctp.data_sid",
            "ssn": "sctp.data_ssn",
            "ppid": Where("sctp.data_payload_proto_id", plain, "the same field of I-DATA is ppid_or_fsn"),
            "unused": "sctp.data_reserved",
            "mid": "sctp.data_mid",
            "ppid_or_fsn": Where(("sctp.data_payload_proto_id", "sctp.data_fsn"), interleaved, "that of DATA is ppid"),
            "initiate_tag": ("sctp.init_initiate_tag", "sctp.initack_initiate_tag"),
            "window": ("sctp.init_credit", "sctp.initack_credit"),
            "out_streams": ("sctp.init_nr_out_streams", "sctp.initack_nr_out_streams"),
            "in_streams": ("sctp.init_nr_in_streams", "sctp.initack_nr_in_streams"),
            "cumulative_tsn": ("sctp.forward_tsn_tsn", "sctp.i_forward_tsn_tsn"),
            "initial_tsn": ("sctp.init_initial_tsn", "sctp.initack_initial_tsn"),
        },
        chunks,
    ),
    Table(
        "sctp_message",
        (),
        dict.fromkeys(
            (
                *("type", "reserved", "immediate", "unordered", "begin", "end", "length"),
                *("tsn", "stream", "ssn", "ppid", "unused", "mid", "ppid_or_fsn"),
            ),
            NotShown("this parser reads once more, message by message, what `sctp` reads chunk by chunk"),
        ),
    ),
]
