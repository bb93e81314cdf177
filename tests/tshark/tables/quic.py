"""What tshark calls the fields of QUIC packets; it has a tree for each packet of a datagram."""

from tests.support.headers import Header
from tests.tshark.dissection import Node
from tests.tshark.table import Computed, NotShown, Table, Value, Where, varint

PROTECTED = NotShown("read as it is protected; tshark shows it without, where it has the keys")
START, SHORT_START = 8, 4
"""Bytes of a connection id that are a number of their own: of one that has as many, or less."""


def packets(node: Node) -> list[Node]:
    """The packet, if it is one: tshark shows padding after the last one under the same name."""
    return [node] if "quic.header_form" in node.fields else []


def of_connection(header: Header) -> bool:
    """Whether a packet is one of a connection: much that UDP carries looks like a short header."""
    return header.instance != 0


def long(node: Node) -> bool:
    """Whether the header is a long one."""
    return node.numbers("quic.header_form")[0] == 1


def names_type(node: Node) -> bool:
    """Whether the first byte names a type."""
    return long(node) and "quic.vn.unused" not in node.fields


def fixed(node: Node) -> bool:
    """Whether tshark names the fixed bit."""
    return "quic.fixed_bit" in node.fields


def of_long(name: str) -> Computed:
    """A field of packets with long headers."""
    return Computed(lambda node: node.bytes(name)[0] if long(node) and name in node.fields else None)


def source(node: Node) -> bytes:
    """The connection id of the sender, as long headers have it."""
    return node.bytes("quic.scid")[0] if "quic.scid" in node.fields else b""


def source_start(node: Node) -> Value:
    """The number that it begins with, if it is long enough."""
    return int.from_bytes(source(node)[:START], "big") if len(source(node)) >= START else None


def source_rest(node: Node) -> Value:
    """What is after that number."""
    return source(node)[START:] or None


def source_4(node: Node) -> Value:
    """The shorter number, of one that is shorter."""
    middle = SHORT_START <= len(source(node)) < START
    return int.from_bytes(source(node)[:SHORT_START], "big") if middle else None


def source_after_4(node: Node) -> Value:
    """What is after that."""
    return source(node)[SHORT_START:] or None if len(source(node)) < START else None


def source_short(node: Node) -> Value:
    """All of it, if it is shorter still."""
    return source(node) or None if len(source(node)) < SHORT_START else None


def destination_start(node: Node) -> Value:
    """The number that the connection id begins with after a short header."""
    return None if long(node) else int.from_bytes(node.bytes("quic.dcid")[0][:START], "big")


def knows_destination(node: Node) -> bool:
    """Whether tshark knows how long the connection id is, and it is no shorter than ours."""
    return long(node) or ("quic.dcid" in node.fields and len(node.bytes("quic.dcid")[0]) >= START)


TABLES = [
    Table(
        "quic",
        "quic",
        {
            "long": "quic.header_form",
            "fixed": Where("quic.fixed_bit", fixed, "of no meaning in Version Negotiation (RFC 9000, 17.2.1)"),
            "type": Where(
                ("quic.long.packet_type", "quic.long.packet_type_v2"),
                names_type,
                "protected after a short header, and of no meaning in Version Negotiation",
            ),
            "reserved": PROTECTED,
            "number_length": PROTECTED,
            "version": "quic.version",
            "dcid_length": "quic.dcil",
            "dcid": of_long("quic.dcid"),
            "scid_length": "quic.scil",
            "dcid_start": Where(
                Computed(destination_start), knows_destination, "how long it is tshark takes from the handshake"
            ),
            "scid_start": Computed(source_start),
            "scid_rest": Computed(source_rest),
            "scid_4": Computed(source_4),
            "scid_after_4": Computed(source_after_4),
            "scid": Where(Computed(source_short), long, "after a short header there is none"),
            "token_length": varint("quic.token_length"),
            "token": "quic.token",
            "length": varint("quic.length"),
        },
        packets,
        ours=of_connection,
    )
]
