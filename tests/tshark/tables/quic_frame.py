"""What tshark calls the fields of QUIC's frames: those of Initial packets, and of others where there is a key log."""

from tests.tshark.dissection import Node
from tests.tshark.table import COUNT, Computed, Explained, Table, Value, bits, varint

PADDING = 0
START, SHORT_START = 8, 4
"""Bytes of a connection id that are a number of their own: of one that has as many, or less."""


def frames(packet: Node) -> list[Node]:
    """The frames of a packet. Bytes of PADDING tshark takes together; to us they are one only at the packet's end."""
    own = [node for node in packet.nodes if node.name == "quic.frame"]
    found: list[Node] = []
    for at, node in enumerate(own):
        padding = node.numbers("quic.frame_type")[0] == PADDING and at + 1 < len(own)
        found += [node] * (int(node.texts["quic.padding_length"][0]) if padding else 1)
    return found


def new_id(node: Node) -> bytes:
    """The connection id of NEW_CONNECTION_ID."""
    return node.bytes("quic.nci.connection_id")[0] if "quic.nci.connection_id" in node.fields else b""


def id_start(node: Node) -> Value:
    """The number that it begins with, if it is long enough."""
    return int.from_bytes(new_id(node)[:START], "big") if len(new_id(node)) >= START else None


def id_rest(node: Node) -> Value:
    """What is after that number."""
    return new_id(node)[START:] or None


def id_4(node: Node) -> Value:
    """The shorter number, of one that is shorter."""
    middle = SHORT_START <= len(new_id(node)) < START
    return int.from_bytes(new_id(node)[:SHORT_START], "big") if middle else None


def id_after_4(node: Node) -> Value:
    """What is after that."""
    return new_id(node)[SHORT_START:] or None if len(new_id(node)) < START else None


def short_id(node: Node) -> Value:
    """All of it, if it is shorter still."""
    return new_id(node) or None if len(new_id(node)) < SHORT_START else None


TYPE = "quic.frame_type"
TOLD_TWICE = [
    Explained(
        capture,
        "tshark takes the handshake that begins anew after a Retry or Version Negotiation for one sent again, and "
        "reads neither it nor what its keys open",
    )
    for capture in (
        "gen__quic_v1_retry_ipv6.pcap",
        "gen__quic_v2_vneg.pcap",
        "ntop_nDPI__quic-forcing-vn-with-data.pcapng",
    )
]
EXTENSION = [
    Explained("ntop_nDPI__quic-v2.pcapng", "a TIME_STAMP frame (type 0x02f5, of an extension) is none that is known")
]

TABLES = [
    Table(
        "quic_frame",
        "quic",
        {
            "unnamed": bits(TYPE, 6, 2),
            "class_": bits(TYPE, 3, 3),
            "OFF": bits(TYPE, 2, 1),
            "LEN": bits(TYPE, 1, 1),
            "FIN": bits(TYPE, 0, 1),
            "stream": varint("quic.stream.stream_id", "quic.rsts.stream_id"),
            "offset": varint("quic.stream.offset", "quic.crypto.offset"),
            "length": varint("quic.stream.length", "quic.crypto.length", "quic.dg.length"),
            "largest": varint("quic.ack.largest_acknowledged"),
            "delay": varint("quic.ack.ack_delay"),
            "range_count": varint("quic.ack.ack_range_count"),
            "first_range": varint("quic.ack.first_ack_range"),
            "gap": varint("quic.ack.gap"),
            "range_length": varint("quic.ack.ack_range"),
            "ect_0": varint("quic.ack.ect0_count"),
            "ect_1": varint("quic.ack.ect1_count"),
            "ce": varint("quic.ack.ecn_ce_count"),
            "reset_error": varint("quic.rsts.application_error_code"),
            "final_size": varint("quic.rsts.final_size"),
            "stopped_stream": varint("quic.ss.stream_id"),
            "stop_error": varint("quic.ss.application_error_code"),
            "token_length": varint("quic.nt.length"),
            "token": "quic.nt.token",
            "maximum": varint(
                "quic.md.maximum_data", "quic.ms.max_streams", "quic.sb.stream_data_limit", "quic.sib.stream_limit"
            ),
            "limited_stream": varint("quic.msd.stream_id", "quic.sdb.stream_id"),
            "stream_maximum": varint("quic.msd.maximum_stream_data", "quic.sb.stream_data_limit"),
            "sequence_number": varint("quic.nci.sequence"),
            "retire_prior_to": varint("quic.nci.retire_prior_to"),
            "id_length": "quic.nci.connection_id.length",
            "id_start": Computed(id_start),
            "id_rest": Computed(id_rest),
            "id_4": Computed(id_4),
            "id_after_4": Computed(id_after_4),
            "short_id": Computed(short_id),
            "reset_token": "quic.nci.stateless_reset_token",
            "retired_number": varint("quic.rci.sequence"),
            "data": ("quic.path_challenge.data", "quic.path_response.data"),
            "error_code": varint("quic.cc.error_code", "quic.cc.error_code.app"),
            "frame_type": varint("quic.cc.frame_type"),
            "reason_length": varint("quic.cc.reason_phrase.length"),
            "reason": "quic.cc.reason_phrase",
        },
        frames,
        explained={COUNT: [*TOLD_TWICE, *EXTENSION]},
    )
]
