"""What tshark calls the fields of icmp."""

from tests.tshark.dissection import Node
from tests.tshark.table import Computed, NotShown, Table, Value, Where, bits

QUOTE = "nothing is quoted"


def before(node: Node) -> Value:
    """Service, length and id of the quoted header."""
    if "ip.id" not in node.fields:
        return None
    service, length, id = (node.numbers(name)[0] for name in ("ip.dsfield", "ip.len", "ip.id"))
    return service << 32 | length << 16 | id


def after(node: Node) -> bytes | None:
    """What tshark shows of the first six bytes after the quoted header."""
    for protocol, next in (("udp", "length"), ("tcp", "seq"), ("sctp", "verification_tag")):
        if f"{protocol}.{next}" in node.fields:
            return b"".join(node.bytes(f"{protocol}.{name}")[0] for name in ("srcport", "dstport", next))
    names = "type", "code", "checksum", "ident"
    if len(node.fields["icmp.type"]) > 1:  # an ICMP message is quoted
        return b"".join(node.bytes(f"icmp.{name}")[-1] for name in names)
    return node.bytes("data.data")[0] if "data.data" in node.fields else None


def ports(node: Node) -> Value:
    """The first four of them."""
    found = after(node)
    return int.from_bytes(found[:4], "big") if found else None


def after_ports(node: Node) -> Value:
    """The next two."""
    found = after(node)
    return int.from_bytes(found[4:6], "big") if found else None


def quotes(node: Node) -> bool:
    """Whether tshark shows a quoted packet."""
    return "ip.id" in node.fields


TABLES = [
    Table(
        "icmp",
        "icmp",
        {
            "type": "icmp.type",
            "code": "icmp.code",
            "checksum": "icmp.checksum",
            "id": "icmp.ident",
            "number": "icmp.seq",
            "unused": "icmp.unused",
            "quoted_version": bits("ip.version", 4, 4),
            "quoted_ihl": bits("ip.hdr_len", 0, 4),
            "quoted_before": Computed(before),
            "quoted_flags": "ip.flags",
            "quoted_offset": "ip.frag_offset",
            "quoted_ttl": "ip.ttl",
            "quoted_protocol": "ip.proto",
            "quoted_checksum": "ip.checksum",
            "quoted_src": "ip.src",
            "quoted_dst": "ip.dst",
            "quoted_options": NotShown("tshark shows each option, not all of them in one field"),
            "quoted_ports": Where(Computed(ports), quotes, QUOTE),
            "quoted_id": Where(Computed(after_ports), quotes, QUOTE),
        },
    )
]
